//! The metadata on its way in: carries out what [`broker_core::follow`] and [`broker_core::lanes`] want.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use broker_core::follow::{Effect, Event};
use broker_core::lanes::{self, Action};
use broker_core::lifecycle;
use broker_core::replica::MinInSync;
use metadata::ids::MetadataOffset;
use metadata::image::Image;

use super::{Broker, CLUSTER, Later};
use crate::controller;
use crate::fact::Fact;
use crate::message::{Purpose, StreamKey, Word};
use crate::node::{At, Output};

/// A lane takes this long to carry out a change, at most.
const LANE_MAX: Duration = Duration::from_millis(3);

impl Broker {
    pub(super) fn follow_metadata(&mut self, at: At, event: Event, out: &mut Vec<Output>) {
        let now = self.now(at);
        for effect in self.follower.step(event, now) {
            match effect {
                Effect::Open {
                    stream,
                    next_offset,
                    last_term,
                } => {
                    let controllers = &self.config.controllers;
                    let to = controllers[self.next_follow % controllers.len()];
                    self.next_follow += 1;
                    let key = self.stream();
                    self.follow_stream = Some((key, stream));
                    let purpose = Purpose::Follow {
                        next_offset,
                        last_term,
                    };
                    out.push(Output::Open(key, controller::node(to), purpose));
                }
                Effect::Close { .. } => {
                    if let Some((key, _)) = self.follow_stream.take() {
                        out.push(Output::Close(key));
                    }
                }
                Effect::ClusterKnown(_) => {}
                Effect::Publish { before, after } => self.publish(at, &before, &after, out),
                Effect::Applied(below) => {
                    let lanes = self.lanes.iter().map(|image| image.next_offset).collect();
                    out.push(Output::Fact(Fact::Applied {
                        by: self.incarnation,
                        below,
                        lanes,
                    }));
                    self.live(at, lifecycle::Event::Applied(below), out);
                    self.tell_of_leadership(at);
                    if lifecycle::other_leaves(&self.lanes[0], self.config.me) {
                        self.live(at, lifecycle::Event::OtherLeaves, out);
                    }
                }
                Effect::ActiveIs(active) => self.active = Some(active),
                Effect::LineageDiffers { held } => {
                    self.alarm(format!("the lineage differs from {held:?}"), out);
                }
                Effect::Stop(fault) => self.alarm(format!("following ended: {fault}"), out),
            }
        }
    }

    fn publish(&mut self, at: At, before: &Arc<Image>, after: &Arc<Image>, out: &mut Vec<Output>) {
        if before.next_offset == MetadataOffset(0) {
            self.set_strays_aside(after, out);
        }
        out.push(Output::Fact(Fact::Published {
            by: self.incarnation,
            image: Arc::clone(after),
        }));
        for lane in 0..self.lanes.len() {
            let due = self.lanes_free_at[lane].max(at.world) + self.chance.span(Duration::ZERO, LANE_MAX);
            self.lanes_free_at[lane] = due;
            self.later.put(due, Later::Lane(lane, Arc::clone(after)));
        }
        self.look_at_held(at, out);
    }

    pub(super) fn lane_takes_in(&mut self, at: At, lane: usize, image: Arc<Image>, out: &mut Vec<Output>) {
        let count = NonZeroUsize::new(self.lanes.len()).expect("there are lanes");
        let actions = lanes::plan(&self.lanes[lane], &image, self.config.me, MinInSync(1));
        for action in actions {
            if lanes::lane_of(action.partition(), count) == lane {
                self.act(at, action, &image, out);
            }
            if self.stopped {
                return;
            }
        }
        let next_offset = image.next_offset;
        self.lanes[lane] = image;
        self.follow_metadata(at, Event::LaneApplied { lane, next_offset }, out);
    }

    fn act(&mut self, at: At, action: Action, image: &Arc<Image>, out: &mut Vec<Output>) {
        let partition = action.partition();
        match action {
            Action::Delete(_) | Action::Stop(_) => self.delete(at, partition, out),
            Action::Create(assignment)
            | Action::Lead(assignment)
            | Action::Follow(assignment)
            | Action::Refresh(assignment) => self.assigned(at, assignment, image, out),
            Action::Configure(_) => match self.unopened.get_mut(&partition) {
                Some((_, waiting_with)) => *waiting_with = Arc::clone(image),
                None => self.configure(partition, image, out),
            },
        }
    }

    pub(super) fn heard(&mut self, at: At, key: StreamKey, word: Word, out: &mut Vec<Output>) {
        if self.session == Some(key) {
            self.heard_session(at, word, out);
        } else if let Some((held, stream)) = self.follow_stream
            && held == key
        {
            let event = match word {
                Word::Hello(lineage) => Event::Hello {
                    stream,
                    cluster_id: CLUSTER.to_owned(),
                    lineage,
                },
                Word::Snapshot(piece) => Event::Snapshot {
                    stream,
                    piece: *piece,
                },
                Word::Batch(batch) => Event::Batch {
                    stream,
                    batch: (*batch).clone(),
                },
                Word::Progress {
                    committed_end,
                    term,
                    active,
                } => Event::Progress {
                    stream,
                    committed_end,
                    term,
                    active,
                },
                other => unreachable!("a controller never says {other:?} to followers"),
            };
            self.follow_metadata(at, event, out);
        } else if let Word::Request(request) = word {
            self.requested(at, key, request, out);
        }
    }
}

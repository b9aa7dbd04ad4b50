//! Carries out [`broker_core::follow`]: opens the stream of committed metadata, publishes images, hands their
//! differences to the lanes.
//!
//! Must not: decide what may be published, or wait for a lane.

use std::num::NonZeroUsize;
use std::sync::Arc;

use broker_core::follow::{Effect, Event, Fault, Follower, Lineage, Piece, Place, StreamId};
use broker_core::lanes;
use metadata::batch::MetadataBatch;
use metadata::dump::DumpHeader;
use metadata::ids::{ControllerId, MetadataOffset, Term};
use metadata::image::Image;
use metadata::record::Record;
use millrace_proto::v1;
use millrace_proto::v1::metadata_client::MetadataClient;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tracing::{debug, error, info};

use super::MESSAGE_BYTES_MAX;
use crate::node::Node;
use crate::stop::Reason;
use crate::storage::lane::{Event as LaneEvent, LaneHandle};
use crate::storage::shared::configured_min_in_sync;

/// What reaches the task beside the clock.
enum Incoming {
    Core(Event),
    Undecodable(metadata::codec::DecodeError),
}

/// Follows the metadata until the node stops.
pub struct Following {
    node: Arc<Node>,
    follower: Follower,
    lanes: Vec<LaneHandle>,
    lane_count: NonZeroUsize,
    applied: UnboundedSender<MetadataOffset>,
    sender: UnboundedSender<Incoming>,
    incoming: UnboundedReceiver<Incoming>,
    stream: Option<JoinHandle<()>>,
    first: bool,
}

impl Following {
    /// A follower that has not begun. `applied` is told how far every lane is.
    pub fn new(
        node: Arc<Node>,
        follower: Follower,
        lanes: Vec<LaneHandle>,
        applied: UnboundedSender<MetadataOffset>,
    ) -> Following {
        let (sender, incoming) = unbounded_channel();
        let lane_count = NonZeroUsize::new(lanes.len()).expect("there is a lane at least");
        Following {
            node,
            follower,
            lanes,
            lane_count,
            applied,
            sender,
            incoming,
            stream: None,
            first: true,
        }
    }

    /// Follows. Ends when the node cannot go on.
    pub async fn run(mut self) {
        let mut event = Event::Tick;
        loop {
            let now = self.node.now();
            for effect in self.follower.step(event, now) {
                if self.carry_out(effect).is_err() {
                    return;
                }
            }
            let pause = self.follower.next_tick().since(self.node.now());
            event = tokio::select! {
                incoming = self.incoming.recv() => match incoming {
                    Some(Incoming::Core(event)) => event,
                    Some(Incoming::Undecodable(why)) => {
                        error!(%why, "committed metadata cannot be read; this release is older than the cluster's");
                        self.node.stop.request(Reason::Metadata(why.to_string()));
                        return;
                    }
                    None => return,
                },
                () = tokio::time::sleep(pause) => Event::Tick,
            };
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), Fault> {
        match effect {
            Effect::Open {
                stream,
                next_offset,
                last_term,
            } => self.open(stream, next_offset, last_term),
            Effect::Close { .. } => self.close(),
            Effect::ClusterKnown(cluster_id) => info!(%cluster_id, "cluster known"),
            Effect::Publish { before, after } => self.publish(&before, &after),
            // Whoever listens lives as long as the node.
            Effect::Applied(offset) => {
                self.node.applied(offset);
                let _ = self.applied.send(offset);
            }
            Effect::ActiveIs(active) => debug!(%active, "active controller"),
            Effect::LineageDiffers { held } => {
                error!(
                    next_offset = held.next_offset.0,
                    term = held.last_term.0,
                    "the metadata held here was never committed by these controllers; theirs is taken over"
                );
            }
            Effect::Stop(fault) => {
                error!(%fault, "the metadata cannot be followed");
                self.node.stop.request(Reason::Metadata(fault.to_string()));
                return Err(fault);
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.abort();
        }
    }

    fn open(&mut self, stream: StreamId, next_offset: MetadataOffset, last_term: Term) {
        self.close();
        let (node, sender) = (Arc::clone(&self.node), self.sender.clone());
        let request = v1::FollowRequest {
            cluster_id: self.node.known_cluster_id(),
            next_offset: next_offset.0,
            last_term: last_term.0,
            broker: Some(self.node.id.0),
        };
        self.stream = Some(tokio::spawn(async move {
            let address = node.controllers.any();
            if let Err(status) = read_stream(&node, &address, stream, request, &sender).await {
                debug!(%address, %status, "metadata stream ended");
            }
            let _ = sender.send(Incoming::Core(Event::Closed { stream }));
        }));
    }

    fn publish(&mut self, before: &Arc<Image>, after: &Arc<Image>) {
        if std::mem::take(&mut self.first) {
            self.node.set_strays_aside(after);
        }
        let configured = configured_min_in_sync(&self.node.config);
        let mut shares: Vec<Vec<lanes::Action>> = vec![Vec::new(); self.lanes.len()];
        for action in lanes::plan(before, after, self.node.id, configured) {
            shares[lanes::lane_of(action.partition(), self.lane_count)].push(action);
        }
        for (index, actions) in shares.into_iter().enumerate() {
            let (sender, next_offset) = (self.sender.clone(), after.next_offset);
            let done = Box::new(move || {
                // The receiver lives as long as the node.
                let _ = sender.send(Incoming::Core(Event::LaneApplied {
                    lane: index,
                    next_offset,
                }));
            });
            self.lanes[index].send(LaneEvent::Metadata {
                actions,
                image: Arc::clone(after),
                done,
            });
        }
        // Lanes first: whoever sees this image and sends a lane something finds the lane ahead of it.
        self.node.publish(Arc::clone(after));
    }
}

async fn read_stream(
    node: &Node,
    address: &str,
    stream: StreamId,
    request: v1::FollowRequest,
    sender: &UnboundedSender<Incoming>,
) -> Result<(), tonic::Status> {
    let channel = node
        .controllers
        .channel(address)
        .map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let mut client = MetadataClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let mut events = client.follow(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        let Some(event) = event.event else { continue };
        let incoming = translated(node, stream, event);
        let ends = matches!(incoming, Incoming::Undecodable(_));
        if sender.send(incoming).is_err() || ends {
            break;
        }
    }
    Ok(())
}

fn translated(node: &Node, stream: StreamId, event: v1::follow_event::Event) -> Incoming {
    use v1::follow_event::Event as Said;
    match event {
        Said::Hello(hello) => {
            node.learn_cluster_id(&hello.cluster_id);
            let lineage = if hello.lineage_differs {
                Lineage::Differs
            } else {
                Lineage::Same
            };
            Incoming::Core(Event::Hello {
                stream,
                cluster_id: hello.cluster_id,
                lineage,
            })
        }
        Said::Snapshot(piece) => {
            let header = DumpHeader {
                next_offset: MetadataOffset(piece.next_offset),
                last_term: Term(piece.last_term),
            };
            let records: Result<Vec<Record>, _> =
                piece.records.iter().map(|bytes| Record::decode(bytes)).collect();
            let place = if piece.last { Place::Last } else { Place::Inner };
            match records {
                Ok(records) => Incoming::Core(Event::Snapshot {
                    stream,
                    piece: Piece {
                        header,
                        records,
                        place,
                    },
                }),
                Err(error) => Incoming::Undecodable(error),
            }
        }
        Said::Batch(bytes) => match MetadataBatch::decode(&bytes) {
            Ok(batch) => Incoming::Core(Event::Batch { stream, batch }),
            Err(error) => Incoming::Undecodable(error),
        },
        Said::Progress(progress) => {
            if let Some(active) = &progress.active {
                node.controllers.learn(active);
            }
            Incoming::Core(Event::Progress {
                stream,
                committed_end: MetadataOffset(progress.committed_end),
                term: Term(progress.term),
                active: progress.active.map(|active| ControllerId(active.id)),
            })
        }
    }
}

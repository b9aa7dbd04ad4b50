//! The broker's life: carries out what [`broker_core::lifecycle`] wants.

use broker_core::lifecycle::{Cause, CleanStop, Effect, Event, Fencing, HeartbeatAnswer, Refusal, Wish};
use controller_core::command::{Heartbeat, RegisterBroker};
use controller_core::refusal::Refusal as ControllerRefusal;
use metadata::ids::{BrokerEpoch, ControllerId, DirectoryId, IncarnationId};
use metadata::record::{Endpoint, SecurityProtocol};
use metadata::uuid::Uuid;
use partition_log::{CleanShutdown, Log, LogFault, TopicPartition};

use super::{Broker, CLUSTER};
use crate::controller;
use crate::marks::Mark;
use crate::message::{Purpose, StreamKey, Word};
use crate::node::{At, Exit, Output};

impl Broker {
    pub(super) fn live(&mut self, at: At, event: Event, out: &mut Vec<Output>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let now = self.now(at);
            for effect in self.lifecycle.step(event, now) {
                if let Some(next) = self.carry_life(effect, out) {
                    events.push(next);
                }
            }
        }
    }

    fn carry_life(&mut self, effect: Effect, out: &mut Vec<Output>) -> Option<Event> {
        match effect {
            Effect::OpenSession(prefer) => self.open_session(prefer, out),
            Effect::CloseSession => self.close_session(out),
            Effect::Register => {
                let word = Word::Register(Box::new(self.registration()));
                self.say(word, out);
            }
            Effect::Heartbeat(heartbeat) => {
                let word = Word::Heartbeat(Heartbeat {
                    broker: self.config.me,
                    epoch: heartbeat.epoch,
                    applied_end: heartbeat.applied_end,
                    want_fence: heartbeat.wish == Wish::StayFenced,
                    want_shutdown: heartbeat.wish == Wish::ShutDown,
                    offline_directories: heartbeat.offline_directories.into_iter().collect(),
                });
                self.say(word, out);
            }
            // The lanes open and recover their logs with the first image; only then is anything applied.
            Effect::RecoverLogs => return Some(Event::LogsRecovered),
            Effect::Serve | Effect::Fenced(Fencing::Unfenced) => {}
            Effect::Fenced(Fencing::Fenced) => out.push(Output::Mark(Mark::BrokerFenced)),
            Effect::Orphaned => self.fail("orphaned".to_owned(), out),
            Effect::Goodbye => {
                self.say(Word::Goodbye, out);
                self.close_session(out);
            }
            Effect::Stop(cause) => self.stop(&cause, out),
        }
        None
    }

    fn say(&self, word: Word, out: &mut Vec<Output>) {
        if let Some(session) = self.session {
            out.push(Output::Say(session, word));
        }
    }

    fn close_session(&mut self, out: &mut Vec<Output>) {
        if let Some(session) = self.session.take() {
            out.push(Output::Close(session));
        }
    }

    fn open_session(&mut self, prefer: Option<ControllerId>, out: &mut Vec<Output>) {
        self.close_session(out);
        let next = self.config.controllers[self.next_session % self.config.controllers.len()];
        if prefer.is_none() {
            self.next_session += 1;
        }
        let key = self.stream();
        self.session = Some(key);
        out.push(Output::Open(
            key,
            controller::node(prefer.unwrap_or(next)),
            Purpose::Session,
        ));
    }

    fn registration(&self) -> RegisterBroker {
        let found = self.clean_stop();
        let port = u16::try_from(9092 + self.config.me.0).expect("few brokers");
        RegisterBroker {
            broker: self.config.me,
            cluster_id: Some(CLUSTER.to_owned()),
            incarnation: self.id,
            endpoints: vec![Endpoint {
                listener: "PLAINTEXT".to_owned(),
                host: "sim".to_owned(),
                port,
                security: SecurityProtocol::Plaintext,
            }],
            features: metadata::feature::served(),
            rack: None,
            directories: vec![DirectoryId(Uuid::from_bytes(self.dir.id().0))],
            previous_epoch: found.as_ref().map(|stop| stop.epoch),
            unserved: found.map(|stop| stop.unserved).unwrap_or_default(),
        }
    }

    /// The mark of a clean shutdown that this process found.
    fn clean_stop(&self) -> Option<CleanStop> {
        let mark = self.dir.clean_shutdown()?;
        let id = |id: &partition_log::IncarnationId| IncarnationId(Uuid::from_bytes(id.0));
        Some(CleanStop {
            epoch: BrokerEpoch(mark.broker_epoch?),
            unserved: mark.unserved.iter().map(id).collect(),
        })
    }

    fn stop(&mut self, cause: &Cause, out: &mut Vec<Output>) {
        if *cause == Cause::Released {
            out.push(Output::Mark(Mark::CleanStop));
        }
        if let Err(fault) = self.close_logs() {
            return self.fail(format!("closing failed: {fault}"), out);
        }
        self.stopped = true;
        out.push(Output::Exit(Exit::Stopped(format!("{cause:?}"))));
    }

    /// Closes every log, writes the checkpoints and the mark of a clean shutdown (R1.15, L-24).
    fn close_logs(&mut self) -> Result<(), LogFault> {
        let owners = &self.owners;
        for (partition, hosted) in &mut self.hosted {
            if !owners.has(&hosted.name, partition.topic) {
                continue;
            }
            if let Some(job) = hosted.log.close()? {
                let synced = job.run()?;
                hosted.log.synced(synced);
            }
        }
        // The checkpoints tell of logs that were not opened, too.
        if !self.hosted.is_empty() {
            self.checkpoint()?;
        }
        if let Some(stop) = CleanStop::of(self.last_epoch, self.id, self.clean_stop()) {
            let id = |id: IncarnationId| partition_log::IncarnationId(id.0.to_bytes());
            self.dir.mark_clean(&CleanShutdown {
                broker_epoch: Some(stop.epoch.0),
                unserved: stop.unserved.into_iter().map(id).collect(),
            })?;
        }
        Ok(())
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), LogFault> {
        let of = |offset: fn(&Log) -> partition_log::Offset| -> Vec<(TopicPartition, partition_log::Offset)> {
            let named = self
                .hosted
                .iter()
                .filter(|(partition, _)| self.has_name(**partition));
            named
                .map(|(_, hosted)| (hosted.name.clone(), offset(&hosted.log)))
                .collect()
        };
        let points = of(Log::recovery_point);
        let starts = of(Log::log_start);
        let marks = of(|log| log.bounds().high_watermark);
        self.dir.write_recovery_points(&points)?;
        self.dir.write_log_starts(&starts)?;
        self.dir.write_high_watermarks(&marks)
    }

    /// The disk failed: with its only directory the process ends. A full disk is no failure.
    pub(super) fn disk_failed(&mut self, fault: &LogFault, out: &mut Vec<Output>) {
        match fault {
            LogFault::DiskFull { .. } => out.push(Output::Mark(Mark::DiskFull)),
            LogFault::Io { .. } => self.fail(format!("the disk failed: {fault}"), out),
            LogFault::Damaged { .. } => self.alarm(format!("damage where none was done: {fault}"), out),
        }
    }

    pub(super) fn heard_session(&mut self, at: At, word: Word, out: &mut Vec<Output>) {
        let event = match word {
            Word::Registered(epoch) => {
                self.last_epoch = Some(epoch);
                Event::Registered(epoch)
            }
            Word::HeartbeatAnswered(reply) => Event::HeartbeatAnswered(HeartbeatAnswer {
                is_caught_up: reply.is_caught_up,
                is_fenced: reply.is_fenced,
                should_shut_down: reply.should_shut_down,
            }),
            Word::Moved(active) => {
                self.session = None;
                Event::Moved(active)
            }
            Word::Refused(refusal, active) => Event::Refused(match *refusal {
                ControllerRefusal::NotActive => Refusal::NotActive { active },
                ControllerRefusal::StaleBrokerEpoch { .. } | ControllerRefusal::BrokerNotRegistered(_) => {
                    Refusal::StaleBrokerEpoch
                }
                ControllerRefusal::DuplicateBrokerRegistration { .. } => Refusal::DuplicateRegistration,
                ControllerRefusal::InconsistentClusterId { .. }
                | ControllerRefusal::InvalidRegistration { .. }
                | ControllerRefusal::UnsupportedVersion { .. } => {
                    self.alarm(format!("the registration was refused for good: {refusal}"), out);
                    Refusal::Final(refusal.to_string())
                }
                _ => Refusal::Unexpected,
            }),
            other => unreachable!("a controller never says {other:?} in a session"),
        };
        self.live(at, event, out);
    }

    pub(super) fn stream_closed(&mut self, at: At, key: StreamKey, out: &mut Vec<Output>) {
        if self.session == Some(key) {
            self.session = None;
            self.live(at, Event::SessionClosed, out);
        } else if let Some((held, stream)) = self.follow_stream
            && held == key
        {
            self.follow_stream = None;
            self.follow_metadata(at, broker_core::follow::Event::Closed { stream }, out);
        } else {
            self.client_left(at, key, out);
        }
    }
}

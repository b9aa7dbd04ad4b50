//! Who was heard when: the soft state of the active controller. It is never in the log; a failover starts it afresh.
//!
//! Must not write anything: what it finds lapsed becomes a command like any other.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use metadata::ids::{BrokerEpoch, BrokerId, MetadataOffset};
use metadata::image::Image;

use crate::driver::event::{FenceCause, StreamEnd, StreamId};
use crate::grace::Breaks;
use crate::settings::Settings;
use crate::time::Moment;

/// Sessions of brokers, keyed by broker and epoch (R1.8).
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    sessions: BTreeMap<BrokerId, Session>,
    streams: BTreeMap<StreamId, (BrokerId, BrokerEpoch)>,
    pub(crate) breaks: Breaks,
}

/// What is known of one incarnation.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) epoch: BrokerEpoch,
    pub(crate) last_contact: Moment,
    /// Every record below is applied there (R1.11).
    applied_end: Option<MetadataOffset>,
    /// Set while it shuts down: the end of the batch that began it (R1.25).
    shutdown_end: Option<MetadataOffset>,
    pub(crate) line: Line,
}

/// The session stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The session is older than this node's part in it, and nothing of it was heard here yet.
    Awaited,
    /// None was seen, or nothing follows from it any more: only contacts count.
    Unknown,
    Open {
        stream: StreamId,
        since: Moment,
    },
    /// The peer vanished.
    Broken {
        at: Moment,
        opened: Moment,
    },
    /// Nothing follows from the break but the full timeout.
    BrokenAndWaitedFor,
    /// The broker took leave.
    Goodbye,
}

/// Whether somebody holds a broker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// No live session, or its holder took leave.
    Free,
    /// The session is not over, yet its stream broke, or it never came to this controller and had the time to.
    StreamBroken,
    /// A live process holds it.
    Live,
}

/// A broker that must be fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// Which.
    pub broker: BrokerId,
    /// Its incarnation.
    pub epoch: BrokerEpoch,
    /// How long it was silent.
    pub silent: Duration,
    /// Why it is given up.
    pub cause: FenceCause,
}

impl Liveness {
    /// The state of a controller that just became active: every unfenced broker has a full fresh session, nobody has
    /// reported anything (R1.33).
    #[must_use]
    pub fn fresh(image: &Image, now: Moment) -> Self {
        let mut liveness = Self::default();
        liveness.ensure_sessions(image, now);
        liveness
    }

    /// Gives every unfenced broker a session that has none under its epoch, so that none can go silent unseen.
    pub fn ensure_sessions(&mut self, image: &Image, now: Moment) {
        for (id, broker) in image.brokers.iter().filter(|(_, broker)| !broker.fenced) {
            if self.session(*id, broker.epoch).is_none() {
                let session = Session {
                    line: Line::Awaited,
                    ..Session::new(broker.epoch, now)
                };
                self.sessions.insert(*id, session);
            }
        }
    }

    /// A heartbeat arrived.
    pub fn observe(
        &mut self,
        broker: BrokerId,
        epoch: BrokerEpoch,
        applied_end: Option<MetadataOffset>,
        arrived: Moment,
    ) {
        let session = self
            .sessions
            .entry(broker)
            .or_insert(Session::new(epoch, arrived));
        if session.epoch > epoch {
            return;
        }
        if session.epoch < epoch {
            *session = Session::new(epoch, arrived);
        }
        session.last_contact = session.last_contact.max(arrived);
        session.applied_end = applied_end.or(session.applied_end);
        if matches!(session.line, Line::Goodbye | Line::Awaited) {
            session.line = Line::Unknown;
        }
    }

    /// Something of this incarnation came on a stream. The newest stream counts: brokers open the next one before
    /// they close the last.
    pub fn heard_on(&mut self, stream: StreamId, broker: BrokerId, epoch: BrokerEpoch, arrived: Moment) {
        self.streams.insert(stream, (broker, epoch));
        let Some(session) = self.sessions.get_mut(&broker).filter(|it| it.epoch == epoch) else {
            return;
        };
        let is_same = matches!(session.line, Line::Open { stream: known, .. } if known == stream);
        if !is_same {
            session.line = Line::Open {
                stream,
                since: arrived,
            };
        }
    }

    /// A stream ended.
    pub fn stream_closed(&mut self, stream: StreamId, end: StreamEnd, now: Moment) {
        let Some((broker, epoch)) = self.streams.remove(&stream) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&broker).filter(|it| it.epoch == epoch) else {
            return;
        };
        let Line::Open { stream: known, since } = session.line else {
            return;
        };
        if known != stream {
            return;
        }
        session.line = match end {
            StreamEnd::Goodbye => Line::Goodbye,
            StreamEnd::ClosedHere => Line::Unknown,
            StreamEnd::Broken => {
                self.breaks.note(broker, now);
                Line::Broken {
                    at: now,
                    opened: since,
                }
            }
        };
    }

    /// Whether a live process holds this id under this epoch.
    ///
    /// A controller that has just become active knows no stream of anybody. A live broker has the grace time of a
    /// broken stream to come back to it; one that is not heard by then is in no better place than one whose stream
    /// broke here. Without the grace a second process could take the id of one that is on its way.
    #[must_use]
    pub fn hold(&self, broker: BrokerId, epoch: BrokerEpoch, now: Moment, settings: &Settings) -> Hold {
        let Some(session) = self.session(broker, epoch) else {
            return Hold::Free;
        };
        let silent = now.since(session.last_contact);
        if silent > settings.session_timeout {
            return Hold::Free;
        }
        match session.line {
            Line::Goodbye => Hold::Free,
            Line::Awaited if silent >= settings.disconnect_grace => Hold::StreamBroken,
            Line::Awaited => Hold::Live,
            Line::Broken { .. } | Line::BrokenAndWaitedFor => Hold::StreamBroken,
            Line::Unknown | Line::Open { .. } => Hold::Live,
        }
    }

    /// The broker enters controlled shutdown with the batch that ends at `end`; the first one counts.
    pub fn enter_shutdown(&mut self, broker: BrokerId, epoch: BrokerEpoch, end: MetadataOffset) {
        if let Some(session) = self.sessions.get_mut(&broker).filter(|it| it.epoch == epoch) {
            session.shutdown_end = session.shutdown_end.or(Some(end));
        }
    }

    /// Forgets shutdowns that began with batches that never came to be.
    pub fn forget_shutdowns_past(&mut self, committed_end: MetadataOffset) {
        for session in self.sessions.values_mut() {
            session.shutdown_end = session.shutdown_end.filter(|end| *end <= committed_end);
        }
    }

    /// Where the controlled shutdown of this incarnation began, if it did.
    #[must_use]
    pub fn shutdown_end(&self, broker: BrokerId, epoch: BrokerEpoch) -> Option<MetadataOffset> {
        self.session(broker, epoch)?.shutdown_end
    }

    /// Whether every active broker has applied everything below `end`. One that has reported nothing yet has not
    /// (R1.25, R1.33).
    #[must_use]
    pub fn all_active_have_applied(&self, image: &Image, end: MetadataOffset) -> bool {
        image
            .brokers
            .iter()
            .filter(|(id, broker)| !broker.fenced && self.shutdown_end(**id, broker.epoch).is_none())
            .all(|(id, broker)| {
                let applied = self
                    .session(*id, broker.epoch)
                    .and_then(|session| session.applied_end);
                applied.is_some_and(|applied| applied >= end)
            })
    }

    /// The session is over: the broker was fenced, replaced or removed.
    pub fn end(&mut self, broker: BrokerId) {
        self.sessions.remove(&broker);
    }

    /// The driver did not run for a while. What it could not hear in that time does not count as silence.
    pub fn driver_lagged(&mut self, lag: Duration, now: Moment) {
        self.breaks.driver_lagged(now);
        for session in self.sessions.values_mut() {
            session.last_contact = session.last_contact.plus(lag).min(now);
        }
    }

    /// Brokers that must be fenced now, the most silent first; brokers that are fenced already only lose their
    /// session (R1.30, R1.31).
    pub fn sweep(&mut self, image: &Image, settings: &Settings, now: Moment) -> Vec<Lapse> {
        self.breaks.forget_old(now);
        let mut lapses: Vec<Lapse> = self
            .sessions
            .iter()
            .filter(|(_, session)| now.since(session.last_contact) > settings.session_timeout)
            .map(|(id, session)| session.lapse(*id, now, FenceCause::SessionLapsed))
            .collect();
        lapses.extend(self.broken_past_grace(image, settings, now));
        lapses.extend(self.took_leave(settings, now));
        let is_unfenced = |lapse: &Lapse| {
            let registration = image.brokers.get(&lapse.broker);
            registration.is_some_and(|broker| broker.epoch == lapse.epoch && !broker.fenced)
        };
        for lapse in &lapses {
            if !is_unfenced(lapse) {
                self.sessions.remove(&lapse.broker);
            }
        }
        lapses.retain(is_unfenced);
        lapses.sort_by_key(|lapse| (std::cmp::Reverse(lapse.silent), lapse.broker));
        lapses
    }

    fn broken_past_grace(&mut self, image: &Image, settings: &Settings, now: Moment) -> Vec<Lapse> {
        let mut lapses = Vec::new();
        for (id, session) in &mut self.sessions {
            let Line::Broken { at, .. } = session.line else {
                continue;
            };
            let silent = now.since(session.last_contact);
            if now.since(at) < settings.disconnect_grace || silent > settings.session_timeout {
                continue;
            }
            if self.breaks.justify(*id, session, image, settings, now) {
                lapses.push(session.lapse(*id, now, FenceCause::StreamBroken));
                self.breaks.note_fenced(*id, now);
            } else {
                session.line = Line::BrokenAndWaitedFor;
            }
        }
        lapses
    }

    /// A broker that was let go is fenced when it takes leave. One that was not will not be heard again either: its
    /// disks failed, its controlled shutdown took too long.
    fn took_leave(&self, settings: &Settings, now: Moment) -> Vec<Lapse> {
        let live = |session: &Session| now.since(session.last_contact) <= settings.session_timeout;
        self.sessions
            .iter()
            .filter(|(_, session)| session.line == Line::Goodbye && live(session))
            .map(|(id, session)| session.lapse(*id, now, FenceCause::TookLeave))
            .collect()
    }

    fn session(&self, broker: BrokerId, epoch: BrokerEpoch) -> Option<&Session> {
        self.sessions
            .get(&broker)
            .filter(|session| session.epoch == epoch)
    }
}

impl Session {
    fn new(epoch: BrokerEpoch, now: Moment) -> Self {
        Self {
            epoch,
            last_contact: now,
            applied_end: None,
            shutdown_end: None,
            line: Line::Unknown,
        }
    }

    fn lapse(&self, broker: BrokerId, now: Moment, cause: FenceCause) -> Lapse {
        Lapse {
            broker,
            epoch: self.epoch,
            silent: now.since(self.last_contact),
            cause,
        }
    }
}

/// Moments of one kind, none older than a horizon.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent(VecDeque<Moment>);

impl Recent {
    pub(crate) fn note(&mut self, now: Moment) {
        self.0.push_back(now);
    }

    pub(crate) fn forget_before(&mut self, now: Moment, horizon: Duration) {
        while self.0.front().is_some_and(|at| now.since(*at) > horizon) {
            self.0.pop_front();
        }
    }

    pub(crate) fn count_since(&self, from: Moment) -> usize {
        self.0.iter().filter(|at| **at >= from).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

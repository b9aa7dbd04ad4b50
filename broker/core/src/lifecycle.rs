//! The life of a broker, from its registration to its orderly end (R1.10 to R1.16, R1.24 to R1.27).
//!
//! ```text
//!  Registering ─► CatchingUp ─► Recovering ─► Unfencing ─► Running ─► ShuttingDown ─► Stopped
//! ```
//!
//! At any time one question at most is open: a registration or a heartbeat (R1.13). The session with the active
//! controller comes and goes beneath; losing it changes nothing but where the next question is asked.

mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use metadata::ids::{BrokerEpoch, BrokerId, ControllerId, DirectoryId, IncarnationId, MetadataOffset};
use metadata::image::{Broker, Image};

use self::session::{Answered, Session};
use crate::time::Moment;

/// While catching up, heartbeats ask often whether it is enough (R1.10).
const CATCH_UP_INTERVAL: Duration = Duration::from_millis(10);
/// The first "not yet" during a shutdown is asked again soon: leaders move fast (R1.27). From then on the pause
/// doubles: the others report at once that they have applied the moves, so the next question may well be the last.
const FIRST_SHUTDOWN_RETRY: Duration = Duration::from_millis(50);
/// The longest such pause (R1.27).
const SHUTDOWN_RETRY_MAX: Duration = Duration::from_secs(2);
/// A controlled shutdown takes no longer than this (R1.27).
const SHUTDOWN_MAX: Duration = Duration::from_secs(300);
/// Requests to stop that come so soon after the first are the same one: a launcher that is killed makes the kernel send it
/// once for each of its threads.
const SAME_REQUEST: Duration = Duration::from_millis(500);
/// An id that is still held is asked for again so soon: a broken stream of the old process frees it (R1.9).
const DUPLICATE_RETRY: Duration = Duration::from_millis(500);

/// Configured times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`. Whoever was not heard for so long is fenced by whichever controller is active, so a
    /// shutdown that no controller answers need not take longer.
    pub session_timeout: Duration,
    /// `initial.broker.registration.timeout.ms`.
    pub registration_timeout: Duration,
    /// `log.dir.failure.timeout.ms`.
    pub directory_failure_timeout: Duration,
}

/// What a broker asks of the controller with a heartbeat (R1.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To stay fenced: it is not ready.
    StayFenced,
    /// To be, or stay, unfenced.
    BeUnfenced,
    /// To leave in order.
    ShutDown,
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// This incarnation.
    pub epoch: BrokerEpoch,
    /// Everything below is applied by every lane; absent before the first publish (R1.11).
    pub applied_end: Option<MetadataOffset>,
    /// What is asked for.
    pub wish: Wish,
    /// Every directory that failed since the start (R1.14).
    pub offline_directories: BTreeSet<DirectoryId>,
}

/// Why the controller refuses a registration or a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not the active one.
    NotActive {
        /// Who is, as far as it knows.
        active: Option<ControllerId>,
    },
    /// The registration is another incarnation's, or gone (R1.21).
    StaleBrokerEpoch,
    /// A live process holds the id.
    DuplicateRegistration,
    /// Never to be cured by asking again: another cluster, an impossible registration, a missing feature.
    Final(String),
    /// Anything else.
    Unexpected,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session stream is open.
    SessionOpened,
    /// It ended without being asked to, or could not be opened.
    SessionClosed,
    /// The controller took the registration.
    Registered(BrokerEpoch),
    /// The controller refused what was asked last.
    Refused(Refusal),
    /// The controller answered a heartbeat.
    HeartbeatAnswered(HeartbeatAnswer),
    /// The controller ended the session, being no longer active.
    Moved(Option<ControllerId>),
    /// Every lane has applied the metadata below this.
    Applied(MetadataOffset),
    /// Another broker waits until this one has applied that it leaves (R1.25): the controller must hear of it now, not
    /// with the next heartbeat.
    OtherLeaves,
    /// The first image is published, the logs are recovered, every lane is ready.
    LogsRecovered,
    /// A log directory failed.
    DirectoryFailed(DirectoryId),
    /// Every log directory failed.
    EveryDirectoryFailed,
    /// The process is asked to stop. Once more: not to wait for the controller any longer.
    ShutdownAsked,
    /// Time has passed.
    Tick,
}

/// The controller's answer to a heartbeat (R1.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The broker has applied its own registration.
    pub is_caught_up: bool,
    /// The broker is fenced.
    pub is_fenced: bool,
    /// The broker may stop now.
    pub should_shut_down: bool,
}

/// What must be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a session: with this controller if it is named, else with the next in the list.
    OpenSession(Option<ControllerId>),
    /// Drop the session.
    CloseSession,
    /// Ask to be registered.
    Register,
    /// Send a heartbeat.
    Heartbeat(Heartbeat),
    /// Caught up: recover the logs and start the lanes; report [`Event::LogsRecovered`].
    RecoverLogs,
    /// Unfenced for the first time: serve clients.
    Serve,
    /// The controller fenced this broker, or took that back.
    Fenced(Fencing),
    /// Another incarnation holds the id, or an operator removed it: a human must look (R1.12).
    Orphaned,
    /// A last word, so that the end of the session is not taken for a crash.
    Goodbye,
    /// Close the logs, write the clean-shutdown mark, end the process (R1.15, R1.16).
    Stop(Cause),
}

/// Whether the broker is fenced, as the controller told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// It is.
    Fenced,
    /// It is not.
    Unfenced,
}

/// Why a broker stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The controller let it go.
    Released,
    /// It held nothing yet that would have to be handed over.
    NothingToHandOver,
    /// The controller did not let it go in time (R1.27).
    ShutdownTimedOut,
    /// No controller answered within a session timeout, so nobody is there to let it go (R1.27).
    NoControllerAnswers,
    /// It was asked to stop again while it waited to be let go.
    AskedAgain,
    /// Its registration is gone, so nobody can let it go.
    Orphaned,
    /// It could not register in time.
    RegistrationTimedOut,
    /// It must not register.
    RegistrationRefused(String),
    /// A failed directory could not be reported in time (R1.14).
    DirectoryFailureNotReported(DirectoryId),
    /// None of its log directories works any more (L-55).
    EveryDirectoryFailed,
}

/// Where a broker is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Asks for its epoch, until this moment.
    Registering {
        /// When it gives up.
        give_up_at: Moment,
    },
    /// Waits until it has applied its own registration.
    CatchingUp(BrokerEpoch),
    /// Its logs are being recovered.
    Recovering(BrokerEpoch),
    /// Waits to be trusted.
    Unfencing(BrokerEpoch),
    /// Serves.
    Running(BrokerEpoch, Fencing),
    /// Hands its leaderships over.
    ShuttingDown {
        /// This incarnation.
        epoch: BrokerEpoch,
        /// When it stops anyway.
        give_up_at: Moment,
        /// When it stops unless a controller answers before.
        unheard_at: Moment,
        /// From when on another request to stop is a second one.
        again_from: Moment,
        /// How often it was told "not yet".
        refused: u32,
    },
    /// It has stopped.
    Stopped,
}

/// What a broker that ends in order leaves in its directories; the next process brings it to the controller (R1.15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanStop {
    /// Of the last process that served from these directories.
    pub epoch: BrokerEpoch,
    /// The processes since then that were stopped before they heard of an epoch of their own, the last one last. Each
    /// may still come to be registered, when its controller gets to it; it led nothing and was in no in-sync set.
    pub unserved: Vec<IncarnationId>,
}

/// As many processes are remembered. One that is not merely counts as one after a kill.
const UNSERVED_MAX: usize = 16;

impl CleanStop {
    /// The mark of process `me`, which found the mark `found`: with its `own` epoch or, where it heard of none and so has
    /// served nothing, the one that it found. Nothing where nobody knows what lies there.
    #[must_use]
    pub fn of(own: Option<BrokerEpoch>, me: IncarnationId, found: Option<CleanStop>) -> Option<CleanStop> {
        if let Some(epoch) = own {
            let unserved = Vec::new();
            return Some(CleanStop { epoch, unserved });
        }
        let mut stop = found?;
        stop.unserved.push(me);
        let too_many = stop.unserved.len().saturating_sub(UNSERVED_MAX);
        stop.unserved.drain(..too_many);
        Some(stop)
    }
}

/// Whether a broker other than `me` hands its leaderships over, and so waits for what the others have applied.
#[must_use]
pub fn other_leaves(image: &Image, me: BrokerId) -> bool {
    let leaves = |(id, broker): (&BrokerId, &Arc<Broker>)| {
        *id != me && broker.in_controlled_shutdown && !broker.fenced
    };
    image.brokers.iter().any(leaves)
}

/// A broker's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    timing: Timing,
    phase: Phase,
    session: Session,
    applied: Option<MetadataOffset>,
    /// With the moment of failure while it is not reported.
    offline: BTreeSet<DirectoryId>,
    unreported: Option<(DirectoryId, Moment)>,
}

impl Lifecycle {
    /// A process that starts. Ask it with [`Event::Tick`] to begin.
    #[must_use]
    pub fn new(timing: Timing, now: Moment) -> Self {
        Self {
            phase: Phase::Registering {
                give_up_at: now.after(timing.registration_timeout),
            },
            session: Session::new(now),
            timing,
            applied: None,
            offline: BTreeSet::new(),
            unreported: None,
        }
    }

    /// Where the broker is in its life.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// This incarnation, once registered.
    #[must_use]
    pub fn epoch(&self) -> Option<BrokerEpoch> {
        match &self.phase {
            Phase::CatchingUp(epoch)
            | Phase::Recovering(epoch)
            | Phase::Unfencing(epoch)
            | Phase::Running(epoch, _)
            | Phase::ShuttingDown { epoch, .. } => Some(*epoch),
            Phase::Registering { .. } | Phase::Stopped => None,
        }
    }

    /// When [`Event::Tick`] is due next.
    #[must_use]
    pub fn next_tick(&self) -> Option<Moment> {
        let give_up_at = match &self.phase {
            Phase::Stopped => return None,
            Phase::Registering { give_up_at } => Some(*give_up_at),
            Phase::ShuttingDown {
                give_up_at,
                unheard_at,
                ..
            } => Some(*give_up_at.min(unheard_at)),
            Phase::CatchingUp(_) | Phase::Recovering(_) | Phase::Unfencing(_) | Phase::Running(..) => None,
        };
        let report_by = self
            .unreported
            .map(|(_, failed_at)| failed_at.after(self.timing.directory_failure_timeout));
        let session = self.session.next_tick(self.timing.heartbeat_interval);
        [give_up_at, report_by, Some(session)].into_iter().flatten().min()
    }

    /// Takes in one event.
    #[must_use]
    pub fn step(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        if self.phase == Phase::Stopped {
            return Vec::new();
        }
        let mut effects = match event {
            Event::SessionOpened => {
                self.session.opened(now);
                Vec::new()
            }
            Event::SessionClosed => {
                self.session.closed(now);
                Vec::new()
            }
            Event::Moved(active) => self.session.move_to(active, now),
            Event::Registered(epoch) => self.registered(epoch, now),
            Event::Refused(refusal) => self.refused(refusal, now),
            Event::HeartbeatAnswered(answer) => self.heartbeat_answered(answer, now),
            Event::Applied(offset) => {
                self.applied = self.applied.max(Some(offset));
                Vec::new()
            }
            Event::OtherLeaves => {
                self.session.ask_at_once(now);
                Vec::new()
            }
            Event::LogsRecovered => {
                if let Phase::Recovering(epoch) = self.phase {
                    self.phase = Phase::Unfencing(epoch);
                    self.session.ask_at_once(now);
                }
                Vec::new()
            }
            Event::DirectoryFailed(directory) => {
                self.offline.insert(directory);
                self.unreported.get_or_insert((directory, now));
                self.session.ask_at_once(now);
                Vec::new()
            }
            // Nothing is left that it could serve or hand over: the goodbye moves what it leads at once.
            Event::EveryDirectoryFailed => self.stop(Cause::EveryDirectoryFailed),
            Event::ShutdownAsked => self.shutdown_asked(now),
            Event::Tick => self.expired(now),
        };
        if self.phase != Phase::Stopped {
            effects.extend(self.ask(now));
        }
        effects
    }

    /// Asks the next question if it is due and there is a session to ask it in.
    fn ask(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = self.session.tend(now, self.timing.heartbeat_interval);
        if !self.session.is_due(now) {
            return effects;
        }
        self.session.asked(now, self.offline.len());
        let wish = match &self.phase {
            Phase::Registering { .. } => {
                effects.push(Effect::Register);
                return effects;
            }
            Phase::CatchingUp(_) | Phase::Recovering(_) => Wish::StayFenced,
            Phase::Unfencing(_) | Phase::Running(..) => Wish::BeUnfenced,
            Phase::ShuttingDown { .. } => Wish::ShutDown,
            Phase::Stopped => return effects,
        };
        effects.push(Effect::Heartbeat(Heartbeat {
            epoch: self
                .epoch()
                .expect("every phase that sends heartbeats has an epoch"),
            applied_end: self.applied,
            wish,
            offline_directories: self.offline.clone(),
        }));
        effects
    }

    fn registered(&mut self, epoch: BrokerEpoch, now: Moment) -> Vec<Effect> {
        if matches!(self.phase, Phase::Registering { .. }) && self.session.answered(now).is_some() {
            self.phase = Phase::CatchingUp(epoch);
        }
        Vec::new()
    }

    fn refused(&mut self, refusal: Refusal, now: Moment) -> Vec<Effect> {
        if self.session.answered(now).is_none() {
            return Vec::new();
        }
        let again_at = now.after(self.timing.heartbeat_interval);
        self.session.ask_at(again_at);
        // One that is not active can let nobody go, so its word is none.
        if !matches!(refusal, Refusal::NotActive { .. }) {
            self.heard(again_at);
        }
        match refusal {
            Refusal::NotActive { active } => self.session.move_to(active, now),
            Refusal::DuplicateRegistration => {
                self.session.ask_at(now.after(DUPLICATE_RETRY));
                Vec::new()
            }
            Refusal::StaleBrokerEpoch if matches!(self.phase, Phase::ShuttingDown { .. }) => {
                self.stop(Cause::Orphaned)
            }
            Refusal::StaleBrokerEpoch => vec![Effect::Orphaned],
            Refusal::Final(reason) if matches!(self.phase, Phase::Registering { .. }) => {
                self.stop(Cause::RegistrationRefused(reason))
            }
            Refusal::Final(_) | Refusal::Unexpected => Vec::new(),
        }
    }

    fn heartbeat_answered(&mut self, answer: HeartbeatAnswer, now: Moment) -> Vec<Effect> {
        let Some(Answered { offline }) = self.session.answered(now) else {
            return Vec::new();
        };
        if offline == self.offline.len() {
            self.unreported = None;
        }
        let mut again_after = self.timing.heartbeat_interval;
        let told = if answer.is_fenced {
            Fencing::Fenced
        } else {
            Fencing::Unfenced
        };
        let mut effects = Vec::new();
        match &mut self.phase {
            Phase::CatchingUp(epoch) if answer.is_caught_up => {
                self.phase = Phase::Recovering(*epoch);
                effects.push(Effect::RecoverLogs);
            }
            Phase::CatchingUp(_) => again_after = CATCH_UP_INTERVAL,
            Phase::Unfencing(epoch) if told == Fencing::Unfenced => {
                self.phase = Phase::Running(*epoch, told);
                effects.push(Effect::Serve);
            }
            Phase::Running(_, held) if *held != told => {
                *held = told;
                effects.push(Effect::Fenced(told));
            }
            Phase::ShuttingDown { .. } if answer.should_shut_down => return self.stop(Cause::Released),
            Phase::ShuttingDown { refused, .. } => {
                let doubled = FIRST_SHUTDOWN_RETRY * (1 << (*refused).min(10));
                again_after = doubled.min(SHUTDOWN_RETRY_MAX);
                *refused += 1;
            }
            Phase::Registering { .. }
            | Phase::Recovering(_)
            | Phase::Unfencing(_)
            | Phase::Running(..)
            | Phase::Stopped => {}
        }
        let again_at = now.after(again_after);
        self.heard(again_at);
        self.session.ask_at(again_at);
        effects
    }

    /// The active controller is there, and is asked again at `again_at`: only from then on can it be silent.
    fn heard(&mut self, again_at: Moment) {
        if let Phase::ShuttingDown { unheard_at, .. } = &mut self.phase {
            *unheard_at = again_at.after(self.timing.session_timeout);
        }
    }

    fn shutdown_asked(&mut self, now: Moment) -> Vec<Effect> {
        match self.phase {
            Phase::Unfencing(epoch) | Phase::Running(epoch, _) => {
                let give_up_at = now.after(SHUTDOWN_MAX);
                self.phase = Phase::ShuttingDown {
                    epoch,
                    give_up_at,
                    unheard_at: now.after(self.timing.session_timeout),
                    again_from: now.after(SAME_REQUEST),
                    refused: 0,
                };
                self.session.ask_at_once(now);
                Vec::new()
            }
            Phase::ShuttingDown { again_from, .. } if now < again_from => Vec::new(),
            Phase::ShuttingDown { .. } => self.stop(Cause::AskedAgain),
            Phase::Stopped => Vec::new(),
            Phase::Registering { .. } | Phase::CatchingUp(_) | Phase::Recovering(_) => {
                self.stop(Cause::NothingToHandOver)
            }
        }
    }

    fn expired(&mut self, now: Moment) -> Vec<Effect> {
        match self.phase {
            Phase::Registering { give_up_at } if give_up_at <= now => {
                return self.stop(Cause::RegistrationTimedOut);
            }
            Phase::ShuttingDown { give_up_at, .. } if give_up_at <= now => {
                return self.stop(Cause::ShutdownTimedOut);
            }
            Phase::ShuttingDown { unheard_at, .. } if unheard_at <= now => {
                return self.stop(Cause::NoControllerAnswers);
            }
            _ => {}
        }
        match self.unreported {
            Some((directory, failed_at)) if failed_at.after(self.timing.directory_failure_timeout) <= now => {
                self.stop(Cause::DirectoryFailureNotReported(directory))
            }
            _ => Vec::new(),
        }
    }

    fn stop(&mut self, cause: Cause) -> Vec<Effect> {
        self.phase = Phase::Stopped;
        vec![Effect::Goodbye, Effect::Stop(cause)]
    }
}

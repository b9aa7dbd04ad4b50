//! A broker's life as transcripts: what happens on the left, what the broker does on the right.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::uuid::Uuid;

use super::*;
use crate::testing::at;

const EPOCH: BrokerEpoch = BrokerEpoch(7);

fn timing() -> Timing {
    Timing {
        heartbeat_interval: Duration::from_secs(2),
        session_timeout: Duration::from_secs(9),
        registration_timeout: Duration::from_secs(60),
        directory_failure_timeout: Duration::from_secs(30),
    }
}

fn said(effect: &Effect) -> String {
    match effect {
        Effect::OpenSession(None) => "open".to_owned(),
        Effect::OpenSession(Some(to)) => format!("open {to}"),
        Effect::CloseSession => "close".to_owned(),
        Effect::Register => "register".to_owned(),
        Effect::Heartbeat(beat) => {
            let failed = beat.offline_directories.len();
            let failed = if failed == 0 {
                String::new()
            } else {
                format!(" failed={failed}")
            };
            let applied = beat
                .applied_end
                .map_or("nothing".to_owned(), |end| end.to_string());
            format!("heartbeat {:?} applied={applied}{failed}", beat.wish)
        }
        Effect::RecoverLogs => "recover".to_owned(),
        Effect::Serve => "serve".to_owned(),
        Effect::Fenced(fencing) => format!("{fencing:?}"),
        Effect::Orphaned => "orphaned".to_owned(),
        Effect::Goodbye => "goodbye".to_owned(),
        Effect::Stop(cause) => format!("stop {cause:?}"),
    }
}

struct Life(Lifecycle);

impl Life {
    fn begins() -> Self {
        Self(Lifecycle::new(timing(), at(0)))
    }

    fn step(&mut self, ms: u64, event: Event) -> String {
        self.0
            .step(event, at(ms))
            .iter()
            .map(said)
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn answer(&mut self, ms: u64, caught_up: Caught, fenced: Fencing, leave: Leave) -> String {
        self.step(
            ms,
            Event::HeartbeatAnswered(HeartbeatAnswer {
                is_caught_up: caught_up == Caught::Up,
                is_fenced: fenced == Fencing::Fenced,
                should_shut_down: leave == Leave::Now,
            }),
        )
    }

    fn due(&self) -> Moment {
        self.0.next_tick().unwrap()
    }

    /// Serves since 100 ms; the next heartbeat is due at 2100 ms.
    fn running() -> Self {
        let mut life = Self::begins();
        life.step(0, Event::Tick);
        life.step(1, Event::SessionOpened);
        life.step(2, Event::Registered(EPOCH));
        life.answer(3, Caught::Up, Fencing::Fenced, Leave::NotYet);
        life.step(99, Event::LogsRecovered);
        life.answer(100, Caught::Up, Fencing::Unfenced, Leave::NotYet);
        assert_eq!(life.0.phase(), &Phase::Running(EPOCH, Fencing::Unfenced));
        life
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Caught {
    Up,
    Behind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Now,
    NotYet,
}

/// R1.10.
#[test]
fn a_broker_starts_step_by_step() {
    let mut life = Life::begins();
    assert_eq!(life.step(0, Event::Tick), "open");
    assert_eq!(life.step(5, Event::SessionOpened), "register");
    assert_eq!(
        life.step(8, Event::Registered(EPOCH)),
        "heartbeat StayFenced applied=nothing"
    );
    assert_eq!(life.answer(9, Caught::Behind, Fencing::Fenced, Leave::NotYet), "");
    assert_eq!(life.due(), at(19), "asks often until it is caught up");
    assert_eq!(life.step(15, Event::Applied(MetadataOffset(40))), "");
    assert_eq!(life.step(19, Event::Tick), "heartbeat StayFenced applied=40");
    assert_eq!(
        life.answer(20, Caught::Up, Fencing::Fenced, Leave::NotYet),
        "recover"
    );
    assert_eq!(
        life.step(2020, Event::Tick),
        "heartbeat StayFenced applied=40",
        "heartbeats go on"
    );
    assert_eq!(life.answer(2021, Caught::Up, Fencing::Fenced, Leave::NotYet), "");
    assert_eq!(
        life.step(3000, Event::LogsRecovered),
        "heartbeat BeUnfenced applied=40",
        "at once"
    );
    assert_eq!(
        life.answer(3001, Caught::Up, Fencing::Unfenced, Leave::NotYet),
        "serve"
    );
    assert_eq!(life.due(), at(5001));
}

/// R1.13: what happens while a question is open is told right after its answer.
#[test]
fn one_question_is_open_at_a_time() {
    let mut life = Life::begins();
    life.step(0, Event::Tick);
    life.step(1, Event::SessionOpened);
    life.step(2, Event::Registered(EPOCH));
    life.answer(3, Caught::Up, Fencing::Fenced, Leave::NotYet);
    assert_eq!(
        life.step(2003, Event::Tick),
        "heartbeat StayFenced applied=nothing"
    );
    assert_eq!(life.step(2004, Event::LogsRecovered), "", "a heartbeat is open");
    assert_eq!(
        life.answer(2005, Caught::Up, Fencing::Fenced, Leave::NotYet),
        "heartbeat BeUnfenced applied=nothing"
    );
}

/// R1.9: an id that is still held is asked for again until it is free, or time is over.
#[test]
fn a_held_id_is_asked_for_again_until_time_is_over() {
    let mut life = Life::begins();
    life.step(0, Event::Tick);
    life.step(1, Event::SessionOpened);
    assert_eq!(life.step(2, Event::Refused(Refusal::DuplicateRegistration)), "");
    assert_eq!(life.due(), at(502));
    assert_eq!(life.step(502, Event::Tick), "register");
    life.step(503, Event::Refused(Refusal::Unexpected));
    assert_eq!(life.due(), at(2503), "anything else: after a heartbeat interval");
    assert_eq!(
        life.step(60_000, Event::Tick),
        "goodbye, stop RegistrationTimedOut"
    );
    assert_eq!(
        life.step(60_001, Event::Registered(EPOCH)),
        "",
        "a stopped broker stands still"
    );
}

#[test]
fn a_registration_that_can_never_succeed_ends_the_process() {
    let mut life = Life::begins();
    life.step(0, Event::Tick);
    life.step(1, Event::SessionOpened);
    let never = Refusal::Final("another cluster".to_owned());
    assert_eq!(
        life.step(2, Event::Refused(never)),
        "goodbye, stop RegistrationRefused(\"another cluster\")"
    );
}

/// The session moves; the broker stays what it is.
#[test]
fn a_controller_that_is_not_active_is_left_for_the_one_that_is() {
    let mut life = Life::running();
    assert_eq!(
        life.step(2100, Event::Tick),
        "heartbeat BeUnfenced applied=nothing"
    );
    let active = Some(ControllerId(3));
    assert_eq!(
        life.step(2101, Event::Refused(Refusal::NotActive { active })),
        "close, open 3"
    );
    assert_eq!(
        life.step(2105, Event::SessionOpened),
        "heartbeat BeUnfenced applied=nothing"
    );
    assert_eq!(life.0.epoch(), Some(EPOCH), "no new registration");
    life.answer(2106, Caught::Up, Fencing::Unfenced, Leave::NotYet);
    assert_eq!(
        life.step(2107, Event::Moved(None)),
        "close",
        "no name: try the next, a moment later"
    );
    assert_eq!(life.due(), at(2201));
    assert_eq!(life.step(2201, Event::Tick), "open");
}

/// A controller that hangs keeps its sockets open; its silence must not cost the session.
#[test]
fn an_unanswered_heartbeat_looks_for_another_controller() {
    let mut life = Life::running();
    life.step(2100, Event::Tick);
    assert_eq!(life.step(4100, Event::Tick), "close, open");
    assert_eq!(
        life.step(4102, Event::SessionOpened),
        "heartbeat BeUnfenced applied=nothing"
    );
}

#[test]
fn a_broken_session_is_replaced_at_once() {
    let mut life = Life::running();
    assert_eq!(life.step(1500, Event::SessionClosed), "open");
    assert_eq!(life.step(1501, Event::SessionClosed), "", "not in a tight loop");
    assert_eq!(life.step(1600, Event::Tick), "open");
}

#[test]
fn a_fenced_broker_asks_to_be_trusted_again() {
    let mut life = Life::running();
    life.step(2100, Event::Tick);
    assert_eq!(
        life.answer(2101, Caught::Up, Fencing::Fenced, Leave::NotYet),
        "Fenced"
    );
    assert_eq!(
        life.step(4101, Event::Tick),
        "heartbeat BeUnfenced applied=nothing"
    );
    assert_eq!(
        life.answer(4102, Caught::Up, Fencing::Unfenced, Leave::NotYet),
        "Unfenced"
    );
}

/// R1.24, R1.27: 50 ms after the first "not yet", then after twice the time each, at most 2 s.
#[test]
fn a_controlled_shutdown_asks_until_it_is_let_go() {
    let mut life = Life::running();
    assert_eq!(
        life.step(1000, Event::ShutdownAsked),
        "heartbeat ShutDown applied=nothing"
    );
    assert_eq!(
        life.answer(1001, Caught::Up, Fencing::Unfenced, Leave::NotYet),
        ""
    );
    assert_eq!(life.step(1051, Event::Tick), "heartbeat ShutDown applied=nothing");
    assert_eq!(
        life.answer(1052, Caught::Up, Fencing::Unfenced, Leave::NotYet),
        ""
    );
    assert_eq!(life.due(), at(1152));
    let mut now = 1152;
    for pause in [200, 400, 800, 1600, 2000, 2000] {
        assert_eq!(life.step(now, Event::Tick), "heartbeat ShutDown applied=nothing");
        life.answer(now, Caught::Up, Fencing::Unfenced, Leave::NotYet);
        now += pause;
        assert_eq!(life.due(), at(now));
    }
    assert_eq!(life.step(now, Event::Tick), "heartbeat ShutDown applied=nothing");
    assert_eq!(
        life.answer(now + 1, Caught::Up, Fencing::Fenced, Leave::Now),
        "goodbye, stop Released"
    );
}

/// R1.25: a broker that leaves waits for what the others have applied; they must not wait for their next heartbeat.
#[test]
fn what_is_applied_is_reported_at_once_while_another_broker_leaves() {
    let mut life = Life::running();
    life.step(2100, Event::Tick);
    life.answer(2101, Caught::Up, Fencing::Unfenced, Leave::NotYet);
    assert_eq!(life.step(2200, Event::Applied(MetadataOffset(40))), "");
    assert_eq!(
        life.step(2200, Event::OtherLeaves),
        "heartbeat BeUnfenced applied=40"
    );
    // While a question is open, the news follow its answer.
    assert_eq!(life.step(2201, Event::Applied(MetadataOffset(41))), "");
    assert_eq!(life.step(2201, Event::OtherLeaves), "");
    assert_eq!(
        life.answer(2202, Caught::Up, Fencing::Unfenced, Leave::NotYet),
        "heartbeat BeUnfenced applied=41"
    );
}

/// R1.27: no longer than five minutes, even with a controller that answers.
#[test]
fn a_shutdown_that_nobody_grants_ends_after_five_minutes() {
    let mut life = Life::running();
    let mut said = life.step(1000, Event::ShutdownAsked);
    let mut now = 1000;
    while said == "heartbeat ShutDown applied=nothing" {
        life.answer(now, Caught::Up, Fencing::Unfenced, Leave::NotYet);
        now = (now + 2000).min(301_000);
        said = life.step(now, Event::Tick);
    }
    assert_eq!((now, said.as_str()), (301_000, "goodbye, stop ShutdownTimedOut"));
}

/// R1.27: brokers whose controllers were gone for good waited for them five minutes, and held their ports meanwhile.
/// Whoever is unheard for a session timeout is fenced by any controller that is there, so waiting longer serves nothing.
#[test]
fn a_shutdown_that_no_controller_answers_ends_after_a_session_timeout() {
    let mut life = Life::running();
    life.step(900, Event::SessionClosed);
    life.step(1000, Event::ShutdownAsked);

    assert_eq!(
        life.step(9999, Event::Tick),
        "close, open",
        "the next one is tried"
    );
    assert_eq!(life.due(), at(10_000), "no later than that");
    assert_eq!(
        life.step(10_000, Event::Tick),
        "goodbye, stop NoControllerAnswers"
    );
}

/// Controllers without a majority do answer, and can let nobody go.
#[test]
fn the_word_of_a_controller_that_is_not_active_is_no_answer_to_a_shutdown() {
    let mut life = Life::running();
    life.step(1000, Event::ShutdownAsked);
    let nobody = Refusal::NotActive { active: None };
    life.step(9000, Event::Refused(nobody));
    assert_eq!(
        life.step(10_000, Event::Tick),
        "goodbye, stop NoControllerAnswers"
    );
}

/// Also where it is asked less often than a session may be silent: what is not asked cannot be answered.
#[test]
fn a_shutdown_goes_on_while_the_controller_answers() {
    let mut life = Life::running();
    life.step(1000, Event::ShutdownAsked);
    life.answer(9000, Caught::Up, Fencing::Unfenced, Leave::NotYet);
    assert_eq!(
        life.step(10_001, Event::Tick),
        "heartbeat ShutDown applied=nothing"
    );
    life.step(10_002, Event::Refused(Refusal::Unexpected));
    assert_eq!(
        life.step(19_100, Event::Tick),
        "heartbeat ShutDown applied=nothing"
    );
    assert_eq!(
        life.step(21_002, Event::Tick),
        "goodbye, stop NoControllerAnswers",
        "asked again two seconds after the refusal, and silent for nine"
    );
}

/// Whoever asks twice does not want to wait; what this broker leads moves with its goodbye. The kernel says it several times
/// at once where a launcher with many threads is killed: that is one request.
#[test]
fn a_broker_that_is_asked_to_stop_again_waits_no_longer() {
    let mut life = Life::running();
    life.step(1000, Event::ShutdownAsked);
    life.answer(1001, Caught::Up, Fencing::Unfenced, Leave::NotYet);
    assert!(!life.step(1002, Event::ShutdownAsked).contains("stop"));
    assert!(!life.step(1499, Event::ShutdownAsked).contains("stop"));
    assert_eq!(life.step(1500, Event::ShutdownAsked), "goodbye, stop AskedAgain");
    assert_eq!(life.step(1501, Event::ShutdownAsked), "");
    assert_eq!(life.0.next_tick(), None);
}

/// R1.12: unlike Kafka's, an orphan stops when it is told to, for nobody is left to let it go.
#[test]
fn an_orphan_says_so_and_stops_when_told_to() {
    let mut life = Life::running();
    life.step(2100, Event::Tick);
    assert_eq!(
        life.step(2101, Event::Refused(Refusal::StaleBrokerEpoch)),
        "orphaned"
    );
    assert_eq!(
        life.step(3000, Event::ShutdownAsked),
        "heartbeat ShutDown applied=nothing"
    );
    assert_eq!(
        life.step(3001, Event::Refused(Refusal::StaleBrokerEpoch)),
        "goodbye, stop Orphaned"
    );
}

#[test]
fn a_broker_that_holds_nothing_yet_stops_at_once() {
    let mut life = Life::begins();
    life.step(0, Event::Tick);
    assert_eq!(
        life.step(1, Event::ShutdownAsked),
        "goodbye, stop NothingToHandOver"
    );
    assert_eq!(life.0.next_tick(), None);
}

/// R1.14: told at once and with every heartbeat; not being able to tell for 30 s is the end.
#[test]
fn a_failed_directory_must_be_reported_in_time() {
    let directory = DirectoryId(Uuid(900));
    let mut life = Life::running();
    assert_eq!(
        life.step(1000, Event::DirectoryFailed(directory)),
        "heartbeat BeUnfenced applied=nothing failed=1"
    );
    life.answer(1001, Caught::Up, Fencing::Unfenced, Leave::NotYet);
    assert_eq!(
        life.step(3001, Event::Tick),
        "heartbeat BeUnfenced applied=nothing failed=1"
    );
    life.answer(3002, Caught::Up, Fencing::Unfenced, Leave::NotYet);
    assert_eq!(life.due(), at(5002), "reported");

    let mut life = Life::running();
    life.step(500, Event::SessionClosed);
    assert_eq!(life.step(1000, Event::DirectoryFailed(directory)), "");
    let end = life.step(31_000, Event::Tick);
    assert!(
        end.starts_with("goodbye, stop DirectoryFailureNotReported"),
        "{end}"
    );
}

/// L-55: a broker without a disk that works is no use to anybody, whatever it is doing.
#[test]
fn a_broker_whose_every_directory_failed_stops_with_a_goodbye() {
    let end = "goodbye, stop EveryDirectoryFailed";
    let mut life = Life::running();
    assert_eq!(life.step(1000, Event::EveryDirectoryFailed), end);
    assert_eq!(life.0.next_tick(), None);

    let mut life = Life::running();
    let _ = life.step(1000, Event::ShutdownAsked);
    assert_eq!(life.step(1001, Event::EveryDirectoryFailed), end);

    let mut life = Life::begins();
    let _ = life.step(0, Event::Tick);
    assert_eq!(life.step(1, Event::EveryDirectoryFailed), end);
}

/// R1.15: whoever served leaves its own mark; whoever never heard of an epoch leaves the one it found, and its name.
#[test]
fn a_process_that_did_not_serve_leaves_the_mark_that_it_found_and_its_name() {
    let process = |id: u128| IncarnationId(Uuid(id));
    let served = CleanStop::of(Some(BrokerEpoch(4)), process(1), None).unwrap();
    assert_eq!((served.epoch, served.unserved.len()), (BrokerEpoch(4), 0));

    let again = CleanStop::of(None, process(2), Some(served)).unwrap();
    let again = CleanStop::of(None, process(3), Some(again)).unwrap();
    assert_eq!(again.epoch, BrokerEpoch(4));
    assert_eq!(again.unserved, [process(2), process(3)]);

    let own = CleanStop::of(Some(BrokerEpoch(9)), process(4), Some(again.clone())).unwrap();
    assert_eq!((own.epoch, own.unserved.len()), (BrokerEpoch(9), 0));
    assert_eq!(CleanStop::of(None, process(4), None), None);

    let many = (100..200).fold(again, |mark, id| {
        CleanStop::of(None, process(id), Some(mark)).expect("a mark")
    });
    let expected: Vec<_> = (184..200).map(process).collect();
    assert_eq!(many.unserved, expected, "the last ones");
}

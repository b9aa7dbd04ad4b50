//! Claims about following the metadata, one test each.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::dump::dump;
use proptest::prelude::*;

use super::*;
use crate::testing::{at, batch, cluster, with_orders};

const IDLE: Duration = Duration::from_millis(500);

/// A follower whose first stream is open.
fn following(lanes: usize) -> Follower {
    let mut follower = Follower::new(None, NonZeroUsize::new(lanes).unwrap(), IDLE, at(0));
    let opened = Effect::Open {
        stream: StreamId(1),
        next_offset: MetadataOffset(0),
        last_term: Term(0),
    };
    assert_eq!(follower.step(Event::Tick, at(0)), [opened]);
    let effects = follower.step(hello(1, Lineage::Same), at(1));
    assert_eq!(effects, [Effect::ClusterKnown("cluster".to_owned())]);
    follower
}

fn hello(stream: u64, lineage: Lineage) -> Event {
    Event::Hello {
        stream: StreamId(stream),
        cluster_id: "cluster".to_owned(),
        lineage,
    }
}

fn noop(stream: u64, offset: i64) -> Event {
    Event::Batch {
        stream: StreamId(stream),
        batch: batch(1, offset, Record::NoOp),
    }
}

fn progress(stream: u64, end: i64) -> Event {
    Event::Progress {
        stream: StreamId(stream),
        committed_end: MetadataOffset(end),
        term: Term(1),
        active: Some(ControllerId(3)),
    }
}

/// Next offsets of what was published.
fn published(effects: &[Effect]) -> Vec<(i64, i64)> {
    let of = |effect: &Effect| match effect {
        Effect::Publish { before, after } => Some((before.next_offset.0, after.next_offset.0)),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

fn snapshot(stream: u64, image: &Image, next_offset: i64, term: u64) -> Vec<Event> {
    let header = DumpHeader {
        next_offset: MetadataOffset(next_offset),
        last_term: Term(term),
    };
    let mut records: Vec<Record> = dump(image).collect();
    let tail = records.split_off(1);
    let piece = |records, place| Event::Snapshot {
        stream: StreamId(stream),
        piece: Piece {
            header,
            records,
            place,
        },
    };
    vec![piece(records, Place::Inner), piece(tail, Place::Last)]
}

/// R5.51: early states are history; to act on them would create topics that are long gone.
#[test]
fn nothing_is_published_before_what_was_committed_at_the_start_is_there() {
    let mut follower = following(1);
    assert_eq!(published(&follower.step(noop(1, 0), at(2))), []);
    let effects = follower.step(progress(1, 3), at(3));
    assert_eq!(effects, [Effect::ActiveIs(ControllerId(3))]);
    assert_eq!(published(&follower.step(noop(1, 1), at(4))), []);
    assert_eq!(
        published(&follower.step(noop(1, 2), at(5))),
        [(0, 3)],
        "caught up"
    );
    assert_eq!(
        published(&follower.step(noop(1, 3), at(6))),
        [(3, 4)],
        "each batch from now on"
    );
}

/// A position is applied when every lane has acknowledged it.
#[test]
fn applied_is_what_the_slowest_lane_has_applied() {
    let mut follower = following(2);
    let _ = follower.step(progress(1, 0), at(2));
    let _ = follower.step(noop(1, 0), at(3));
    let _ = follower.step(noop(1, 1), at(4));
    let mut lane = |lane, end| {
        follower.step(
            Event::LaneApplied {
                lane,
                next_offset: MetadataOffset(end),
            },
            at(5),
        )
    };
    assert_eq!(lane(0, 2), []);
    assert_eq!(lane(1, 1), [Effect::Applied(MetadataOffset(1))]);
    assert_eq!(lane(1, 2), [Effect::Applied(MetadataOffset(2))]);
    assert_eq!(follower.applied(), MetadataOffset(2));
}

/// R5.56: a broker that is behind the log start gets the whole state.
#[test]
fn a_snapshot_replaces_everything_and_is_published_as_one() {
    let mut follower = following(1);
    let _ = follower.step(progress(1, 9), at(2));
    let image = with_orders(cluster(3), &[&[1, 2, 3]]);
    let mut pieces = snapshot(1, &image, 9, 4).into_iter();
    assert_eq!(published(&follower.step(pieces.next().unwrap(), at(3))), []);
    assert_eq!(published(&follower.step(pieces.next().unwrap(), at(4))), [(0, 9)]);
    assert_eq!(follower.published().topics, image.topics);
    assert_eq!(
        published(&follower.step(noop(1, 9), at(5))),
        [(9, 10)],
        "and batches go on from there"
    );
}

/// Another lineage is an alarm, and the broker never goes back.
#[test]
fn another_lineage_raises_an_alarm_and_no_lower_offset_is_published() {
    let mut follower = following(1);
    let _ = follower.step(progress(1, 0), at(2));
    for offset in 0..5 {
        let _ = follower.step(noop(1, offset), at(3));
    }
    let _ = follower.step(Event::Closed { stream: StreamId(1) }, at(1000));
    let held = DumpHeader {
        next_offset: MetadataOffset(5),
        last_term: Term(1),
    };
    assert_eq!(
        follower.step(hello(2, Lineage::Differs), at(1001)),
        [Effect::LineageDiffers { held }]
    );

    for piece in snapshot(2, &cluster(2), 3, 2) {
        assert_eq!(published(&follower.step(piece, at(1002))), [], "3 is below 5");
    }
    let with_term = |offset| Event::Batch {
        stream: StreamId(2),
        batch: batch(2, offset, Record::NoOp),
    };
    assert_eq!(published(&follower.step(with_term(3), at(1003))), []);
    assert_eq!(
        published(&follower.step(with_term(4), at(1004))),
        [(5, 5)],
        "as far, but another history"
    );
    assert_eq!(follower.published().brokers.len(), 2);
}

/// Three idle intervals without progress.
#[test]
fn a_controller_without_progress_is_left_for_another() {
    let mut follower = following(1);
    let _ = follower.step(progress(1, 0), at(2));
    let _ = follower.step(noop(1, 0), at(100));
    // Cut off from its leader, it goes on saying what it knows.
    let _ = follower.step(progress(1, 1), at(200));
    let _ = follower.step(progress(1, 1), at(1600));
    assert_eq!(follower.next_tick(), at(1700));
    assert_eq!(follower.step(Event::Tick, at(1699)), []);
    let opened = Effect::Open {
        stream: StreamId(2),
        next_offset: MetadataOffset(1),
        last_term: Term(1),
    };
    assert_eq!(
        follower.step(Event::Tick, at(1700)),
        [Effect::Close { stream: StreamId(1) }, opened]
    );
    assert_eq!(
        follower.step(noop(1, 1), at(1701)),
        [],
        "the old stream is no longer heard"
    );
}

#[test]
fn a_lost_stream_is_replaced_at_once_but_not_in_a_tight_loop() {
    let mut follower = following(1);
    let opened = |effects: &[Effect]| matches!(effects, [Effect::Open { .. }]);
    assert!(opened(
        &follower.step(Event::Closed { stream: StreamId(1) }, at(5000))
    ));
    assert_eq!(follower.step(Event::Closed { stream: StreamId(2) }, at(5001)), []);
    assert_eq!(follower.next_tick(), at(5100));
    assert!(opened(&follower.step(Event::Tick, at(5100))));
}

#[test]
fn a_batch_that_is_held_already_is_ignored_and_a_gap_opens_another_stream() {
    let mut follower = following(1);
    let _ = follower.step(progress(1, 0), at(2));
    let _ = follower.step(noop(1, 0), at(3));
    assert_eq!(follower.step(noop(1, 0), at(4)), []);
    let effects = follower.step(noop(1, 7), at(5));
    assert!(matches!(effects[..], [Effect::Close { .. }, Effect::Open { .. }]));
}

#[test]
fn a_controller_of_another_cluster_stops_the_broker() {
    let held = "ours".to_owned();
    let mut follower = Follower::new(Some(held.clone()), NonZeroUsize::MIN, IDLE, at(0));
    let _ = follower.step(Event::Tick, at(0));
    let given = "cluster".to_owned();
    assert_eq!(
        follower.step(hello(1, Lineage::Same), at(1)),
        [Effect::Stop(Fault::OtherCluster { held, given })]
    );
}

/// R0.9, R5.51: a broker that cannot follow must not go on with what it had.
#[test]
fn a_record_that_makes_no_sense_stops_the_broker() {
    let mut follower = following(1);
    let topic = crate::testing::TOPIC;
    let unknown = batch(1, 0, Record::TopicDeleted { topic });
    let effects = follower.step(
        Event::Batch {
            stream: StreamId(1),
            batch: unknown,
        },
        at(2),
    );
    assert!(matches!(effects[..], [Effect::Stop(Fault::Replay(_))]));
}

/// A broker that lost power and came back before anybody noticed was still the leader in the newest image, and led on
/// with a log that had lost its end (told first by the simulator). R1.10.
#[test]
fn a_process_acts_on_nothing_before_its_own_registration() {
    let (me, mine) = (BrokerId(1), IncarnationId(metadata::uuid::Uuid(7)));
    let mut follower = following(1).of_process(me, mine);
    let before = cluster(1);
    let end = before.next_offset.0;
    let mut effects: Vec<Effect> = snapshot(1, &before, end, 1)
        .into_iter()
        .flat_map(|event| follower.step(event, at(2)))
        .collect();
    effects.extend(follower.step(progress(1, end), at(3)));
    assert_eq!(published(&effects), []);

    let Some(Record::BrokerRegistered(mut registered)) = dump(&before).next() else {
        panic!("a broker is registered")
    };
    registered.epoch = metadata::ids::BrokerEpoch(end);
    registered.registered_at = None;
    registered.incarnation = mine;
    let batch = batch(1, end, Record::BrokerRegistered(registered));
    let stream = StreamId(1);
    let effects = follower.step(Event::Batch { stream, batch }, at(4));

    assert_eq!(published(&effects), [(0, end + 1)]);
}

proptest! {
    /// Whatever streams do, publications go up, and each begins where the one before ended.
    #[test]
    fn publications_are_a_chain_that_never_goes_down(script in prop::collection::vec((0..6u8, 0..12i64), 1..80)) {
        let mut follower = following(1);
        let (mut now, mut at_offset) = (1, 0);
        for (what, offset) in script {
            now += 100;
            let stream = follower.last_stream.0;
            let held = follower.image.next_offset.0;
            let events = match what {
                0 => vec![Event::Closed { stream: StreamId(stream) }, Event::Tick],
                1 => snapshot(stream, &cluster(2), offset, 1),
                2 => vec![progress(stream, offset)],
                3 => vec![hello(stream, Lineage::Differs)],
                4 => vec![Event::Tick],
                _ => vec![noop(stream, held)],
            };
            for event in events {
                for (before, after) in published(&follower.step(event, at(now))) {
                    prop_assert_eq!(before, at_offset);
                    prop_assert!(before <= after);
                    at_offset = after;
                }
            }
        }
    }
}

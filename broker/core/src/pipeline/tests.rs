//! Claims about one connection, one test each. The laws over random histories stand in `tests/laws.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;

const ONE: RequestId = RequestId(0);
const TWO: RequestId = RequestId(1);
const THREE: RequestId = RequestId(2);

fn overlapping() -> Pipeline {
    Pipeline::new(Overlap::Produce(Limits {
        requests: 16,
        bytes: 1000,
    }))
}

fn arrive(pipeline: &mut Pipeline, kind: Kind) -> Vec<Effect> {
    pipeline.step(Event::Arrived { kind, bytes: 10 })
}

/// A-12, as ruled: the second batch is appended while the first still waits for its replicas, and answers keep order.
#[test]
fn a_produce_overlaps_the_wait_of_the_one_before() {
    let mut pipeline = overlapping();
    assert_eq!(arrive(&mut pipeline, Kind::Produce), [Effect::Start(ONE)]);
    assert_eq!(
        arrive(&mut pipeline, Kind::Produce),
        [],
        "the first has not appended yet"
    );
    assert_eq!(pipeline.step(Event::Appended(ONE)), [Effect::Start(TWO)]);

    assert_eq!(
        pipeline.step(Event::Ended(TWO, Ending::Answer)),
        [],
        "the first is answered first"
    );
    assert_eq!(
        pipeline.step(Event::Ended(ONE, Ending::Answer)),
        [Effect::Send(ONE), Effect::Send(TWO)]
    );
}

/// a client that asks for metadata behind a Produce sees what came of the Produce.
#[test]
fn any_other_request_is_a_barrier() {
    let mut pipeline = overlapping();
    let _ = arrive(&mut pipeline, Kind::Produce);
    let _ = pipeline.step(Event::Appended(ONE));
    assert_eq!(arrive(&mut pipeline, Kind::Barrier), []);
    assert!(!pipeline.wants_request(), "nothing is read behind a barrier");

    assert_eq!(
        pipeline.step(Event::Ended(ONE, Ending::Answer)),
        [Effect::Send(ONE)]
    );
    assert_eq!(
        pipeline.step(Event::Sent(ONE)),
        [Effect::Start(TWO)],
        "once the answer is out"
    );
    assert_eq!(
        pipeline.step(Event::Ended(TWO, Ending::Answer)),
        [Effect::Send(TWO)]
    );
    assert!(!pipeline.wants_request());
    assert_eq!(pipeline.step(Event::Sent(TWO)), []);
    assert!(pipeline.wants_request());
}

#[test]
fn reading_stops_at_either_limit_and_goes_on_below() {
    let mut pipeline = Pipeline::new(Overlap::Produce(Limits {
        requests: 2,
        bytes: 1000,
    }));
    let _ = arrive(&mut pipeline, Kind::Produce);
    assert!(pipeline.wants_request());
    let _ = arrive(&mut pipeline, Kind::Produce);
    assert!(!pipeline.wants_request(), "two are pending");
    let _ = pipeline.step(Event::Ended(ONE, Ending::Silence));
    assert!(pipeline.wants_request());

    let mut pipeline = overlapping();
    let _ = pipeline.step(Event::Arrived {
        kind: Kind::Produce,
        bytes: 5000,
    });
    assert!(
        !pipeline.wants_request(),
        "one may be as large as it likes, but then alone"
    );
}

/// F-39 [L]: an error on acks=0 closes the connection, and earlier requests are answered before.
#[test]
fn a_close_waits_until_earlier_answers_are_out() {
    let mut pipeline = overlapping();
    let _ = arrive(&mut pipeline, Kind::Produce);
    let _ = pipeline.step(Event::Appended(ONE));
    let _ = arrive(&mut pipeline, Kind::Produce);
    assert_eq!(pipeline.step(Event::Ended(TWO, Ending::Close)), []);
    assert_eq!(
        arrive(&mut pipeline, Kind::Produce),
        [],
        "nothing starts behind it"
    );
    assert!(!pipeline.wants_request());

    assert_eq!(
        pipeline.step(Event::Ended(ONE, Ending::Answer)),
        [Effect::Send(ONE)]
    );
    assert_eq!(pipeline.step(Event::Sent(ONE)), [Effect::Close]);
    assert_eq!(
        pipeline.step(Event::Sent(THREE)),
        [],
        "a closed connection stands still"
    );
}

/// F-39: a good acks=0 is never answered, and holds up nobody.
#[test]
fn silence_leaves_no_gap() {
    let mut pipeline = overlapping();
    let _ = arrive(&mut pipeline, Kind::Produce);
    let _ = arrive(&mut pipeline, Kind::Barrier);
    assert_eq!(
        pipeline.step(Event::Ended(ONE, Ending::Silence)),
        [Effect::Start(TWO)]
    );
}

/// the switch restores Kafka's order.
#[test]
fn one_at_a_time_reads_nothing_before_the_answer_is_out() {
    let mut pipeline = Pipeline::new(Overlap::None);
    assert_eq!(arrive(&mut pipeline, Kind::Produce), [Effect::Start(ONE)]);
    assert!(!pipeline.wants_request());
    assert_eq!(pipeline.step(Event::Appended(ONE)), []);
    assert_eq!(
        pipeline.step(Event::Ended(ONE, Ending::Answer)),
        [Effect::Send(ONE)]
    );
    assert!(
        !pipeline.wants_request(),
        "muted until it is sent, throttling included"
    );
    let _ = pipeline.step(Event::Sent(ONE));
    assert!(pipeline.wants_request());
}

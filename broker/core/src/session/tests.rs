//! Claims about fetch sessions, one test each.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;
use crate::testing::{TOPIC, at};
use crate::time::Moment;

fn key(index: i32) -> PartitionKey {
    PartitionKey {
        topic: TopicKey::Id(TOPIC),
        index: PartitionIndex(index),
    }
}

fn wanted(offset: i64) -> Wanted {
    Wanted {
        offset: Offset(offset),
        max_bytes: 1000,
        leader_epoch: None,
        last_fetched_epoch: None,
        log_start: None,
    }
}

fn request(ask: Ask, partitions: &[i32]) -> Request {
    Request {
        ask,
        naming: Naming::ById,
        reader: ReaderKind::Consumer,
        wanted: partitions.iter().map(|index| (key(*index), wanted(0))).collect(),
        forgotten: Vec::new(),
    }
}

fn begin(cache: &mut Cache, partitions: &[i32], fresh: i32, now: Moment) -> Option<SessionId> {
    cache
        .context(request(Ask::Begin { drop: None }, partitions), fresh, now)
        .unwrap()
        .session()
}

fn go_on(
    cache: &mut Cache,
    id: SessionId,
    epoch: i32,
    partitions: &[i32],
) -> Result<Context, SessionRefusal> {
    let ask = Ask::Continue {
        session: id,
        epoch: SessionEpoch(epoch),
    };
    cache.context(request(ask, partitions), 0, at(0))
}

fn read(watermark: i64, records: Records) -> Answered {
    Answered::Read {
        records,
        watermark: HighWatermark(Offset(watermark)),
        log_start: LogStart(Offset(0)),
        notice: Notice::None,
    }
}

fn indexes(context: &Context) -> Vec<i32> {
    context.partitions().iter().map(|(key, _)| key.index.0).collect()
}

/// 4.3, the table: the two numbers of a request.
#[test]
fn a_request_says_with_two_numbers_what_it_wants() {
    let named = Some(SessionId(7));
    assert_eq!(Ask::of_request(0, 0), Ask::Begin { drop: None });
    assert_eq!(Ask::of_request(7, 0), Ask::Begin { drop: named });
    assert_eq!(Ask::of_request(0, -1), Ask::Sessionless { drop: None });
    assert_eq!(Ask::of_request(7, -1), Ask::Sessionless { drop: named });
    let go_on = Ask::Continue {
        session: SessionId(7),
        epoch: SessionEpoch(3),
    };
    assert_eq!(Ask::of_request(7, 3), go_on);
}

/// F-18.
#[test]
fn a_session_remembers_what_was_wanted_and_counts_its_requests() {
    let mut cache = Cache::new(10);
    let id = begin(&mut cache, &[0, 1], 42, at(0)).unwrap();
    assert_eq!(id, SessionId(42));
    assert_eq!(indexes(&go_on(&mut cache, id, 1, &[]).unwrap()), [0, 1]);
    assert_eq!(
        indexes(&go_on(&mut cache, id, 2, &[2]).unwrap()),
        [0, 1, 2],
        "one more"
    );

    let mut forget = request(
        Ask::Continue {
            session: id,
            epoch: SessionEpoch(3),
        },
        &[],
    );
    forget.forgotten = vec![key(0)];
    assert_eq!(indexes(&cache.context(forget, 0, at(0)).unwrap()), [1, 2]);
    assert_eq!(SessionEpoch(i32::MAX).following(), SessionEpoch(1));
}

/// F-18 [L]: a session error leaves the session as it was.
#[test]
fn a_refused_request_leaves_the_session_as_it_was() {
    let mut cache = Cache::new(10);
    let id = begin(&mut cache, &[0], 42, at(0)).unwrap();
    assert_eq!(
        go_on(&mut cache, SessionId(9), 1, &[]),
        Err(SessionRefusal::NotFound(SessionId(9)))
    );
    assert!(matches!(
        go_on(&mut cache, id, 2, &[5]),
        Err(SessionRefusal::OtherEpoch { .. })
    ));
    let mut by_name = request(
        Ask::Continue {
            session: id,
            epoch: SessionEpoch(1),
        },
        &[5],
    );
    by_name.naming = Naming::ByName;
    assert!(matches!(
        cache.context(by_name, 0, at(0)),
        Err(SessionRefusal::OtherNaming { .. })
    ));

    assert_eq!(indexes(&go_on(&mut cache, id, 1, &[]).unwrap()), [0]);
}

/// F-18.
#[test]
fn a_session_without_partitions_is_closed() {
    let mut cache = Cache::new(10);
    let id = begin(&mut cache, &[0], 42, at(0)).unwrap();
    let mut last = request(
        Ask::Continue {
            session: id,
            epoch: SessionEpoch(1),
        },
        &[],
    );
    last.forgotten = vec![key(0)];
    let context = cache.context(last, 0, at(0)).unwrap();
    assert_eq!(context, Context::Emptied);
    assert_eq!(context.session(), None);
    assert!(cache.is_empty());
}

/// F-18 [L]: and an empty full request creates one all the same.
#[test]
fn a_full_request_replaces_the_session_it_names() {
    let mut cache = Cache::new(10);
    let old = begin(&mut cache, &[], 42, at(0)).unwrap();
    let again = request(Ask::Begin { drop: Some(old) }, &[1]);
    let new = cache.context(again, 42, at(0)).unwrap();
    assert_eq!((new.session(), cache.len()), (Some(SessionId(42)), 1));
    let last = request(
        Ask::Sessionless {
            drop: Some(SessionId(42)),
        },
        &[1],
    );
    assert_eq!(cache.context(last, 0, at(0)).unwrap().session(), None);
    assert!(cache.is_empty());
}

/// F-19.
#[test]
fn an_incremental_answer_lists_only_what_is_new() {
    let mut cache = Cache::new(10);
    let id = begin(&mut cache, &[0], 42, at(0)).unwrap();
    let created = Context::Created {
        session: id,
        partitions: Vec::new(),
    };
    assert_eq!(
        cache.answered(&created, &key(0), read(5, Records::None)),
        Listing::Listed,
        "full"
    );

    let context = go_on(&mut cache, id, 1, &[]).unwrap();
    let mut answer = |answer| cache.answered(&context, &key(0), answer);
    assert_eq!(answer(read(5, Records::None)), Listing::Omitted);
    assert_eq!(
        answer(read(6, Records::None)),
        Listing::Listed,
        "the watermark moved"
    );
    assert_eq!(answer(read(6, Records::None)), Listing::Omitted);
    assert_eq!(answer(read(6, Records::Some)), Listing::Listed);
    assert_eq!(answer(Answered::Failed), Listing::Listed);
    assert_eq!(
        answer(Answered::Failed),
        Listing::Listed,
        "an error is told each time"
    );
    assert_eq!(
        answer(read(6, Records::None)),
        Listing::Listed,
        "and so is its end"
    );
    let watermark = HighWatermark(Offset(6));
    let other_start = Answered::Read {
        records: Records::None,
        watermark,
        log_start: LogStart(Offset(3)),
        notice: Notice::None,
    };
    assert_eq!(answer(other_start), Listing::Listed);
    for notice in [Notice::Diverging, Notice::PreferredReplica(BrokerId(2))] {
        let log_start = LogStart(Offset(3));
        let noticed = Answered::Read {
            records: Records::None,
            watermark,
            log_start,
            notice,
        };
        assert_eq!(answer(noticed), Listing::Listed);
    }
}

/// F-11: who got records is read last the next time.
#[test]
fn partitions_that_got_records_go_to_the_back() {
    let mut cache = Cache::new(10);
    let id = begin(&mut cache, &[0, 1, 2], 42, at(0)).unwrap();
    let context = go_on(&mut cache, id, 1, &[]).unwrap();
    let _ = cache.answered(&context, &key(0), read(5, Records::Some));
    let _ = cache.answered(&context, &key(1), read(5, Records::None));
    assert_eq!(indexes(&go_on(&mut cache, id, 2, &[]).unwrap()), [1, 2, 0]);
}

#[test]
fn an_id_in_use_is_never_given_again() {
    let mut cache = Cache::new(10);
    assert_eq!(
        begin(&mut cache, &[0], i32::MAX, at(0)),
        Some(SessionId(i32::MAX))
    );
    assert_eq!(
        begin(&mut cache, &[0], i32::MAX, at(0)),
        Some(SessionId(1)),
        "0 means none"
    );
    assert_eq!(begin(&mut cache, &[0], -5, at(0)).map(|id| id.0 > 0), Some(true));
}

const OLD: u64 = 120_001;

/// F-20: a refusal is not an error.
#[test]
fn a_full_cache_answers_without_a_session() {
    let mut cache = Cache::new(1);
    let first = begin(&mut cache, &[0], 42, at(0)).unwrap();
    assert_eq!(
        begin(&mut cache, &[0, 1], 43, at(0)),
        None,
        "too young to give way"
    );
    assert!(go_on(&mut cache, first, 1, &[]).is_ok());
    assert_eq!(cache.evictions(), 0);
}

/// F-20.
#[test]
fn followers_displace_consumers_and_the_idle_give_way_to_all() {
    let follower = |cache: &mut Cache, fresh| {
        let mut request = request(Ask::Begin { drop: None }, &[0]);
        request.reader = ReaderKind::Follower;
        cache.context(request, fresh, at(0)).unwrap().session()
    };
    let mut cache = Cache::new(1);
    let _ = begin(&mut cache, &[0, 1, 2], 42, at(0));
    assert_eq!(follower(&mut cache, 43), Some(SessionId(43)));
    assert_eq!(follower(&mut cache, 44), None, "among followers age counts");
    assert_eq!(
        begin(&mut cache, &[0], 45, at(OLD)),
        Some(SessionId(45)),
        "it was idle for too long"
    );
    assert_eq!(cache.evictions(), 2);
}

/// F-20.
#[test]
fn a_bigger_session_displaces_a_smaller_one_that_is_old() {
    let mut cache = Cache::new(1);
    let id = begin(&mut cache, &[0, 1], 42, at(0)).unwrap();
    let used = Request {
        forgotten: vec![],
        ..request(
            Ask::Continue {
                session: id,
                epoch: SessionEpoch(1),
            },
            &[],
        )
    };
    let _ = cache.context(used, 0, at(OLD - 1)).unwrap();
    assert_eq!(begin(&mut cache, &[0], 43, at(OLD)), None, "it is smaller");
    assert_eq!(begin(&mut cache, &[0, 1, 2], 44, at(OLD)), Some(SessionId(44)));
}

/// F-20: the number of sessions bounds no memory while each may be of any size.
#[test]
fn sessions_together_hold_a_bounded_number_of_partitions() {
    let many = |from: i32, count: i32| (from..from + count).collect::<Vec<_>>();
    let mut cache = Cache::new(2);
    assert_eq!(
        begin(&mut cache, &many(0, 1001), 41, at(0)),
        None,
        "more than all slots hold"
    );
    assert_eq!(cache.partitions(), 0);
    let big = begin(&mut cache, &many(0, 900), 42, at(0)).unwrap();
    assert_eq!(
        begin(&mut cache, &many(0, 101), 43, at(0)),
        None,
        "no room, and nobody is old"
    );
    let small = begin(&mut cache, &many(0, 50), 44, at(0)).unwrap();
    assert!(
        go_on(&mut cache, small, 1, &many(50, 50)).is_ok(),
        "up to the bound"
    );
    assert_eq!(cache.partitions(), 1000);
    assert!(
        go_on(&mut cache, small, 2, &[0]).is_ok(),
        "what is there already adds nothing"
    );

    let grown = go_on(&mut cache, small, 3, &many(100, 1));
    assert_eq!(
        grown,
        Err(SessionRefusal::NotFound(small)),
        "beyond it, it gives way"
    );
    assert!(go_on(&mut cache, big, 1, &[]).is_ok(), "and no other does");
    assert_eq!((cache.partitions(), cache.evictions()), (900, 1));
}

/// F-20: who may displace a session for its slot may displace as many as it needs for its partitions.
#[test]
fn a_big_follower_displaces_several_consumers() {
    let half = (0..500).collect::<Vec<_>>();
    let mut cache = Cache::new(3);
    for fresh in 42..45 {
        assert!(begin(&mut cache, &half, fresh, at(0)).is_some());
    }
    let mut follower = request(Ask::Begin { drop: None }, &(0..700).collect::<Vec<_>>());
    follower.reader = ReaderKind::Follower;
    let context = cache.context(follower, 50, at(0)).unwrap();
    assert_eq!(context.session(), Some(SessionId(50)));
    assert_eq!((cache.len(), cache.partitions(), cache.evictions()), (2, 1200, 2));
}

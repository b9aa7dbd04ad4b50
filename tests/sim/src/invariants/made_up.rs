//! For each invariant a made-up history that it must reject, one step away from one that it accepts.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_core::offsets::Offset;
use metadata::ids::{
    BrokerEpoch, BrokerId, ControllerId, DirectoryId, IncarnationId, LeaderEpoch, MetadataOffset,
    PartitionEpoch, PartitionId, PartitionIndex, Term, TopicId,
};
use metadata::image::{Image, Partition};
use metadata::record::{BrokerRegistered, LeaderRecovery, PartitionCreated, Record};
use metadata::uuid::Uuid;

use super::all;
use crate::fact::{Fact, Grant, Incarnation, OffsetKey, StoredBatch};

const TOPIC: TopicId = TopicId(Uuid(500));
const PARTITION: PartitionId = PartitionId {
    topic: TOPIC,
    index: PartitionIndex(0),
};

fn process(broker: i32) -> Incarnation {
    Incarnation {
        broker: BrokerId(broker),
        boot: 1,
    }
}

/// Whoever rejects the last of these facts; everybody must accept those before.
fn rejected_by(facts: &[Fact]) -> Vec<&'static str> {
    let mut invariants = all();
    let (last, before) = facts.split_last().unwrap();
    for fact in before {
        for invariant in &mut invariants {
            invariant.observe(fact).unwrap();
        }
    }
    invariants
        .iter_mut()
        .filter_map(|it| it.observe(last).is_err().then(|| it.name()))
        .collect()
}

fn state(change: impl FnOnce(&mut Partition)) -> Partition {
    let mut state = Partition {
        replicas: vec![BrokerId(1), BrokerId(2)],
        directories: vec![DirectoryId::UNASSIGNED; 2],
        in_sync: vec![BrokerId(1), BrokerId(2)],
        eligible: Vec::new(),
        last_known_leader: None,
        adding: Vec::new(),
        removing: Vec::new(),
        leader: Some(BrokerId(1)),
        recovery: LeaderRecovery::Recovered,
        leader_epoch: LeaderEpoch(3),
        epoch: PartitionEpoch(7),
    };
    change(&mut state);
    state
}

fn registered(broker: i32, fenced: bool) -> Record {
    Record::BrokerRegistered(BrokerRegistered {
        broker: BrokerId(broker),
        epoch: BrokerEpoch(0),
        registered_at: Some(MetadataOffset(0)),
        incarnation: IncarnationId(Uuid(1000)),
        endpoints: Vec::new(),
        features: Vec::new(),
        rack: None,
        directories: Vec::new(),
        fenced,
        in_controlled_shutdown: false,
    })
}

/// Two brokers, the second one perhaps fenced, and one partition in this state. Made up past all checks.
fn image(next_offset: i64, second_is_fenced: bool, partition: Partition) -> Arc<Image> {
    let header = metadata::dump::DumpHeader {
        next_offset: MetadataOffset(next_offset),
        last_term: metadata::ids::Term(1),
    };
    let records = [
        registered(1, false),
        registered(2, second_is_fenced),
        Record::TopicCreated {
            topic: TOPIC,
            name: "orders".to_owned(),
        },
        Record::PartitionCreated(PartitionCreated {
            partition: PARTITION,
            state: state(|_| {}),
        }),
    ];
    let mut image = Image::from_dump(header, records).unwrap();
    let mut topic = image.topics.get(&TOPIC).unwrap().as_ref().clone();
    topic.partitions.insert(PartitionIndex(0), Arc::new(partition));
    image.topics.insert(TOPIC, Arc::new(topic));
    Arc::new(image)
}

fn committed(image: &Arc<Image>) -> Fact {
    Fact::Committed {
        controller: ControllerId(1),
        image: Arc::clone(image),
    }
}

fn led(broker: i32, epoch: i32, log_end: i64) -> Fact {
    let (epoch, log_end) = (LeaderEpoch(epoch), Offset(log_end));
    Fact::LeadershipBegan {
        by: process(broker),
        partition: PARTITION,
        epoch,
        log_end,
    }
}

fn watermark(to: i64, in_sync: Option<(usize, usize)>) -> Fact {
    Fact::WatermarkMoved {
        by: process(1),
        partition: PARTITION,
        to: Offset(to),
        in_sync,
    }
}

fn below(broker: i32, crc: u32) -> Fact {
    let batch = StoredBatch {
        base: Offset(4),
        last: Offset(6),
        leader_epoch: LeaderEpoch(1),
        crc,
    };
    Fact::Below {
        by: process(broker),
        partition: PARTITION,
        batches: vec![batch],
    }
}

#[test]
fn two_leaders_in_one_epoch_are_rejected() {
    assert_eq!(
        rejected_by(&[led(1, 3, 0), led(2, 4, 0), led(2, 3, 0)]),
        ["one writable leader per epoch"]
    );
}

#[test]
fn a_member_without_a_replica_is_rejected() {
    let image = image(10, false, state(|it| it.in_sync.push(BrokerId(9))));
    let rejected = rejected_by(&[committed(&image)]);
    assert!(
        rejected.contains(&"leader and in-sync set within the replicas"),
        "{rejected:?}"
    );
}

#[test]
fn a_fenced_member_is_rejected() {
    assert_eq!(
        rejected_by(&[committed(&image(10, true, state(|_| {})))]),
        ["fenced brokers in no in-sync set"]
    );
}

#[test]
fn a_leader_epoch_that_goes_back_is_rejected() {
    let before = committed(&image(10, false, state(|_| {})));
    let after = committed(&image(
        11,
        false,
        state(|it| {
            it.leader_epoch = LeaderEpoch(2);
            it.epoch = PartitionEpoch(8);
        }),
    ));
    assert_eq!(rejected_by(&[before, after]), ["epochs never back"]);
}

#[test]
fn a_new_leader_without_a_new_epoch_is_rejected() {
    let before = committed(&image(10, false, state(|_| {})));
    let after = committed(&image(
        11,
        false,
        state(|it| {
            it.leader = Some(BrokerId(2));
            it.epoch = PartitionEpoch(8);
        }),
    ));
    assert_eq!(rejected_by(&[before, after]), ["epochs never back"]);
}

#[test]
fn two_images_at_one_offset_are_rejected() {
    let one = committed(&image(10, false, state(|_| {})));
    let other = Fact::Published {
        by: process(2),
        image: image(10, false, state(|it| it.epoch = PartitionEpoch(8))),
    };
    assert_eq!(rejected_by(&[one, other]), ["images equal at equal offsets"]);
}

#[test]
fn a_lower_publication_is_rejected() {
    let published = |offset| Fact::Published {
        by: process(1),
        image: image(offset, false, state(|_| {})),
    };
    let ends = [10, 11].map(|offset| committed(&image(offset, false, state(|_| {}))));
    let [lower, higher] = ends;
    assert_eq!(
        rejected_by(&[lower, higher, published(11), published(10)]),
        ["a broker never publishes a lower offset"]
    );
}

#[test]
fn an_offset_that_a_lane_has_not_applied_is_rejected() {
    let lanes = vec![MetadataOffset(5), MetadataOffset(4)];
    let applied = Fact::Applied {
        by: process(1),
        below: MetadataOffset(5),
        lanes,
    };
    assert_eq!(rejected_by(&[applied]), ["applied means applied by every lane"]);
}

#[test]
fn a_watermark_that_moves_back_is_rejected_unless_the_log_was_cut() {
    let cut = Fact::Truncated {
        by: process(1),
        partition: PARTITION,
        to: Offset(3),
    };
    assert_eq!(
        rejected_by(&[watermark(5, None), cut, watermark(4, None), watermark(3, None)]),
        ["watermarks never back"]
    );
}

#[test]
fn a_watermark_that_moves_below_the_minimum_is_rejected() {
    assert_eq!(
        rejected_by(&[watermark(5, Some((2, 2))), watermark(6, Some((1, 2)))]),
        ["no watermark moves below min.insync.replicas"]
    );
}

#[test]
fn other_bytes_below_the_watermark_are_rejected() {
    assert_eq!(
        rejected_by(&[below(1, 77), below(2, 77), below(3, 78)]),
        ["logs equal below the watermark"]
    );
}

fn acknowledged(epoch: i32, end: i64) -> Fact {
    let (epoch, end) = (LeaderEpoch(epoch), Offset(end));
    Fact::Acknowledged {
        partition: PARTITION,
        epoch,
        end,
    }
}

#[test]
fn a_leader_without_what_was_acknowledged_before_it_is_rejected() {
    assert_eq!(
        rejected_by(&[acknowledged(1, 8), led(1, 2, 8), led(2, 3, 7)]),
        ["leaders hold what was acknowledged"]
    );
}

#[test]
fn a_leader_that_was_replaced_before_it_knew_need_not_hold_what_came_later() {
    let facts = [acknowledged(1, 5), led(1, 3, 5), acknowledged(3, 8), led(2, 2, 6)];
    assert_eq!(rejected_by(&facts), [""; 0]);
    let facts = [acknowledged(1, 5), led(1, 3, 5), acknowledged(3, 8), led(2, 2, 4)];
    assert_eq!(rejected_by(&facts), ["leaders hold what was acknowledged"]);
}

#[test]
fn an_answer_that_overtakes_is_rejected() {
    let answered = Fact::AnsweredOutOfOrder {
        by: process(1),
        number: 3,
        before: 4,
    };
    assert_eq!(rejected_by(&[answered]), ["answers in the order of requests"]);
}

#[test]
fn a_call_for_help_is_rejected() {
    let alarm = Fact::Alarm {
        by: "controller 1".to_owned(),
        what: "quarantined".to_owned(),
    };
    assert_eq!(rejected_by(&[alarm]), ["nobody calls for help"]);
}

#[test]
fn a_partition_that_could_have_a_leader_must_have_one() {
    let leaderless = image(
        10,
        false,
        state(|it| {
            it.leader = None;
            it.in_sync.clear();
            it.eligible = vec![BrokerId(2)];
        }),
    );
    let live = BTreeSet::from([BrokerId(2)]);
    let converged = Fact::Converged {
        live,
        image: Arc::clone(&leaderless),
        replayed: leaderless,
    };
    let rejected = rejected_by(&[converged]);
    assert!(
        rejected.contains(&"no partition leaderless while an eligible live replica exists"),
        "{rejected:?}"
    );
}

#[test]
fn a_replay_that_leads_elsewhere_is_rejected() {
    let (image, replayed) = (image(10, false, state(|_| {})), image(9, false, state(|_| {})));
    let converged = Fact::Converged {
        live: BTreeSet::new(),
        image,
        replayed,
    };
    assert_eq!(rejected_by(&[converged]), ["replay of the log is the image"]);
}

#[test]
fn a_request_that_begins_before_its_turn_is_rejected() {
    let started = Fact::StartedBeforeItsTurn {
        by: process(1),
        number: 4,
        before: 3,
    };
    assert_eq!(rejected_by(&[started]), ["answers in the order of requests"]);
}

#[test]
fn a_follower_that_joins_below_the_watermark_is_rejected() {
    let joining = |log_end| Fact::Joining {
        by: process(1),
        partition: PARTITION,
        follower: BrokerId(2),
        log_end: Some(Offset(log_end)),
        watermark: Offset(8),
        epoch_start: Offset(5),
    };
    assert_eq!(
        rejected_by(&[joining(8), joining(7)]),
        ["who joins holds what is committed"]
    );
}

#[test]
fn an_image_from_the_middle_of_a_batch_is_rejected() {
    let published = |offset| Fact::Published {
        by: process(1),
        image: image(offset, false, state(|_| {})),
    };
    let batch_end = committed(&image(10, false, state(|_| {})));
    assert_eq!(
        rejected_by(&[batch_end, published(10), published(11)]),
        ["images are published between batches"]
    );
}

#[test]
fn a_controller_that_is_active_before_it_has_applied_the_log_is_rejected() {
    let activated = |applied| Fact::Activated {
        controller: ControllerId(2),
        term: Term(4),
        applied: MetadataOffset(applied),
    };
    let known = committed(&image(10, false, state(|_| {})));
    assert_eq!(
        rejected_by(&[known, activated(10), activated(9)]),
        ["the active controller has applied the log"]
    );
}

#[test]
fn a_grant_of_what_was_never_committed_is_rejected() {
    let granted = |what| Fact::Granted {
        controller: ControllerId(1),
        what,
        image: image(10, false, state(|_| {})),
    };
    let refused = |what| rejected_by(&[granted(what)]);
    assert_eq!(refused(Grant::Registration(BrokerEpoch(0))), [""; 0]);
    assert_eq!(refused(Grant::Topic(TOPIC)), [""; 0]);
    assert_eq!(refused(Grant::InSync(PARTITION, PartitionEpoch(7))), [""; 0]);
    let name = ["what is granted is committed"];
    assert_eq!(refused(Grant::Registration(BrokerEpoch(9))), name);
    assert_eq!(refused(Grant::Topic(TopicId(Uuid(501)))), name);
    assert_eq!(refused(Grant::InSync(PARTITION, PartitionEpoch(8))), name);
}

#[test]
fn an_eligible_process_that_lost_what_was_acknowledged_is_rejected() {
    let eligible = committed(&image(
        10,
        true,
        state(|it| {
            it.in_sync = vec![BrokerId(1)];
            it.eligible = vec![BrokerId(2)];
        }),
    ));
    let opened = |log_end| Fact::Opened {
        by: process(2),
        registered: IncarnationId(Uuid(1000)),
        partition: PARTITION,
        log_end: Offset(log_end),
    };
    assert_eq!(
        rejected_by(&[acknowledged(1, 8), eligible, opened(8), opened(7)]),
        ["who comes back eligible holds what was acknowledged"]
    );
}

fn offset_of() -> OffsetKey {
    OffsetKey {
        group: "g".to_owned(),
        partition: PARTITION,
    }
}

fn offset_appended(commit: &str, at: i64) -> Fact {
    Fact::OffsetAppended {
        by: process(1),
        at: Offset(at),
        of: offset_of(),
        commit: commit.to_owned(),
    }
}

fn offset_acknowledged(commit: &str, epoch: i32) -> Fact {
    Fact::OffsetAcknowledged {
        by: process(1),
        epoch: LeaderEpoch(epoch),
        of: offset_of(),
        commit: commit.to_owned(),
    }
}

fn offset_told(commit: Option<&str>, epoch: i32) -> Fact {
    Fact::OffsetTold {
        by: process(2),
        epoch: LeaderEpoch(epoch),
        of: offset_of(),
        commit: commit.map(ToOwned::to_owned),
    }
}

#[test]
fn a_committed_offset_that_goes_back_after_a_failover_is_rejected() {
    let [a, b] = [offset_appended("a", 4), offset_appended("b", 9)];
    let name = ["committed offsets never back"];
    let told = |commit, epoch| {
        rejected_by(&[
            a.clone(),
            b.clone(),
            offset_acknowledged("a", 1),
            offset_acknowledged("b", 2),
            offset_told(Some("b"), 2),
            offset_told(commit, epoch),
        ])
    };
    assert_eq!(told(Some("b"), 3), [""; 0]);
    assert_eq!(told(Some("a"), 3), name, "an older one");
    assert_eq!(told(None, 3), name, "none");
    assert_eq!(
        told(Some("a"), 1),
        [""; 0],
        "a former coordinator does not know better"
    );
    assert_eq!(told(None, 1), name, "but what it acknowledged itself");
    assert_eq!(told(Some("c"), 3), name, "a commit that is in no log");
}

#[test]
fn a_committed_offset_that_was_told_counts_and_goes_with_its_topic() {
    let facts = [
        offset_appended("a", 4),
        offset_told(Some("a"), 1),
        offset_told(None, 2),
    ];
    assert_eq!(rejected_by(&facts), ["committed offsets never back"]);
    let without = |next_offset| {
        let mut image = image(next_offset, false, state(|_| {})).as_ref().clone();
        image.topics.remove(&TOPIC);
        Arc::new(image)
    };
    let facts = [
        committed(&image(10, false, state(|_| {}))),
        offset_appended("a", 4),
        offset_told(Some("a"), 1),
        committed(&without(11)),
        offset_told(None, 2),
    ];
    assert_eq!(rejected_by(&facts), [""; 0]);
}

#[test]
fn damage_that_comes_to_another_disk_is_rejected() {
    let damaged = |broker| Fact::Damaged {
        by: process(broker),
        partition: PARTITION,
        at: Offset(4),
    };
    let (first, second) = (BrokerId(1), BrokerId(2));
    let rotted = Fact::Rotted { broker: first };
    let name = ["damage stays on its disk"];
    assert_eq!(rejected_by(&[rotted.clone(), damaged(1), damaged(2)]), name);
    let replaced = |broker| Fact::DiskReplaced { broker };
    assert_eq!(rejected_by(&[rotted.clone(), replaced(first), damaged(1)]), name);
    assert_eq!(rejected_by(&[rotted, replaced(second), damaged(1)]), [""; 0]);
}

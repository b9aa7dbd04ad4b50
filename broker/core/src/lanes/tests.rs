//! Claims about what a change of the metadata asks of a broker, one test each.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::ids::DirectoryId;
use metadata::record::{ConfigResource, LeaderChange, Record};
use metadata::uuid::Uuid;
use proptest::prelude::*;

use super::*;
use crate::replica::Standing;
use crate::testing::{
    TOPIC, brokers, changed, cluster, configured, fenced, led_by, partition, replay, with_orders,
};

const ME: BrokerId = BrokerId(1);
const MIN: MinInSync = MinInSync(1);

fn actions(before: &Image, after: &Image) -> Vec<String> {
    let name = |action: Action| match action {
        Action::Delete(id) => format!("delete {}", id.index),
        Action::Stop(id) => format!("stop {}", id.index),
        Action::Create(to) => format!(
            "create {} led by {:?}",
            to.partition.index,
            to.state.leader.map(|id| id.0)
        ),
        Action::Lead(to) => format!("lead {} in epoch {}", to.partition.index, to.state.leader_epoch),
        Action::Follow(to) => format!(
            "follow {} to {:?}",
            to.partition.index,
            to.state.leader.map(|id| id.0)
        ),
        Action::Refresh(to) => format!("refresh {} min {}", to.partition.index, to.min_in_sync.0),
        Action::Configure(id) => format!("configure {}", id.index),
    };
    plan(before, after, ME, MIN).into_iter().map(name).collect()
}

#[test]
fn the_first_image_creates_everything_that_lives_here_leaders_first() {
    let image = with_orders(cluster(3), &[&[2, 1], &[1, 2], &[2, 3]]);
    assert_eq!(
        actions(&Image::default(), &image),
        ["create 1 led by Some(1)", "create 0 led by Some(2)"]
    );
}

#[test]
fn a_new_leadership_is_led_or_followed() {
    let before = with_orders(cluster(3), &[&[1, 2], &[2, 1]]);
    let after = led_by(&led_by(&before, 0, 2), 1, 1);
    assert_eq!(
        actions(&before, &after),
        ["lead 1 in epoch 1", "follow 0 to Some(2)"]
    );
    let leaderless = changed(&after, 1, |record| record.leader = Some(LeaderChange::Nobody));
    assert_eq!(actions(&after, &leaderless), ["follow 1 to None"]);
}

#[test]
fn a_deleted_topic_is_deleted_and_a_moved_replica_stops() {
    let before = with_orders(cluster(3), &[&[1, 2], &[2, 1]]);
    let mut after = before.clone();
    replay(&mut after, [Record::TopicDeleted { topic: TOPIC }]);
    assert_eq!(actions(&before, &after), ["delete 0", "delete 1"]);

    let moved = changed(&before, 1, |record| {
        record.replicas = Some(brokers(&[2, 3]));
        record.in_sync = Some(brokers(&[2]));
        record.directories = Some(vec![metadata::ids::DirectoryId::UNASSIGNED; 2]);
    });
    assert_eq!(actions(&before, &moved), ["stop 1"]);
}

/// R3.57: whether a follower may join is judged by its registration, so leaders hear of each change.
#[test]
fn leaders_hear_of_their_peers_registrations() {
    let before = with_orders(cluster(3), &[&[1, 2], &[2, 1], &[1, 3]]);
    assert_eq!(actions(&before, &fenced(&before, 2)), ["refresh 0 min 1"]);
}

/// F-35, F-36: the topic's value wins over the broker's, that over the cluster's, and no minimum is above the number of
/// replicas.
#[test]
fn leaders_hear_of_their_minimum() {
    let before = with_orders(cluster(3), &[&[1, 2, 3], &[1]]);
    let key = "min.insync.replicas";
    let by_cluster = configured(&before, ConfigResource::ClusterDefault, key, "3");
    assert_eq!(actions(&before, &by_cluster), ["refresh 0 min 3", "configure 1"]);
    let by_topic = configured(&by_cluster, ConfigResource::Topic("orders".to_owned()), key, "2");
    assert_eq!(
        actions(&by_cluster, &by_topic),
        ["refresh 0 min 2", "configure 1"]
    );
    let without_effect = configured(&by_topic, ConfigResource::Broker(ME), key, "1");
    assert_eq!(
        actions(&by_topic, &without_effect),
        ["configure 0", "configure 1"],
        "the minimum is the same"
    );
}

/// L-22.
#[test]
fn logs_hear_of_their_configuration_led_or_not() {
    let before = with_orders(cluster(3), &[&[1, 2], &[2, 1], &[2, 3]]);
    let key = "max.message.bytes";
    let of_topic = configured(&before, ConfigResource::Topic("orders".to_owned()), key, "5");
    assert_eq!(actions(&before, &of_topic), ["configure 0", "configure 1"]);
    let of_another = configured(
        &before,
        ConfigResource::Broker(BrokerId(2)),
        "message.max.bytes",
        "5",
    );
    assert_eq!(actions(&before, &of_another), Vec::<String>::new());
    let of_all = configured(&before, ConfigResource::ClusterDefault, "message.max.bytes", "5");
    assert_eq!(actions(&before, &of_all), ["configure 0", "configure 1"]);
}

#[test]
fn a_log_that_the_image_does_not_give_to_this_broker_is_a_stray() {
    let image = with_orders(cluster(3), &[&[1, 2], &[2, 3]]);
    let stray = |topic: &str, index| stray(&image, topic, PartitionIndex(index), ME);
    assert_eq!(
        [stray("orders", 0), stray("orders", 1)],
        [None, Some(Stray::Elsewhere)]
    );
    assert_eq!(
        [stray("orders", 9), stray("payments", 0)],
        [Some(Stray::Unknown); 2]
    );
}

/// What a peer holds in a directory that failed cannot be in sync (R3.12).
#[test]
fn a_peers_standing_is_that_of_the_directory_that_holds_its_replica() {
    let before = with_orders(cluster(3), &[&[1, 2], &[1, 2]]);
    let lost = vec![DirectoryId::UNASSIGNED, DirectoryId(Uuid(900))];
    let after = changed(&before, 1, |record| record.directories = Some(lost));
    let standing = |index| {
        let assignment = Assignment::of(&after, partition(index), ME, MIN).unwrap();
        assignment.registrations[&BrokerId(2)].standing
    };
    assert_eq!(
        [standing(0), standing(1)],
        [Standing::Active, Standing::DirectoryFailed]
    );
}

#[test]
fn partitions_of_a_topic_spread_evenly() {
    let lanes = NonZeroUsize::new(4).unwrap();
    let mut count = [0; 4];
    (0..12).for_each(|index| count[lane_of(partition(index), lanes)] += 1);
    assert_eq!(count, [3, 3, 3, 3]);
}

proptest! {
    /// Batches may be taken in one by one or all at once: the broker ends with the same assignments.
    #[test]
    fn batch_boundaries_do_not_matter(moves in prop::collection::vec((0..2i32, 1..4i32), 1..8)) {
        let first = with_orders(cluster(3), &[&[1, 2, 3], &[2, 1, 3]]);
        let mut held = std::collections::BTreeMap::new();
        let mut take_in = |before: &Image, after: &Image| {
            for action in plan(before, after, ME, MIN) {
                if let Action::Create(to) | Action::Lead(to) | Action::Follow(to) | Action::Refresh(to) = action {
                    held.insert(to.partition, to);
                }
            }
        };
        take_in(&Image::default(), &first);
        let mut image = first;
        for (index, leader) in moves {
            let next = led_by(&image, index, leader);
            take_in(&image, &next);
            image = next;
        }
        for (partition, assignment) in held {
            prop_assert_eq!(Some(assignment), Assignment::of(&image, partition, ME, MIN));
        }
    }
}

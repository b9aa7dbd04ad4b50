//! A post from the first look into its log to the end of its leadership, and which posts there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use metadata::ids::{BrokerId, LeaderEpoch, PartitionId, PartitionIndex, TopicId};
use metadata::image::{Image, Partition};
use metadata::record::{PartitionCreated, Record as MetadataRecord};
use metadata::uuid::Uuid;

use super::bench::{Bench, commit, fetch, settings};
use crate::group::{
    Committed, Effect, OFFSETS, Post, PostChange, Posts, Reply, ReplyId, Request, Shard, Stability, Stamp,
    Unanswered, committed, load_end,
};
use crate::offsets::Offset;
use crate::replica::{Serving, View};
use crate::testing::{TOPIC, cluster, log, partition_state, replay, with_orders};

const PARTITION: PartitionId = PartitionId {
    topic: TopicId(Uuid(77)),
    index: PartitionIndex(0),
};

fn fetches(post: &mut Post) -> Result<Vec<Effect>, Unanswered> {
    let request = Request::Fetch(fetch(0, Stability::Any));
    post.asked(ReplyId(1), request, Stamp::default())
}

/// A shard in whose log an offset of this topic is.
fn shard_with(topic: TopicId) -> Box<Shard> {
    let mut bench = Bench::new(settings());
    let mut request = commit(0, 7);
    request.offsets[0].topic_id = Some(topic);
    bench.ask(Request::Commit(request));
    bench.written();
    Box::new(bench.successor().shard)
}

#[test]
fn a_post_that_is_being_loaded_knows_of_no_group() {
    let mut post = Post::new(LeaderEpoch(3), Arc::default());
    assert_eq!(fetches(&mut post), Err(Unanswered::Loading));

    assert!(
        post.loaded(Some(Box::new(Shard::new(settings()))), Stamp::default())
            .is_empty()
    );
    assert!(matches!(
        fetches(&mut post).as_deref(),
        Ok([Effect::Reply {
            reply: Reply::Fetch(_),
            ..
        }])
    ));
}

#[test]
fn a_post_whose_log_cannot_be_read_says_so() {
    let mut post = Post::new(LeaderEpoch(3), Arc::default());
    assert!(post.loaded(None, Stamp::default()).is_empty());
    assert_eq!(fetches(&mut post), Err(Unanswered::Broken));
}

#[test]
fn offsets_of_topics_that_are_gone_by_then_are_forgotten() {
    let there = Arc::new(with_orders(cluster(1), &[&[1]]));
    let load = |image: &Arc<Image>, gone: &[TopicId]| {
        let mut post = Post::new(LeaderEpoch(3), Arc::clone(image));
        let gone: BTreeSet<TopicId> = gone.iter().copied().collect();
        assert!(post.topics_deleted(&gone, Stamp::default()).is_empty());
        post.loaded(Some(shard_with(TOPIC)), Stamp::default()).len()
    };
    assert_eq!(load(&there, &[]), 0, "it is there");
    assert_eq!(load(&there, &[TOPIC]), 1, "it went while the log was read");
    assert_eq!(load(&Arc::default(), &[]), 1, "it had gone before");
}

#[test]
fn a_leadership_speaks_for_its_own_log_alone() {
    let view = |epoch, serving| View {
        serving,
        leader: Some(BrokerId(1)),
        leader_epoch: LeaderEpoch(epoch),
    };
    let leader = Serving::Leader {
        log: log(9, 5),
        epoch_start: log(9, 5).end,
    };
    let ask = |view: &View, watermark| committed(view, LeaderEpoch(3), Offset(watermark), Offset(9));
    assert_eq!(ask(&view(3, leader), 8), Committed::NotYet);
    assert_eq!(ask(&view(3, leader), 9), Committed::Yes);
    assert_eq!(ask(&view(4, leader), 9), Committed::Never);
    let follower = Serving::Follower { log: log(9, 9) };
    assert_eq!(ask(&view(3, follower), 9), Committed::Never);
    assert_eq!(
        load_end(log(9, 5)),
        Offset(9),
        "not only what is known to be committed"
    );
}

#[test]
fn posts_follow_the_leaderships_that_the_storage_has_taken_up() {
    let led = |leader: i32, epoch: i32| {
        let mut image = cluster(2);
        let topic = MetadataRecord::TopicCreated {
            topic: PARTITION.topic,
            name: OFFSETS.to_owned(),
        };
        let state = Partition {
            leader_epoch: LeaderEpoch(epoch),
            ..partition_state(Some(leader), &[1, 2])
        };
        let partition = PARTITION;
        let created = MetadataRecord::PartitionCreated(PartitionCreated { partition, state });
        replay(&mut image, [topic, created]);
        image
    };
    let lead = |epoch| PostChange::Lead(PARTITION, LeaderEpoch(epoch));
    let leave = PostChange::Leave(PartitionIndex(0));
    let mut posts = Posts::default();
    let mut follow = |image: &Image, is_ready: bool| posts.follow(image, BrokerId(1), |_, _| is_ready);
    assert!(follow(&led(1, 4), false).is_empty());
    assert_eq!(follow(&led(1, 4), true), [lead(4)]);
    assert!(follow(&led(1, 4), true).is_empty());
    assert_eq!(follow(&led(1, 5), true), [leave, lead(5)]);
    assert_eq!(follow(&led(2, 6), true), [leave]);
}

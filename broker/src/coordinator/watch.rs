//! Which partitions of `__consumer_offsets` this broker leads, and which topics are no more: told to the lanes.
//!
//! Must not: tell of a leadership before the storage has taken it up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker_core::group::{self, PostChange, Posts};
use metadata::delta::Delta;
use metadata::ids::{LeaderEpoch, PartitionId, TopicId};
use metadata::image::Image;

use super::Event;
use crate::node::Node;

/// Follows the metadata until the node stops.
pub async fn run(node: Arc<Node>) {
    let mut visible = node.visible();
    let mut before: Arc<Image> = Arc::default();
    let mut posts = Posts::default();
    loop {
        let image = Arc::clone(&node.published.load().image);
        reconcile(&node, &image, &mut posts);
        if !Arc::ptr_eq(&before, &image) {
            let delta = Delta::between(&before, &image);
            let gone: BTreeSet<TopicId> = delta.topics_deleted.keys().copied().collect();
            if !gone.is_empty() {
                let gone = Arc::new(gone);
                node.coordinators
                    .send_all(|| Event::TopicsDeleted(Arc::clone(&gone)));
            }
            before = image;
        }
        // The sender lives in the node.
        if visible.changed().await.is_err() {
            return;
        }
    }
}

fn reconcile(node: &Node, image: &Arc<Image>, posts: &mut Posts) {
    let mut found = BTreeMap::new();
    let leads = |id: PartitionId, epoch: LeaderEpoch| {
        let hosted = node
            .partitions
            .get(id)
            .filter(|hosted| group::leads(&hosted.seen.load().view, epoch));
        hosted.is_some_and(|hosted| found.insert(id, hosted).is_none())
    };
    for change in posts.follow(image, node.id, leads) {
        match change {
            PostChange::Leave(index) => node.coordinators.send(index, Event::Leave(index)),
            PostChange::Lead(id, epoch) => {
                if let Some(hosted) = found.remove(&id) {
                    node.coordinators
                        .send(id.index, Event::Lead(epoch, hosted, Arc::clone(image)));
                }
            }
        }
    }
}

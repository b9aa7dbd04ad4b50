//! Which partitions of `__consumer_offsets` this broker leads, and which topics are no more: told to the lanes.
//!
//! Must not: tell of a leadership before the storage has taken it up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use metadata::delta::Delta;
use metadata::ids::{LeaderEpoch, PartitionId, PartitionIndex, TopicId};
use metadata::image::Image;

use super::{Event, OFFSETS, load};
use crate::node::Node;

/// Follows the metadata until the node stops.
pub async fn run(node: Arc<Node>) {
    let mut visible = node.visible();
    let mut before: Arc<Image> = Arc::default();
    let mut led: BTreeMap<PartitionIndex, (PartitionId, LeaderEpoch)> = BTreeMap::new();
    loop {
        let image = Arc::clone(&node.published.load().image);
        reconcile(&node, &image, &mut led);
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

fn reconcile(
    node: &Node,
    image: &Arc<Image>,
    led: &mut BTreeMap<PartitionIndex, (PartitionId, LeaderEpoch)>,
) {
    let mut now = BTreeMap::new();
    if let Some(topic) = image.topic_named(OFFSETS) {
        for (index, partition) in &topic.partitions {
            if partition.leader == Some(node.id) {
                let id = PartitionId {
                    topic: topic.id,
                    index: *index,
                };
                now.insert(*index, (id, partition.leader_epoch));
            }
        }
    }
    led.retain(|index, held| {
        let stays = now.get(index) == Some(held);
        if !stays {
            node.coordinators.send(*index, Event::Leave(*index));
        }
        stays
    });
    for (index, (id, epoch)) in now {
        if led.contains_key(&index) {
            continue;
        }
        // A storage lane that is behind will be there with one of the next images.
        let hosted = node
            .partitions
            .get(id)
            .filter(|hosted| load::leads(hosted, epoch));
        if let Some(hosted) = hosted {
            led.insert(index, (id, epoch));
            node.coordinators
                .send(index, Event::Lead(epoch, hosted, Arc::clone(image)));
        }
    }
}

//! Hands the orders of the lanes to the task of each leader.
//!
//! Must not: fetch itself.

use std::collections::HashMap;
use std::sync::Arc;

use metadata::ids::{BrokerId, PartitionId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::FetchOrder;
use super::leader;
use crate::essential;
use crate::node::Node;

/// Takes orders of the lanes until the node stops.
pub async fn run(node: Arc<Node>, mut orders: UnboundedReceiver<FetchOrder>) {
    let mut leaders: HashMap<BrokerId, UnboundedSender<FetchOrder>> = HashMap::new();
    let mut followed: HashMap<PartitionId, BrokerId> = HashMap::new();
    while let Some(order) = orders.recv().await {
        let partition = order.partition();
        let next = match &order {
            FetchOrder::Start { leader, .. } => Some(*leader),
            FetchOrder::Stop(_) => None,
        };
        if let Some(before) = followed.remove(&partition)
            && Some(before) != next
            && let Some(task) = leaders.get(&before)
        {
            // The task lives as long as its sender.
            let _ = task.send(FetchOrder::Stop(partition));
        }
        if let Some(leader) = next {
            followed.insert(partition, leader);
            let task = leaders.entry(leader).or_insert_with(|| {
                let (sender, orders) = unbounded_channel();
                essential::spawn("fetcher", leader::run(Arc::clone(&node), leader, orders));
                sender
            });
            let _ = task.send(order);
        }
    }
}

//! Questions to controllers over the contract that brokers and tools use.

use std::time::Duration;

use anyhow::{Context, Result};
use millrace_proto::v1::metadata_client::MetadataClient;
use millrace_proto::v1::{StatusReply, StatusRequest};
use tonic::transport::Endpoint;

use crate::cluster::{Cluster, NodeId};
use crate::wait;

/// What the controller at `address` knows of the quorum and of itself.
pub fn status(address: &str) -> Result<StatusReply> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let limit = Duration::from_secs(2);
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(limit)
        .timeout(limit);
    runtime.block_on(async {
        let mut client = MetadataClient::new(endpoint.connect().await?);
        Ok(client.status(StatusRequest {}).await?.into_inner())
    })
}

/// The controller that is active now; an error while there is none, or two.
pub fn active_now(cluster: &Cluster) -> Result<NodeId> {
    let mut found: Vec<(u64, NodeId)> = Vec::new();
    for id in cluster.controllers() {
        if let Ok(reply) = status(&cluster.address(id)?)
            && reply.active
        {
            found.push((reply.term, id));
        }
    }
    // An isolated one may believe in itself until its lease lapses: the newest term leads.
    found
        .into_iter()
        .max()
        .map(|(_, id)| id)
        .context("no controller is active")
}

/// The active controller, once there is one.
pub fn active(cluster: &Cluster) -> Result<NodeId> {
    wait::until("an active controller", Duration::from_secs(20), || {
        active_now(cluster)
    })
}

//! What the active controller knows of the quorum.
//!
//! Must not: take the word of a controller that is not active.

use std::time::Duration;

use millrace_proto::v1::metadata_client::MetadataClient;
use millrace_proto::v1::{StatusReply, StatusRequest};
use tracing::debug;

use super::Controllers;
use super::admin::OutOfTime;

/// How long the active controller is looked for.
const TIME: Duration = Duration::from_secs(30);
/// One attempt may take this long.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Between two attempts.
const BACKOFF: Duration = Duration::from_millis(30);

/// Asks the controllers until one answers that is active.
///
/// # Errors
/// [`OutOfTime`] when none was in half a minute.
pub async fn of_the_active(controllers: &Controllers) -> Result<StatusReply, OutOfTime> {
    tokio::time::timeout(TIME, until_found(controllers))
        .await
        .map_err(|_| OutOfTime)
}

async fn until_found(controllers: &Controllers) -> StatusReply {
    loop {
        let address = controllers.candidate();
        match attempt(controllers, &address).await {
            Ok(reply) if reply.active => return reply,
            Ok(reply) => controllers.unlearn(&address, reply.leader.as_ref()),
            Err(status) => {
                debug!(%address, %status, "a controller did not answer");
                controllers.unlearn(&address, None);
            }
        }
        tokio::time::sleep(BACKOFF).await;
    }
}

async fn attempt(controllers: &Controllers, address: &str) -> Result<StatusReply, tonic::Status> {
    let channel = controllers
        .channel(address)
        .map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let mut client = MetadataClient::new(channel);
    tokio::time::timeout(ATTEMPT_TIMEOUT, client.status(StatusRequest {}))
        .await
        .map_err(|_| tonic::Status::deadline_exceeded("no answer"))?
        .map(tonic::Response::into_inner)
}

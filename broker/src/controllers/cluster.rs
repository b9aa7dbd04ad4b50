//! Asks which cluster this is, for a broker whose disk does not say.
//!
//! Must not: give up. A broker that starts before its controllers waits for them (BC-049).

use std::sync::Arc;
use std::time::Duration;

use millrace_proto::v1::StatusRequest;
use millrace_proto::v1::metadata_client::MetadataClient;
use tracing::{debug, info};

use super::Controllers;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks until a controller knows its cluster.
pub async fn ask(controllers: &Arc<Controllers>) -> String {
    info!("waiting for a controller to tell which cluster this is");
    loop {
        let address = controllers.any();
        if let Ok(channel) = controllers.channel(&address) {
            let mut client = MetadataClient::new(channel);
            match tokio::time::timeout(PATIENCE, client.status(StatusRequest {})).await {
                Ok(Ok(status)) if !status.get_ref().cluster_id.is_empty() => {
                    return status.into_inner().cluster_id;
                }
                Ok(Ok(_)) => debug!(%address, "the controller does not know its cluster yet"),
                Ok(Err(status)) => debug!(%address, %status, "no answer"),
                Err(_) => debug!(%address, "no answer in time"),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

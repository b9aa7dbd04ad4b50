//! Asks which cluster this is, for a broker whose disk does not say.
//!
//! Must not: give up. A broker that starts before its controllers waits for them (BC-049).

use std::sync::Arc;
use std::time::Duration;

use broker_core::time::Moment;
use host::Clock;
use millrace_proto::v1::StatusRequest;
use millrace_proto::v1::metadata_client::MetadataClient;
use tracing::{debug, info};

use super::Controllers;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks until a controller knows its cluster.
pub async fn ask(controllers: &Arc<Controllers>, clock: &dyn Clock) -> String {
    info!("waiting for a controller to tell which cluster this is");
    loop {
        let address = controllers.any();
        let why = match one(controllers, &address).await {
            Ok(cluster_id) => {
                controllers.answered();
                return cluster_id;
            }
            Err(why) => why,
        };
        debug!(%address, %why, "no answer");
        let now = Moment::from_start(Duration::from_nanos(clock.now().0));
        controllers.unanswered(&address, &why, now);
        tokio::time::sleep(PAUSE).await;
    }
}

/// What one of them knows, or why it does not tell.
async fn one(controllers: &Controllers, address: &str) -> Result<String, String> {
    let channel = controllers.channel(address).map_err(|error| error.to_string())?;
    let mut client = MetadataClient::new(channel);
    match tokio::time::timeout(PATIENCE, client.status(StatusRequest {})).await {
        Ok(Ok(status)) if !status.get_ref().cluster_id.is_empty() => Ok(status.into_inner().cluster_id),
        Ok(Ok(_)) => Err("it does not know its cluster yet".to_owned()),
        Ok(Err(status)) => Err(super::why(&status)),
        Err(_) => Err(format!("silent for {} s", PATIENCE.as_secs())),
    }
}

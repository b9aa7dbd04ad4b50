//! The id of an idempotent producer.

use std::time::Duration;

use host::{Clock as _, OsClock};
use wire::ErrorCode;
use wire::messages::InitProducerIdRequest;

use crate::ask;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::waiting::Waiting;

/// How long a new cluster may take until it has ids to give.
const LIMIT: Duration = Duration::from_secs(30);

/// What this code says here: there is no coordinator in it.
const NO_BLOCK: &str =
    "the broker has no ids left and gets none; `millrace status` shows whether the controllers have a quorum";

const PAUSE: Duration = Duration::from_millis(100);

/// A new id and its epoch.
///
/// # Errors
/// When no broker answers, or refuses for good.
pub async fn new(cluster: &mut Cluster) -> Result<(i64, i16), Failure> {
    let question = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        ..Default::default()
    };
    let clock = OsClock::new();
    let began = clock.now();
    let mut waiting = Waiting::begin();
    loop {
        let (_, answer) = cluster.any().ask(4, &question).await?;
        if answer.error_code.is_retriable() && clock.now().since(began) < LIMIT {
            waiting.still(&format!("no producer id: {}: {NO_BLOCK}", answer.error_code));
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let why = (answer.error_code == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS).then_some(NO_BLOCK);
        ask::refuse(answer.error_code, why, "no producer id")?;
        return Ok((answer.producer_id, answer.producer_epoch));
    }
}

//! InitProducerId for idempotent producers (T-12). Transactions have no coordinator yet, and the answer says so.
//!
//! Must not: hand an id to a producer that asked for a transaction.

use wire::ErrorCode;
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::{Call, Refusable};

/// "Not given", for id and epoch.
const ABSENT: i8 = -1;

/// Answers the request.
pub fn answer(call: &Call, request: &InitProducerIdRequest) -> InitProducerIdResponse {
    let id_given = request.producer_id != i64::from(ABSENT);
    let epoch_given = request.producer_epoch != i16::from(ABSENT);
    match &request.transactional_id {
        Some(id) if id.is_empty() => return refusal(ErrorCode::INVALID_REQUEST),
        _ if id_given != epoch_given => return refusal(ErrorCode::INVALID_REQUEST),
        Some(_) => return refusal(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        None => {}
    }
    match call.node.producer_ids.take() {
        Ok(id) => InitProducerIdResponse {
            producer_id: id.0,
            producer_epoch: 0,
            ..Default::default()
        },
        Err(_) => refusal(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
    }
}

fn refusal(error_code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse {
        error_code,
        producer_epoch: -1,
        ..Default::default()
    }
}

impl Refusable for InitProducerIdRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<InitProducerIdResponse> {
        Some(refusal(code))
    }
}

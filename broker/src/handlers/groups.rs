//! What the handlers of groups share: the way to a group's coordinator, and the client's names.
//!
//! Must not: differ by API; what does is in the handler.

use std::collections::BTreeMap;

use broker_core::group::{Client, Refusal, Reply, Request};
use bytes::Bytes;
use metadata::image::Topic;
use wire::{ErrorCode, Uuid};

use super::Call;
use crate::errors;
use crate::seam;

/// Asks the coordinator of a group.
///
/// # Errors
/// The code for a coordinator that is elsewhere, or does not serve yet.
pub async fn ask(call: &Call, group: &str, request: Request) -> Result<Reply, ErrorCode> {
    let node = &call.node;
    let asked = node.coordinators.ask(&call.image, node.id, group, request).await;
    asked.map_err(errors::of_unanswered)
}

/// The code of a result.
pub fn code<T>(result: Result<T, Refusal>) -> ErrorCode {
    result.map_or_else(errors::of_group, |_| ErrorCode::NONE)
}

/// A coordinator answered something else than it was asked: a defect of ours.
pub fn mismatch() -> ErrorCode {
    errors::CRASHED
}

/// Who asks, as a group remembers it; Kafka writes addresses with a slash in front.
pub fn client(call: &Call) -> Client {
    Client {
        id: call.client_id.as_deref().unwrap_or_default().to_owned(),
        host: format!("/{}", call.client_host),
    }
}

/// Bytes that outlive their request: a slice would keep the whole frame in memory.
pub fn kept(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// A topic by its name, or by its id where the version has ids.
pub fn topic<'a>(call: &'a Call, name: &str, id: Uuid, has_ids: bool) -> Option<&'a Topic> {
    let found = if has_ids {
        call.image.topics.get(&seam::topic_from_wire(id))
    } else {
        call.image.topic_named(name)
    };
    found.map(AsRef::as_ref)
}

/// Answers for keys that may stand several times in a request, once for each (G-54).
pub fn each_once<'a>(keys: impl IntoIterator<Item = &'a String>) -> Vec<&'a String> {
    let mut seen = BTreeMap::new();
    keys.into_iter()
        .filter(|key| seen.insert(*key, ()).is_none())
        .collect()
}

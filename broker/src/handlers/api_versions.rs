//! ApiVersions: what is served, and what the cluster has finalised.
//!
//! Must not: advertise what no handler answers.

use wire::messages::api_versions::{
    ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use wire::{ApiKey, ErrorCode};

use super::{Call, Refusable, SERVED};

/// First version that carries the client's name, tagged fields and features.
const WITH_NAMES: i16 = 3;
/// First version whose clients can read a feature that begins at level 0.
const WITH_LEVEL_0: i16 = 4;
/// First version that carries the cluster and node that the client expects.
const WITH_TARGET: i16 = 5;

/// Answers a request of a version that is served.
pub fn answer(call: &Call, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    let v = call.version.0;
    if v >= WITH_NAMES
        && !(is_name(&request.client_software_name) && is_name(&request.client_software_version))
    {
        return refusal(ErrorCode::INVALID_REQUEST);
    }
    if v >= WITH_TARGET {
        if request.cluster_id.is_some() != (request.node_id != -1) {
            return refusal(ErrorCode::INVALID_REQUEST);
        }
        if let Some(cluster) = &request.cluster_id
            && (cluster != call.cluster_id() || request.node_id != call.node.id.0)
        {
            return refusal(ErrorCode::REBOOTSTRAP_REQUIRED);
        }
    }
    ApiVersionsResponse {
        api_keys: served(),
        supported_features: supported(call),
        finalized_features_epoch: call.image.next_offset.0 - 1,
        finalized_features: finalized(call),
        ..Default::default()
    }
}

/// The answer to a version that is not served, in the layout of version 0: how to ask again.
pub fn ask_again() -> ApiVersionsResponse {
    let versions = ApiKey::ApiVersions.versions();
    ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        api_keys: vec![ApiVersionRange {
            api_key: ApiKey::ApiVersions.code(),
            min_version: versions.start().0,
            max_version: versions.end().0,
        }],
        ..Default::default()
    }
}

fn served() -> Vec<ApiVersionRange> {
    SERVED
        .iter()
        .map(|api| {
            let versions = api.versions();
            // Released librdkafka takes Produce v0 as the sign that compression works; 0 to 2 are refused all the same
            //
            let min_version = if *api == ApiKey::Produce {
                0
            } else {
                versions.start().0
            };
            ApiVersionRange {
                api_key: api.code(),
                min_version,
                max_version: versions.end().0,
            }
        })
        .collect()
}

fn supported(call: &Call) -> Vec<SupportedFeatureKey> {
    metadata::feature::served()
        .into_iter()
        .filter(|(_, levels)| levels.min != 0 || call.version.0 >= WITH_LEVEL_0)
        .map(|(name, levels)| SupportedFeatureKey {
            name,
            min_version: levels.min,
            max_version: levels.max,
        })
        .collect()
}

fn finalized(call: &Call) -> Vec<FinalizedFeatureKey> {
    let features = call.image.features.iter().filter(|(_, level)| **level != 0);
    features
        .map(|(name, level)| FinalizedFeatureKey {
            name: name.clone(),
            max_version_level: *level,
            min_version_level: *level,
        })
        .collect()
}

/// Letters and digits, with `-` and `.` between them.
fn is_name(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = bytes
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    ends(bytes.first()) && ends(bytes.last()) && inner
}

fn refusal(code: ErrorCode) -> ApiVersionsResponse {
    ApiVersionsResponse {
        error_code: code,
        ..Default::default()
    }
}

impl Refusable for ApiVersionsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<ApiVersionsResponse> {
        Some(refusal(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_name_begins_and_ends_with_a_letter_or_digit() {
        for good in ["a", "A9", "a.b-c", "a--b", "9", &"a".repeat(5000)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".a", "a.", " ", "a b", "a_b", "a/b", "é", "a\n"] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn produce_is_advertised_from_0_and_keys_ascend() {
        let served = served();
        assert_eq!(served[0].api_key, 0);
        assert_eq!((served[0].min_version, served[0].max_version), (0, 13));
        assert!(served.is_sorted_by_key(|api| api.api_key));
    }
}

//! The features that Millrace serves, the levels it can run with, and what an empty log starts from.
//!
//! Only what is served stands here: a level that promises more than the nodes do must not be finalised. Must not
//! decide about updates.

use crate::record::{ConfigResource, LevelRange, Record};

/// Gates everything that the metadata log and the protocol between nodes can say.
pub const METADATA_VERSION: &str = "metadata.version";

/// At level 1 and above, replicas that left the in-sync set with all committed data may lead (R3.30).
pub const ELIGIBLE_LEADER_REPLICAS: &str = "eligible.leader.replicas.version";

/// The configuration key that decides how many in-sync replicas a write needs.
pub const MIN_IN_SYNC_REPLICAS: &str = "min.insync.replicas";

/// 4.0-IV3, the lowest `metadata.version` that Millrace runs with.
pub const METADATA_VERSION_MIN: i16 = 25;

/// 4.4-IV2, the highest.
pub const METADATA_VERSION_MAX: i16 = 33;

const SERVED: &[(&str, LevelRange)] = &[
    (ELIGIBLE_LEADER_REPLICAS, LevelRange { min: 0, max: 1 }),
    (
        METADATA_VERSION,
        LevelRange {
            min: METADATA_VERSION_MIN,
            max: METADATA_VERSION_MAX,
        },
    ),
];

/// Names of the levels of `metadata.version`, and whether the format of metadata changed there, which bars the way
/// down across it (R4.82).
const METADATA_VERSIONS: &[(i16, &str, MetadataFormat)] = &[
    (25, "4.0-IV3", MetadataFormat::Same),
    (26, "4.1-IV0", MetadataFormat::Same),
    (27, "4.1-IV1", MetadataFormat::Same),
    (28, "4.2-IV0", MetadataFormat::Same),
    (29, "4.2-IV1", MetadataFormat::Same),
    (30, "4.3-IV0", MetadataFormat::Changed),
    (31, "4.4-IV0", MetadataFormat::Same),
    (32, "4.4-IV1", MetadataFormat::Changed),
    (33, "4.4-IV2", MetadataFormat::Changed),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetadataFormat {
    Same,
    Changed,
}

/// What this build can run with, sorted by name. Brokers register with it.
#[must_use]
pub fn served() -> Vec<(String, LevelRange)> {
    SERVED
        .iter()
        .map(|(name, range)| ((*name).to_owned(), *range))
        .collect()
}

/// The levels of one feature, if it is served.
#[must_use]
pub fn range(name: &str) -> Option<LevelRange> {
    SERVED
        .iter()
        .find(|(served, _)| *served == name)
        .map(|(_, range)| *range)
}

/// Whether this build can run with a feature at a level; an unserved feature can only be off.
#[must_use]
pub fn is_supported(name: &str, level: i16) -> bool {
    range(name).map_or(level == 0, |range| range.contains(level))
}

/// The release name of a `metadata.version` (`4.4-IV2`).
#[must_use]
pub fn metadata_version_name(level: i16) -> Option<&'static str> {
    METADATA_VERSIONS
        .iter()
        .find(|(number, ..)| *number == level)
        .map(|(_, name, _)| *name)
}

/// Whether the format of metadata changed somewhere above `from` up to `to` (R4.82).
#[must_use]
pub fn metadata_format_changed(from: i16, to: i16) -> bool {
    METADATA_VERSIONS
        .iter()
        .any(|(level, _, format)| *format == MetadataFormat::Changed && *level > from && *level <= to)
}

/// What an empty log starts from (R5.31, R5.61): the newest levels, and with eligible leader replicas on, the
/// cluster-wide `min.insync.replicas` that they are computed with.
#[must_use]
pub fn bootstrap_records(min_in_sync_replicas: u32) -> Vec<Record> {
    let level_set = |name: &str, level| Record::FeatureLevelSet {
        name: name.to_owned(),
        level,
    };
    vec![
        level_set(METADATA_VERSION, METADATA_VERSION_MAX),
        level_set(ELIGIBLE_LEADER_REPLICAS, 1),
        Record::ConfigChanged {
            resource: ConfigResource::ClusterDefault,
            key: MIN_IN_SYNC_REPLICAS.to_owned(),
            value: Some(min_in_sync_replicas.to_string()),
        },
    ]
}

impl LevelRange {
    /// Whether a level lies within.
    #[must_use]
    pub fn contains(self, level: i16) -> bool {
        self.min <= level && level <= self.max
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use crate::image::Image;

    #[test]
    fn an_empty_log_starts_at_the_newest_levels_with_a_cluster_wide_minimum() {
        let mut image = Image::default();
        image.replay_all(&bootstrap_records(2)).unwrap();

        assert_eq!(image.feature_level(METADATA_VERSION), 33);
        assert_eq!(image.feature_level(ELIGIBLE_LEADER_REPLICAS), 1);
        let minimum = image.config(&ConfigResource::ClusterDefault, MIN_IN_SYNC_REPLICAS);
        assert_eq!(minimum, Some("2"));
    }

    #[test]
    fn a_level_that_is_not_served_is_not_supported() {
        assert!(is_supported(METADATA_VERSION, 25));
        assert!(!is_supported(METADATA_VERSION, 24));
        assert!(!is_supported(METADATA_VERSION, 34));
        assert!(!is_supported("share.version", 1));
        assert!(is_supported("share.version", 0));
    }

    #[test]
    fn the_way_down_is_barred_where_the_format_changed() {
        assert!(metadata_format_changed(29, 30));
        assert!(!metadata_format_changed(25, 29));
        assert!(metadata_format_changed(30, 33));
        assert!(!metadata_format_changed(33, 33));
        assert_eq!(metadata_version_name(33), Some("4.4-IV2"));
    }
}

//! The configuration of this node as the decisions see it.
//!
//! Must not open a file: that is `main`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::settings::{ElectionRules, Settings, TopicRules, Unclean};
use metadata::config::{ControllerSettings, Layers, NodeConfig, TopicSettings, validate_topic};
use metadata::image::Image;
use metadata::record::ConfigResource;

use crate::quorum::Timing;

/// The settings of the core.
#[must_use]
pub fn core_settings(settings: &ControllerSettings, node: &Arc<NodeConfig>, cluster_id: String) -> Settings {
    Settings {
        cluster_id,
        session_timeout: settings.session_timeout,
        disconnect_grace: settings.disconnect_grace,
        idle_interval: settings.idle_interval,
        quorum_lease: settings.election.longest,
        demotion_after: settings.election.longest,
        partitions_default: settings.topics.partitions,
        replication_factor_default: settings.topics.replication_factor,
        topics_deletable: settings.topics.deletable,
        topics: Arc::new(FileRules { node: node.clone() }),
    }
}

/// How the quorum keeps time.
#[must_use]
pub fn timing(settings: &ControllerSettings) -> Timing {
    Timing {
        election_shortest: settings.election.shortest,
        election_longest: settings.election.longest,
        snapshot_bytes: settings.snapshots.bytes_between,
        snapshot_age: settings.snapshots.age_max,
    }
}

/// How often those who follow are told that there is nothing new.
#[must_use]
pub fn progress_interval(settings: &ControllerSettings) -> Duration {
    settings.idle_interval.unwrap_or(Duration::from_millis(500))
}

/// Topic configuration by the catalogue, with this node's file below everything in the image (R4.21).
#[derive(Debug)]
struct FileRules {
    node: Arc<NodeConfig>,
}

impl FileRules {
    fn effective(&self, image: &Image, topic: Option<&str>) -> TopicSettings {
        let none = BTreeMap::new();
        let layer = |resource: Option<ConfigResource>| {
            let held = resource.and_then(|resource| image.configs.get(&resource));
            held.map_or(&none, |pairs| pairs.as_ref())
        };
        let node = metadata::ids::BrokerId(self.node.node_id().0);
        TopicSettings::effective(&Layers {
            topic: layer(topic.map(|name| ConfigResource::Topic(name.to_owned()))),
            node_dynamic: layer(Some(ConfigResource::Broker(node))),
            cluster: layer(Some(ConfigResource::ClusterDefault)),
            node: &self.node,
        })
    }
}

impl TopicRules for FileRules {
    fn validate(&self, _image: &Image, given: &BTreeMap<String, String>) -> Result<(), String> {
        let given: Vec<_> = given
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect();
        validate_topic(&given, &self.node)
            .map(drop)
            .map_err(|refusal| refusal.to_string())
    }

    fn election(&self, image: &Image, topic: &str) -> ElectionRules {
        let settings = self.effective(image, Some(topic));
        ElectionRules {
            min_in_sync: settings.min_in_sync_replicas,
            unclean: if settings.unclean_election {
                Unclean::Allowed
            } else {
                Unclean::Forbidden
            },
        }
    }

    fn min_in_sync_default(&self) -> u32 {
        self.effective(&Image::default(), None).min_in_sync_replicas
    }
}

//! What of a topic's configuration decides elections, by the precedence of R4.20 with the deciding controller's own
//! id and file in the place of the node (R4.21).

use std::collections::BTreeMap;

use metadata::config::{Layers, TopicSettings};
use metadata::feature::{self, ELIGIBLE_LEADER_REPLICAS};
use metadata::ids::{BrokerId, TopicId};
use metadata::image::{Image, Topic};
use metadata::record::ConfigResource;

use crate::settings::Settings;

/// The configuration key that decides whether an election may be unclean.
pub(crate) const UNCLEAN_KEY: &str = "unclean.leader.election.enable";

/// Whether a replica that may lack committed records can be elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclean {
    /// No: the partition waits.
    Forbidden,
    /// Yes: records may be lost (R3.40).
    Allowed,
}

/// What holds for the elections of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionRules {
    /// How many in-sync replicas a write needs, capped by the replica count (R3.20).
    pub min_in_sync: usize,
    /// Whether an election may be unclean.
    pub unclean: Unclean,
}

/// Answers per topic, computed once each.
#[derive(Debug)]
pub struct TopicRules<'a> {
    image: &'a Image,
    settings: &'a Settings,
    without_own: TopicSettings,
    known: BTreeMap<TopicId, ElectionRules>,
}

impl<'a> TopicRules<'a> {
    /// Answers from this image.
    #[must_use]
    pub fn of(image: &'a Image, settings: &'a Settings) -> Self {
        Self {
            image,
            settings,
            without_own: effective(image, settings, &BTreeMap::new()),
            known: BTreeMap::new(),
        }
    }

    /// The rules of a topic.
    pub fn election(&mut self, topic: &Topic) -> ElectionRules {
        if let Some(rules) = self.known.get(&topic.id) {
            return *rules;
        }
        let own = self.image.configs.get(&ConfigResource::Topic(topic.name.clone()));
        let decides = |key: &str| key == feature::MIN_IN_SYNC_REPLICAS || key == UNCLEAN_KEY;
        let topic_settings = match own {
            Some(own) if own.keys().any(|key| decides(key)) => effective(self.image, self.settings, own),
            _ => self.without_own.clone(),
        };
        let first = topic.partitions.values().next();
        let replicas = first.map_or(0, |partition| partition.replicas.len());
        let min_in_sync = usize::try_from(topic_settings.min_in_sync_replicas).unwrap_or(usize::MAX);
        let rules = ElectionRules {
            min_in_sync: min_in_sync.min(replicas),
            unclean: match topic_settings.unclean_election {
                true => Unclean::Allowed,
                false => Unclean::Forbidden,
            },
        };
        self.known.insert(topic.id, rules);
        rules
    }
}

/// Whether replicas that left the in-sync set below the minimum stay eligible (R3.30).
#[must_use]
pub fn eligible_replicas_served(image: &Image) -> bool {
    image.feature_level(ELIGIBLE_LEADER_REPLICAS) >= 1
}

fn effective(image: &Image, settings: &Settings, own: &BTreeMap<String, String>) -> TopicSettings {
    let this_node = ConfigResource::Broker(BrokerId(settings.node.node_id().0));
    TopicSettings::effective(&Layers {
        topic: own,
        node_dynamic: &image.configs.get(&this_node),
        cluster: &image.configs.get(&ConfigResource::ClusterDefault),
        node: &settings.node,
    })
}

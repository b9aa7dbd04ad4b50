//! Stories that the simulator told first, each the shortest one.

use std::sync::Arc;

use metadata::config::{NodeConfig, NodeId, Role as NodeRole, TopicDefaults};
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;

use super::event::{Effect, Entry, Event, LogPosition};
use super::*;

fn settings() -> Settings {
    Settings {
        cluster_id: "stories".to_owned(),
        session_timeout: Duration::from_secs(9),
        disconnect_grace: Duration::from_secs(1),
        idle_interval: None,
        quorum_lease: Duration::from_millis(150),
        demotion_after: Duration::from_millis(300),
        rebalance_interval: None,
        topics: TopicDefaults {
            partitions: 1,
            replication_factor: 1,
            auto_create: false,
            deletable: true,
        },
        node: Arc::new(NodeConfig::bare(NodeRole::Controller, NodeId(1))),
    }
}

fn proposals(effects: &[Effect]) -> Vec<MetadataOffset> {
    let base = |effect: &Effect| match effect {
        Effect::Propose { base_offset, .. } => Some(*base_offset),
        _ => None,
    };
    effects.iter().filter_map(base).collect()
}

/// A first active controller whose first records are refused proposes them again; else every broker that registers
/// meanwhile would be told that the cluster runs no version it knows.
#[test]
fn the_first_records_are_proposed_again_when_they_are_refused() {
    let mut driver = Driver::new(settings(), Image::default(), LogPosition(0));
    let (now, term) = (Now::default(), Term(1));
    let events = [
        Event::Led {
            term,
            log_end: LogPosition(1),
        },
        Event::QuorumAcknowledged { term, at: now.at },
        Event::Applied {
            position: LogPosition(1),
            term,
            entry: Entry::Blank,
        },
    ];
    let first: Vec<Effect> = events
        .into_iter()
        .flat_map(|event| driver.step(now, event))
        .collect();
    assert_eq!(proposals(&first), [MetadataOffset(0)]);

    let base_offset = MetadataOffset(0);
    let again = driver.step(now, Event::Refused { term, base_offset });

    assert_eq!(proposals(&again), [MetadataOffset(0)]);
}

//! An administrator configures topics anew while they are used.
//!
//! What is acknowledged is promised by the `min.insync.replicas` of that moment: once it was lowered anywhere, nobody loses
//! data any more for the rest of a run.

use controller_core::command::{AlterConfigs, Command, ConfigAlteration, ConfigOperation, ConfigWish};
use metadata::record::ConfigResource;

use crate::chance::Chance;
use crate::plan::Fault;
use crate::setup;

use super::World;

impl World {
    pub(super) fn alter_configs(&mut self, fault: Fault) -> Option<String> {
        let places = self.plan.topics.len() as u64;
        let place = usize::try_from((fault.dice >> 8) % places).expect("few");
        let active = self.active()?;
        if !self.topics_created.contains(&place) {
            return None;
        }
        let mut chance = Chance::of(fault.dice, "configs");
        let (key, value) = match chance.below(4) {
            0 | 1 => {
                // Whoever lost data counts on the others that may lead, and these are forgotten with this change.
                if !self.tainted.is_empty() {
                    return None;
                }
                let min = usize::try_from(chance.between(1, 2)).expect("few");
                let min = min.min(self.plan.replication);
                self.min_in_sync = self.min_in_sync.min(min);
                (setup::MIN_IN_SYNC, Some(min.to_string()))
            }
            // What a run counts on from its beginning stays.
            2 if self.plan.flush_every_batch => return None,
            2 => {
                let each = chance.per_mille(500).then(|| "1".to_owned());
                (setup::FLUSH_MESSAGES, each)
            }
            _ => {
                let age = chance
                    .per_mille(700)
                    .then(|| chance.between(200, 2_000).to_string());
                (setup::SEGMENT_MS, age)
            }
        };
        let name = setup::topic_name(&self.plan, place);
        let told = format!(
            "{key} of {name} becomes {}",
            value.as_deref().unwrap_or("what it was")
        );
        let operation = value.map_or(ConfigOperation::Delete, ConfigOperation::Set);
        let alteration = ConfigAlteration {
            resource: ConfigResource::Topic(name),
            wish: ConfigWish::Adjust(vec![(key.to_owned(), operation)]),
        };
        let resources = vec![alteration];
        let validate_only = false;
        self.wish(
            active,
            Command::AlterConfigs(AlterConfigs {
                resources,
                validate_only,
            }),
        );
        Some(told)
    }
}

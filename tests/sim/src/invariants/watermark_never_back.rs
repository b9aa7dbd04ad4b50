//! The watermark of a replica never moves back, except where its log was cut below it.

use std::collections::BTreeMap;

use broker_core::offsets::Offset;
use metadata::ids::PartitionId;

use super::Invariant;
use crate::fact::{Fact, Incarnation};

/// The watermark of each replica of each process.
#[derive(Default)]
pub struct WatermarkNeverBack(BTreeMap<(Incarnation, PartitionId), Offset>);

impl Invariant for WatermarkNeverBack {
    fn name(&self) -> &'static str {
        "watermarks never back"
    }

    fn source(&self) -> &'static str {
        "F-34, F-25"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::WatermarkMoved {
                by, partition, to, ..
            } => match self.0.insert((*by, *partition), *to) {
                Some(before) if *to < before => Err(format!("{by:?} {partition}: from {before} to {to}")),
                _ => Ok(()),
            },
            Fact::Truncated { by, partition, to } => {
                if let Some(held) = self.0.get_mut(&(*by, *partition)) {
                    *held = (*held).min(*to);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

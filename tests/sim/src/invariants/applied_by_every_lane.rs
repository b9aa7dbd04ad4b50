//! What a broker tells as applied, every one of its lanes has carried out.

use super::Invariant;
use crate::fact::Fact;

/// Looks at each report by itself.
#[derive(Default)]
pub struct AppliedByEveryLane;

impl Invariant for AppliedByEveryLane {
    fn name(&self) -> &'static str {
        "applied means applied by every lane"
    }

    fn source(&self) -> &'static str {
        "R1.11"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Applied { by, below, lanes } = fact else {
            return Ok(());
        };
        match lanes.iter().find(|lane| **lane < *below) {
            Some(lane) => Err(format!("{by:?} told {below} while a lane is at {lane}")),
            None => Ok(()),
        }
    }
}

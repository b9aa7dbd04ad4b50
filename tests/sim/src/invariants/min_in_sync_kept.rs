//! A leader's watermark never moves while its in-sync set is below the effective minimum.

use super::Invariant;
use crate::fact::Fact;

/// Looks at each move by itself.
#[derive(Default)]
pub struct MinInSyncKept;

impl Invariant for MinInSyncKept {
    fn name(&self) -> &'static str {
        "no watermark moves below min.insync.replicas"
    }

    fn source(&self) -> &'static str {
        "F-35"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::WatermarkMoved {
                by,
                partition,
                to,
                in_sync: Some((held, required)),
            } if held < required => Err(format!(
                "{by:?} {partition}: to {to} with {held} of {required} in sync"
            )),
            _ => Ok(()),
        }
    }
}

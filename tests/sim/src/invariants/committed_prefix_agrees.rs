//! Below the watermark all replicas hold the same batches.

use std::collections::BTreeMap;

use broker_core::offsets::Offset;
use metadata::ids::PartitionId;

use super::Invariant;
use crate::fact::{Fact, StoredBatch};

/// What was below a watermark first, by its base offset.
#[derive(Default)]
pub struct CommittedPrefixAgrees(BTreeMap<(PartitionId, Offset), StoredBatch>);

impl Invariant for CommittedPrefixAgrees {
    fn name(&self) -> &'static str {
        "logs equal below the watermark"
    }

    fn source(&self) -> &'static str {
        "F-34, F-25"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Below {
            by,
            partition,
            batches,
        } = fact
        else {
            return Ok(());
        };
        for batch in batches {
            let overlapping = self.0.range(..=(*partition, batch.last)).next_back();
            if let Some((_, held)) =
                overlapping.filter(|((of, _), held)| of == partition && batch.base <= held.last)
                && held != batch
            {
                return Err(format!(
                    "{by:?} {partition}: {batch:?} where others have {held:?}"
                ));
            }
            self.0.insert((*partition, batch.base), *batch);
        }
        Ok(())
    }
}

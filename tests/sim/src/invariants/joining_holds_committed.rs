//! Who joins an in-sync set holds everything that is committed, and everything from before the leadership.

use super::Invariant;
use crate::fact::Fact;

/// Looks at each wish by itself.
#[derive(Default)]
pub struct JoiningHoldsCommitted;

impl Invariant for JoiningHoldsCommitted {
    fn name(&self) -> &'static str {
        "who joins holds what is committed"
    }

    fn source(&self) -> &'static str {
        "F-31"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Joining {
            by,
            partition,
            follower,
            log_end,
            watermark,
            epoch_start,
        } = fact
        else {
            return Ok(());
        };
        let required = watermark.max(epoch_start);
        match log_end {
            Some(end) if required <= end => Ok(()),
            _ => Err(format!(
                "{by:?} {partition}: broker {follower} would join with {log_end:?} of {required}"
            )),
        }
    }
}

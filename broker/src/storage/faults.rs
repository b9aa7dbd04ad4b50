//! What an operator is told of a log directory whose disk is full: that it is, how much was refused since, that it is over.
//! Clients that ask again and again must not fill another disk with what is told of them.
//!
//! Must not: decide what a fault means for a log; [`partition_log::LogFault`] and the log's owner do.

use std::time::Duration;

use broker_core::time::Moment;

/// While a disk stays full, that is told so often.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// A disk is no longer full when nothing was refused for so long: where a small file still fits, a batch may not.
const OVER_AFTER: Duration = Duration::from_secs(10);

/// Whether the disk of a directory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// Not as far as is known.
    #[default]
    Enough,
    /// A write found none.
    None {
        /// When that was told.
        told: Moment,
        /// The last time.
        last: Moment,
        /// How much was refused that was not told.
        untold: u64,
    },
}

impl Room {
    /// A write was refused. Returns, where that is to be told now, how many were since it was told last.
    pub fn refused(&mut self, now: Moment) -> Option<u64> {
        let (told, refused) = match *self {
            Room::Enough => (None, 1),
            Room::None { told, untold, .. } => (Some(told), untold + 1),
        };
        let is_silent = told.filter(|told| now < told.after(TOLD_AGAIN_AFTER));
        *self = Room::None {
            told: is_silent.unwrap_or(now),
            last: now,
            untold: is_silent.map_or(0, |_| refused),
        };
        is_silent.is_none().then_some(refused)
    }

    /// Something was written. Returns whether the disk was full, and no longer is.
    pub fn written(&mut self, now: Moment) -> bool {
        let is_over = matches!(self, Room::None { last, .. } if last.after(OVER_AFTER) <= now);
        if is_over {
            *self = Room::Enough;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_start(Duration::from_secs(seconds))
    }

    #[test]
    fn a_full_disk_is_told_when_it_begins_then_once_a_minute_with_a_count_and_when_it_is_over() {
        let mut room = Room::default();
        assert!(!room.written(at(0)));
        assert_eq!(room.refused(at(1)), Some(1));
        let told: Vec<u64> = (2..61).filter_map(|second| room.refused(at(second))).collect();
        assert!(told.is_empty(), "{told:?}");
        assert_eq!(room.refused(at(61)), Some(60));
        assert_eq!(room.refused(at(62)), None);

        assert!(!room.written(at(71)), "refused a moment ago");
        assert!(room.written(at(72)));
        assert!(!room.written(at(73)));
        assert_eq!(room.refused(at(74)), Some(1));
    }
}

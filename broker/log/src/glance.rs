//! What a log looks like to somebody who must choose among several copies of it.
//!
//! Must not: change anything, or need the log to be whole.

use std::path::Path;

use host::{OpenHow, WallMs};

use crate::checkpoint;
use crate::log::{LogHost, PARTITION_METADATA, old_segment};
use crate::recovery::find_end;
use crate::segment::{FileSizes, file_name, parse_file_name};
use crate::types::{Offset, TopicId};

/// What tells one copy of a log from another. What cannot be read is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// The topic that it was written for.
    pub topic: Option<TopicId>,
    /// Behind its last record.
    pub log_end: Option<Offset>,
    /// When its newest segment was last written to.
    pub modified: Option<WallMs>,
}

impl Glance {
    /// Looks at the log in a directory.
    #[must_use]
    pub fn at(host: &LogHost, dir: &Path) -> Glance {
        let newest = newest_segment(host, dir);
        let log_end = newest.and_then(|(base, sizes)| find_end(&old_segment(host, dir, base, sizes)).ok()?);
        let modified = newest.and_then(|(base, _)| {
            let file = host.disk.open(&dir.join(file_name(base, ".log")), OpenHow::Read);
            file.ok()?.modified().ok()
        });
        let identity = host
            .disk
            .read_file(&dir.join(PARTITION_METADATA), checkpoint::CHECKPOINT_BYTES_MAX);
        let identity = identity.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Glance {
            topic: identity.and_then(|text| checkpoint::parse_topic(&text)),
            log_end,
            modified,
        }
    }
}

/// Its indexes are left out: what they say is not needed, and need not be right.
fn newest_segment(host: &LogHost, dir: &Path) -> Option<(Offset, FileSizes)> {
    let entries = host.disk.list(dir).ok()?;
    let segments = entries.iter().filter_map(|entry| {
        let sizes = FileSizes {
            log: u32::try_from(entry.size_bytes).ok()?,
            ..FileSizes::default()
        };
        Some((parse_file_name(&entry.name, ".log")?, sizes))
    });
    segments.max_by_key(|(base, _)| *base)
}

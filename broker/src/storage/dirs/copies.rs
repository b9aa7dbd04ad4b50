//! Partitions that lie in more than one log directory (L-25), as an operator is told of them: all at once, with what tells
//! their copies apart.
//!
//! Must not: choose among them. Who copied a log, and why, is not known here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use host::WallMs;
use partition_log::{Glance, LogHost, TopicPartition};

use super::{DirIndex, DirsError};
use crate::seam;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How many partitions are told by name: each of their copies is looked at, and a whole directory may have been copied.
const NAMED_MAX: usize = 20;

/// The partitions with more than one log.
#[derive(Clone, Debug)]
pub struct Copies {
    /// The first of them.
    named: Vec<Copied>,
    /// How many there are.
    count: usize,
}

/// A partition with more than one log.
#[derive(Clone, Debug)]
struct Copied {
    partition: TopicPartition,
    copies: Vec<Copy>,
}

#[derive(Clone, Debug)]
struct Copy {
    path: PathBuf,
    glance: Glance,
    now: WallMs,
}

/// Where each partition lies.
///
/// # Errors
/// When one lies in several directories.
pub(super) fn one_each(
    host: &LogHost,
    paths: &[PathBuf],
    found: BTreeMap<TopicPartition, Vec<DirIndex>>,
    now: WallMs,
) -> Result<BTreeMap<TopicPartition, DirIndex>, DirsError> {
    let (mut placed, mut named, mut count) = (BTreeMap::new(), Vec::new(), 0);
    for (partition, dirs) in found {
        if let [only] = dirs[..] {
            placed.insert(partition, only);
            continue;
        }
        count += 1;
        if named.len() == NAMED_MAX {
            continue;
        }
        let copy = |dir: &DirIndex| {
            let path = paths[dir.0].join(partition.to_string());
            let glance = Glance::at(host, &path);
            Copy { path, glance, now }
        };
        let copies = dirs.iter().map(copy).collect();
        named.push(Copied { partition, copies });
    }
    match named.is_empty() {
        true => Ok(placed),
        false => Err(DirsError::Several(Copies { named, count })),
    }
}

/// One line for the cause and what to do, one for each partition that is named, and one for how many are not.
impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => f.write_str("1 partition lies")?,
            count => write!(f, "{count} partitions lie")?,
        }
        f.write_str(
            " in more than one log directory. Keep one directory of each and move the others out of log.dirs: keep the one whose \
             topic id is that of the topic, of several the one with the higher log end, where these are equal the one that was \
             written last; nothing is lost where another broker has an in-sync replica",
        )?;
        for one in &self.named {
            write!(f, "\n  {one}")?;
        }
        match self.count - self.named.len() {
            0 => Ok(()),
            rest => write!(f, "\n  and {rest} more"),
        }
    }
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.partition)?;
        for (place, copy) in self.copies.iter().enumerate() {
            let between = if place == 0 { "" } else { "; " };
            write!(f, "{between}{copy}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Glance {
            topic,
            log_end,
            modified,
        } = self.glance;
        let unknown = || "unknown".to_owned();
        let log_end = log_end.map_or_else(unknown, |end| end.0.to_string());
        let written = modified.map_or_else(unknown, |at| ago(self.now.0.saturating_sub(at.0)));
        let topic = topic.map_or_else(unknown, |id| seam::topic_to_core(id).to_string());
        let path = self.path.display();
        write!(
            f,
            "{path} (log end {log_end}, written {written}, topic id {topic})"
        )
    }
}

fn ago(millis: i64) -> String {
    let (count, unit) = match millis.max(0) {
        millis if millis < 2 * MINUTE_MS => (millis / 1_000, "s"),
        millis if millis < 2 * HOUR_MS => (millis / MINUTE_MS, "min"),
        millis if millis < 2 * DAY_MS => (millis / HOUR_MS, "h"),
        millis => (millis / DAY_MS, "days"),
    };
    format!("{count} {unit} ago")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use std::sync::Arc;

    use host::{SimClock, SimDisk};
    use partition_log::{DirOwner, LeaderEpoch, Log, LogConfig, TopicId};

    use super::super::Dirs;
    use super::*;
    use crate::storage::testing::{batch, host_on};

    const NOW: WallMs = WallMs(1_000_000);

    fn opened(disk: &SimDisk) -> Result<Dirs, DirsError> {
        let owner = DirOwner {
            cluster_id: "a cluster".to_owned(),
            node_id: 1,
        };
        let paths = ["/a", "/b", "/c"].map(PathBuf::from);
        Dirs::open(host_on(disk), Arc::new(SimClock::new(NOW)), &paths, &owner)
    }

    /// A log with so many batches of three records.
    fn log_at(disk: &SimDisk, path: &str, batches: i64) {
        let config = LogConfig::default();
        let mut log = Log::create(&host_on(disk), path.as_ref(), config, TopicId([7; 16]), NOW).unwrap();
        for n in 0..batches {
            log.append_as_follower(&batch(3 * n, b'a'), LeaderEpoch(0), NOW)
                .unwrap();
        }
    }

    /// The start failed one partition at a time, with no word about which copy to keep.
    #[test]
    fn all_partitions_that_lie_in_several_directories_are_told_with_what_tells_their_copies_apart() {
        let disk = SimDisk::new();
        drop(opened(&disk).unwrap());
        for (path, batches) in [
            ("/a/orders-0", 2),
            ("/c/orders-0", 5),
            ("/a/orders-1", 1),
            ("/b/orders-1", 1),
        ] {
            log_at(&disk, path, batches);
        }
        log_at(&disk, "/b/orders-2", 1);

        let told = opened(&disk).unwrap_err().to_string();

        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 3, "{told}");
        assert!(
            lines[0].starts_with("2 partitions lie in more than one log directory. Keep one"),
            "{told}"
        );
        assert!(
            lines[1].starts_with("  orders-0: /a/orders-0 (log end 6, written "),
            "{told}"
        );
        assert!(lines[1].contains("; /c/orders-0 (log end 15, written "), "{told}");
        assert!(
            lines[2].starts_with("  orders-1: /a/orders-1 (log end 3, written "),
            "{told}"
        );
        assert!(lines[2].ends_with(", topic id BwcHBwcHBwcHBwcHBwcHBw)"), "{told}");
    }

    /// "1 partitions lie"; and where a whole directory had been copied, every copy was opened, and told on a line.
    #[test]
    fn one_partition_has_a_word_of_its_own_and_of_many_the_first_are_named() {
        let disk = SimDisk::new();
        drop(opened(&disk).unwrap());
        let copied = |partition: usize| {
            for dir in ["a", "b"] {
                log_at(&disk, &format!("/{dir}/orders-{partition}"), 1);
            }
            opened(&disk).unwrap_err().to_string()
        };

        let told = copied(0);
        assert!(told.starts_with("1 partition lies in more than one"), "{told}");
        let told: Vec<String> = (1..NAMED_MAX).map(copied).collect();
        let told = &told[NAMED_MAX - 2];
        assert_eq!(told.lines().count(), 1 + NAMED_MAX, "{told}");
        copied(NAMED_MAX);
        let told = copied(NAMED_MAX + 1);
        assert_eq!(told.lines().count(), 1 + NAMED_MAX + 1, "{told}");
        assert!(told.starts_with("22 partitions lie in more"), "{told}");
        assert!(told.ends_with("\n  and 2 more"), "{told}");
    }

    #[test]
    fn a_time_is_told_as_people_say_it() {
        let told = [-5, 119_000, 120_000, 2 * HOUR_MS, 50 * HOUR_MS].map(ago);
        assert_eq!(
            told,
            ["0 s ago", "119 s ago", "2 min ago", "2 h ago", "2 days ago"]
        );
    }
}

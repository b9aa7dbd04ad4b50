//! What this process takes of the machine.

use std::fs;
use std::io;
use std::time::Duration;

/// A look at this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Memory that is in use and in RAM.
    pub resident_bytes: u64,
    /// Processor time of all threads since the start.
    pub cpu: Duration,
    /// Descriptors that are open.
    pub open_files: u64,
    /// How many may be.
    pub open_files_max: u64,
    /// Threads.
    pub threads: u64,
}

/// Looks at this process.
///
/// # Errors
/// Where the system does not tell.
pub fn usage_of_this_process() -> io::Result<ProcessUsage> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let statm = fs::read_to_string("/proc/self/statm")?;
    let (ticks, threads) = parse_stat(&stat).ok_or(io::ErrorKind::InvalidData)?;
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Ok(ProcessUsage {
        resident_bytes: pages.ok_or(io::ErrorKind::InvalidData)? * rustix::param::page_size() as u64,
        cpu: Duration::from_millis(ticks * 1_000 / ticks_per_second),
        // The listing itself is open while it is read.
        open_files: (fs::read_dir("/proc/self/fd")?.count() as u64).saturating_sub(1),
        open_files_max: limit.current.unwrap_or(u64::MAX),
        threads,
    })
}

/// Has the kernel back this process's memory with pages of the usual size only, from now on.
///
/// An allocator that asks for huge pages holds several times what is in use where thousands of small things live, and the
/// first touch of each is a stall while the kernel makes room for it.
///
/// # Errors
/// Where the kernel has no such choice; nothing is different then.
pub fn without_huge_pages() -> io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

/// User and system time in ticks, and the number of threads. The name in the second field may hold anything.
fn parse_stat(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some((number(11)? + number(12)?, number(17)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_process_can_be_without_huge_pages() {
        without_huge_pages().unwrap();
        assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap());
    }

    #[test]
    fn a_name_with_brackets_and_spaces_moves_no_field() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 120 30 5 6 20 0 9 0 100 200 300";
        assert_eq!(parse_stat(stat), Some((150, 9)));
        assert_eq!(parse_stat("7 (a) S 1"), None);
    }

    #[test]
    fn an_open_file_is_counted() {
        let before = usage_of_this_process().unwrap();
        let held: Vec<_> = (0..40).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let after = usage_of_this_process().unwrap();
        // Other tests of this process open and close files meanwhile.
        assert!(before.open_files + 20 < after.open_files, "{before:?} {after:?}");
        assert!(1 << 20 < after.resident_bytes && 1 <= after.threads);
        assert!(after.open_files < after.open_files_max);
        drop(held);
    }
}

//! The brokers' log directories, by DescribeLogDirs: which of them have no room left, and which do not work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use wire::messages::DescribeLogDirsRequest;
use wire::messages::describe_log_dirs::DescribeLogDirsResult;

use crate::address::Address;
use crate::ask::{self, BrokerView};
use crate::client::{Client, ClientError};
use crate::outcome::Failure;

/// How long a broker may take, connecting included. All are asked at once, beside everything else.
const PATIENCE: Duration = Duration::from_secs(2);

/// A disk with less room than this, and less than a hundredth of its size, is full: some files still fit, a segment or a
/// burst does not.
const FULL_BELOW_BYTES: u64 = 64 << 20;
const FULL_BELOW_SHARE: u64 = 100;

/// A log directory of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogDirView {
    /// Whose it is.
    pub broker: i32,
    /// Where it is.
    pub path: String,
    /// Why it cannot be used, where it cannot.
    pub offline: Option<String>,
    /// What may still be written to its disk, in bytes, where that is told.
    pub usable_bytes: Option<u64>,
    /// The size of its disk, in bytes, where that is told.
    pub total_bytes: Option<u64>,
    /// Whose logs lie there and can be used.
    #[serde(skip)]
    pub logs: BTreeSet<(String, i32)>,
}

impl LogDirView {
    /// The room on the disk in words, or what is in its place.
    pub fn room(&self) -> String {
        match (&self.offline, self.usable_bytes, self.total_bytes) {
            (Some(_), ..) => "offline".to_owned(),
            (None, Some(usable), Some(total)) => format!("{} of {}", sized(usable), sized(total)),
            _ => "-".to_owned(),
        }
    }

    /// What is wrong with it.
    pub fn trouble(&self) -> Option<String> {
        let (broker, path) = (self.broker, &self.path);
        if let Some(why) = &self.offline {
            return Some(format!("broker {broker}: {path} is offline: {why}"));
        }
        let is_full = is_full(self.usable_bytes?, self.total_bytes?);
        is_full.then(|| {
            let room = self.room();
            format!("broker {broker}: the disk of {path} is full: {room} can be written")
        })
    }
}

const fn is_full(usable_bytes: u64, total_bytes: u64) -> bool {
    usable_bytes < FULL_BELOW_BYTES && usable_bytes < total_bytes / FULL_BELOW_SHARE
}

/// A size as people read it: `12.3 GiB`.
fn sized(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().unwrap_or(&"");
    while 1024.0 <= size
        && let Some(next) = units.next()
    {
        size /= 1024.0;
        unit = next;
    }
    format!("{size:.1} {unit}")
}

/// What came of asking the brokers.
#[derive(Debug, Default)]
pub struct Asked {
    /// Their log directories.
    pub found: Vec<LogDirView>,
    /// Who could not be asked, in sentences.
    pub unknown: Vec<String>,
    /// Who was asked, and whether it answered at all.
    pub answers: BTreeMap<i32, bool>,
}

/// Asks every one of these brokers. A fenced one is not: it is named for that already, and often gone.
pub async fn of(brokers: &[BrokerView]) -> Asked {
    let asked: Vec<_> = brokers
        .iter()
        .filter(|broker| !broker.fenced)
        .cloned()
        .map(|broker| {
            let number = broker.id;
            let answer = tokio::spawn(async move { timeout(PATIENCE, one(&broker)).await });
            (number, answer)
        })
        .collect();
    let mut all = Asked::default();
    for (broker, answer) in asked {
        let (is_there, why) = match answer.await {
            Ok(Ok(Ok(dirs))) => {
                all.found.extend(dirs);
                (true, None)
            }
            Ok(Ok(Err(failure))) => (is_of_somebody(&failure), Some(failure.to_string())),
            Ok(Err(_)) => (false, Some(format!("silent for {} s", PATIENCE.as_secs()))),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        all.answers.insert(broker, is_there);
        let why = why.map(|why| format!("the disks of broker {broker}: {why}"));
        all.unknown.extend(why);
    }
    all
}

/// Whether a failure is an answer, and not that there is none.
const fn is_of_somebody(failure: &Failure) -> bool {
    !matches!(
        failure,
        Failure::Client(ClientError::Unreachable(_) | ClientError::NoAnswer { .. })
    )
}

async fn one(broker: &BrokerView) -> Result<Vec<LogDirView>, Failure> {
    let address: Address = broker.endpoint.parse().map_err(Failure::Refused)?;
    let mut client = Client::connect(&[address]).await?;
    // All partitions.
    let question = DescribeLogDirsRequest { topics: None };
    let (_, answer) = client.ask(4, &question).await?;
    ask::refuse(answer.error_code, None, "they cannot be described")?;
    Ok(answer.results.iter().map(|dir| view(broker.id, dir)).collect())
}

fn view(broker: i32, dir: &DescribeLogDirsResult) -> LogDirView {
    let logs = dir.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter().filter(|one| !one.is_future_key);
        partitions.map(|one| (topic.name.clone(), one.partition_index))
    });
    LogDirView {
        broker,
        path: dir.log_dir.clone(),
        offline: dir.error_code.is_error().then(|| dir.error_code.to_string()),
        // Versions before 4 do not tell, and say -1.
        usable_bytes: u64::try_from(dir.usable_bytes).ok(),
        total_bytes: u64::try_from(dir.total_bytes).ok(),
        logs: logs.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(usable_bytes: u64, total_bytes: u64) -> LogDirView {
        LogDirView {
            broker: 2,
            path: "/data".to_owned(),
            offline: None,
            usable_bytes: Some(usable_bytes),
            total_bytes: Some(total_bytes),
            logs: BTreeSet::new(),
        }
    }

    #[test]
    fn a_disk_is_full_when_little_is_left_and_that_is_little_of_it() {
        let gib = 1 << 30;
        assert!(is_full(0, 20 << 20));
        assert!(is_full((64 << 20) - 1, 500 * gib));
        assert!(!is_full(64 << 20, 500 * gib));
        assert!(!is_full(10 << 20, 20 << 20), "half of a small one is left");
    }

    #[test]
    fn what_is_wrong_is_said_with_broker_and_directory() {
        let full = "broker 2: the disk of /data is full: 0 B of 20.0 MiB can be written";
        assert_eq!(dir(0, 20 << 20).trouble().as_deref(), Some(full));
        assert_eq!(dir(10 << 20, 20 << 20).trouble(), None);
        let offline = LogDirView {
            offline: Some("KAFKA_STORAGE_ERROR".to_owned()),
            usable_bytes: None,
            ..dir(0, 1)
        };
        let dead = "broker 2: /data is offline: KAFKA_STORAGE_ERROR";
        assert_eq!(offline.trouble().as_deref(), Some(dead));
        assert_eq!(
            (offline.room().as_str(), dir(1023, 3 << 30).room().as_str()),
            ("offline", "1023 B of 3.0 GiB")
        );
    }

    #[test]
    fn where_the_room_is_not_told_nothing_is_said_of_it() {
        let old = DescribeLogDirsResult {
            log_dir: "/data".to_owned(),
            usable_bytes: -1,
            total_bytes: -1,
            ..Default::default()
        };
        let seen = view(2, &old);
        assert_eq!((seen.trouble(), seen.room().as_str()), (None, "-"));
    }
}

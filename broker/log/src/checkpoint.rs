//! Kafka's small text files: checkpoints, `partition.metadata`, `meta.properties`, the clean-shutdown marker.
//!
//! Pure text in and out, with the exact bytes that Kafka writes and reads (L-1, L-3, L-4, L-5). A file that cannot be
//! understood is `None`: each caller knows what a missing one means. Must not: touch the disk.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::epochs::EpochStart;
use crate::types::{DirectoryId, IncarnationId, LeaderEpoch, Offset, TopicId, TopicPartition};

/// Largest of these files that is read: 100,000 partitions with long names stay below.
pub(crate) const CHECKPOINT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Whose directory it is, as its `meta.properties` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster.
    pub cluster_id: String,
    /// The node.
    pub node_id: i32,
    /// The directory.
    pub directory_id: DirectoryId,
}

/// The marker of a clean shutdown (L-5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanShutdown {
    /// Epoch of the last broker process that served from here and shut down; `None` if it did not say.
    pub broker_epoch: Option<i64>,
    /// The processes since then that were stopped before they heard of an epoch of their own, the last one last. Kafka
    /// does not write them.
    pub unserved: Vec<IncarnationId>,
}

/// `topic partition offset` per line.
pub(crate) fn write_offsets(offsets: &BTreeMap<TopicPartition, Offset>) -> String {
    let mut text = format!("0\n{}\n", offsets.len());
    for (partition, offset) in offsets {
        let _ = writeln!(text, "{} {} {offset}", partition.topic, partition.partition);
    }
    text
}

/// Reads what [`write_offsets`] writes.
pub(crate) fn parse_offsets(text: &str) -> Option<BTreeMap<TopicPartition, Offset>> {
    parse_lines(text, |line| {
        let mut fields = line.split(' ');
        let topic = fields.next()?.to_owned();
        let partition = fields.next()?.parse().ok()?;
        let offset = Offset(fields.next()?.parse().ok()?);
        let whole = fields.next().is_none() && !topic.is_empty() && 0 <= offset.0;
        whole.then_some((TopicPartition { topic, partition }, offset))
    })
}

/// `epoch startOffset` per line.
pub(crate) fn write_epochs(entries: &[EpochStart]) -> String {
    let mut text = format!("0\n{}\n", entries.len());
    for entry in entries {
        let _ = writeln!(text, "{} {}", entry.epoch, entry.start);
    }
    text
}

/// Reads what [`write_epochs`] writes.
pub(crate) fn parse_epochs(text: &str) -> Option<Vec<EpochStart>> {
    parse_lines(text, |line| {
        let (epoch, start) = line.split_once(' ')?;
        let entry = EpochStart {
            epoch: LeaderEpoch(epoch.parse().ok()?),
            start: Offset(start.parse().ok()?),
        };
        (0 <= entry.epoch.0 && 0 <= entry.start.0).then_some(entry)
    })
}

/// Version line, count line, then exactly that many entries.
fn parse_lines<T, C: FromIterator<T>>(text: &str, entry: impl Fn(&str) -> Option<T>) -> Option<C> {
    // A line that was cut off could still look like an entry, with a smaller number.
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()? != "0" {
        return None;
    }
    let count: usize = lines.next()?.parse().ok()?;
    let entries: Vec<T> = lines.map(entry).collect::<Option<_>>()?;
    (entries.len() == count).then(|| entries.into_iter().collect())
}

/// The contents of `partition.metadata`.
pub(crate) fn write_topic(topic: TopicId) -> String {
    format!("version: 0\ntopic_id: {topic}")
}

/// Reads what [`write_topic`] writes.
pub(crate) fn parse_topic(text: &str) -> Option<TopicId> {
    let mut lines = text.lines();
    let version = lines.next()?.strip_prefix("version:")?.trim();
    let topic = lines.next()?.strip_prefix("topic_id:")?.trim();
    (version == "0").then_some(())?;
    TopicId::parse(topic)
}

/// The contents of `meta.properties`.
pub(crate) fn write_meta_properties(meta: &MetaProperties) -> String {
    format!(
        "cluster.id={}\ndirectory.id={}\nnode.id={}\nversion=1\n",
        meta.cluster_id, meta.directory_id, meta.node_id
    )
}

/// Reads what [`write_meta_properties`] writes, and what Kafka writes, which may have comments and more keys.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn parse_meta_properties(text: &str) -> Result<MetaProperties, String> {
    let pairs: BTreeMap<&str, String> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .filter_map(|line| line.split_once('='))
        // Java escapes these characters in values.
        .map(|(key, value)| (key.trim(), value.trim().replace('\\', "")))
        .collect();
    let get = |key: &str| pairs.get(key).ok_or_else(|| format!("{key} is missing"));
    if get("version")? != "1" {
        return Err(format!("version {} where 1 is known", get("version")?));
    }
    let node_id = get("node.id")?;
    let directory_id = get("directory.id")?;
    Ok(MetaProperties {
        cluster_id: get("cluster.id")?.clone(),
        node_id: node_id
            .parse()
            .map_err(|_| format!("node.id {node_id} is no number"))?,
        directory_id: DirectoryId::parse(directory_id)
            .ok_or_else(|| format!("directory.id {directory_id} is no id"))?,
    })
}

/// The contents of `.kafka_cleanshutdown`.
pub(crate) fn write_clean_shutdown(mark: &CleanShutdown) -> String {
    let epoch = mark.broker_epoch.unwrap_or(-1);
    let unserved: Vec<String> = mark.unserved.iter().map(|id| format!("\"{id}\"")).collect();
    let unserved = match unserved.is_empty() {
        true => String::new(),
        false => format!(",\"unserved\":[{}]", unserved.join(",")),
    };
    format!("{{\"version\":0,\"brokerEpoch\":{epoch}{unserved}}}")
}

/// Reads what [`write_clean_shutdown`] writes. A marker that says nothing else, as an old Kafka leaves it, still is one.
pub(crate) fn parse_clean_shutdown(text: &str) -> CleanShutdown {
    CleanShutdown {
        broker_epoch: field(text, "brokerEpoch").and_then(parse_epoch),
        unserved: field(text, "unserved").map(parse_unserved).unwrap_or_default(),
    }
}

/// What stands behind `"key":`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\"{key}\""))?;
    rest.trim_start().strip_prefix(':').map(str::trim_start)
}

fn parse_epoch(value: &str) -> Option<i64> {
    let is_number = |c: char| c == '-' || c.is_ascii_digit();
    let digits = value.split(|c| !is_number(c)).next()?;
    digits.parse().ok().filter(|epoch| 0 <= *epoch)
}

/// The ids of a list; those that are none are left out.
fn parse_unserved(value: &str) -> Vec<IncarnationId> {
    let list = value.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let ids = list.map(|(ids, _)| ids.split(',')).into_iter().flatten();
    ids.filter_map(|id| IncarnationId::parse(id.trim().trim_matches('"')))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn partition(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition {
            topic: topic.into(),
            partition,
        }
    }

    #[test]
    fn an_offset_checkpoint_has_kafkas_text() {
        let offsets = BTreeMap::from([(partition("b", 0), Offset(7)), (partition("a.x", 11), Offset(0))]);
        let text = write_offsets(&offsets);

        assert_eq!(text, "0\n2\na.x 11 0\nb 0 7\n");
        assert_eq!(parse_offsets(&text), Some(offsets));
    }

    #[test]
    fn a_torn_checkpoint_is_none() {
        let whole = "0\n2\na 0 12\nb 0 34\n";
        for cut in 0..whole.len() {
            assert_eq!(parse_offsets(&whole[..cut]), None, "{:?}", &whole[..cut]);
        }
        assert_eq!(parse_offsets("1\n0\n"), None);
        assert_eq!(parse_offsets("0\n1\na 0 -5\n"), None);
        assert_eq!(parse_offsets("0\n0\n"), Some(BTreeMap::new()));
        assert_eq!(parse_epochs("0\n1\n\0\0\0\n"), None);
    }

    #[test]
    fn an_epoch_checkpoint_has_kafkas_text() {
        let entries = vec![
            EpochStart {
                epoch: LeaderEpoch(0),
                start: Offset(0),
            },
            EpochStart {
                epoch: LeaderEpoch(5),
                start: Offset(1_000),
            },
        ];
        let text = write_epochs(&entries);

        assert_eq!(text, "0\n2\n0 0\n5 1000\n");
        assert_eq!(parse_epochs(&text), Some(entries));
    }

    #[test]
    fn a_partitions_identity_has_kafkas_text() {
        let topic = TopicId::parse("ASNFZ4mrze_-3LqYdlQyEA").unwrap();
        assert_eq!(write_topic(topic), "version: 0\ntopic_id: ASNFZ4mrze_-3LqYdlQyEA");
        assert_eq!(
            parse_topic("version: 0\ntopic_id: ASNFZ4mrze_-3LqYdlQyEA\n"),
            Some(topic)
        );
        assert_eq!(parse_topic("version: 1\ntopic_id: ASNFZ4mrze_-3LqYdlQyEA"), None);
        assert_eq!(parse_topic(""), None);
    }

    #[test]
    fn a_directorys_identity_is_read_as_kafka_writes_it() {
        let text = "#\n#Sun Nov 29 19:00:00 UTC 2026\ncluster.id=x\\:y\ndirectory.id=ASNFZ4mrze_-3LqYdlQyEA\n\
                    node.id=101\nversion=1\n";
        let meta = parse_meta_properties(text).unwrap();
        assert_eq!((meta.cluster_id.as_str(), meta.node_id), ("x:y", 101));

        let ours = write_meta_properties(&MetaProperties {
            cluster_id: "c".into(),
            ..meta
        });
        assert_eq!(
            ours,
            "cluster.id=c\ndirectory.id=ASNFZ4mrze_-3LqYdlQyEA\nnode.id=101\nversion=1\n"
        );
        assert_eq!(
            parse_meta_properties("version=1\n").unwrap_err(),
            "node.id is missing"
        );
        assert_eq!(
            parse_meta_properties("version=0\n").unwrap_err(),
            "version 0 where 1 is known"
        );
    }

    #[test]
    fn the_clean_shutdown_marker_says_the_broker_epoch() {
        let mark = CleanShutdown {
            broker_epoch: Some(42),
            unserved: Vec::new(),
        };
        assert_eq!(write_clean_shutdown(&mark), "{\"version\":0,\"brokerEpoch\":42}");
        for (text, broker_epoch) in [
            ("{\"version\":0,\"brokerEpoch\":42}", Some(42)),
            ("{ \"brokerEpoch\" : 7 , \"version\" : 0 }", Some(7)),
            ("{\"version\":0,\"brokerEpoch\":-1}", None),
            ("", None),
        ] {
            let expected = CleanShutdown {
                broker_epoch,
                unserved: Vec::new(),
            };
            assert_eq!(parse_clean_shutdown(text), expected, "{text}");
        }
    }

    #[test]
    fn the_clean_shutdown_marker_names_the_processes_that_did_not_serve() {
        let mark = CleanShutdown {
            broker_epoch: Some(4),
            unserved: vec![IncarnationId([0; 16]), IncarnationId([255; 16])],
        };
        let text = write_clean_shutdown(&mark);
        let (first, second) = ("A".repeat(22), format!("{}w", "_".repeat(21)));
        assert_eq!(
            text,
            format!("{{\"version\":0,\"brokerEpoch\":4,\"unserved\":[\"{first}\",\"{second}\"]}}")
        );
        assert_eq!(parse_clean_shutdown(&text), mark);

        for list in ["[]", "[\"short\", 7", "{}", "[,]"] {
            let text = format!("{{\"unserved\" : {list}, \"brokerEpoch\" : 4}}");
            let found = parse_clean_shutdown(&text);
            assert_eq!((found.broker_epoch, found.unserved), (Some(4), vec![]), "{text}");
        }
    }
}

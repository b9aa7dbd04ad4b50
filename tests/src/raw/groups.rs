//! What the tests ask of group coordinators.

use anyhow::{Context, Result, ensure};

use super::Connection;
use super::bytes::{Reader, Writer};

const OFFSET_COMMIT: i16 = 8;
const OFFSET_FETCH: i16 = 9;
const FIND_COORDINATOR: i16 = 10;
const JOIN_GROUP: i16 = 11;
const HEARTBEAT: i16 = 12;
const SYNC_GROUP: i16 = 14;

/// A committed offset as one broker tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Of which partition.
    pub partition: i32,
    /// −1 if there is none.
    pub offset: i64,
    /// Why it is not told.
    pub error: i16,
}

/// A committed offset with all that its committer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Of which topic.
    pub topic: String,
    /// Of which partition.
    pub partition: i32,
    /// −1 if there is none.
    pub offset: i64,
    /// Leader epoch of the record before; only versions from 5 on tell it.
    pub leader_epoch: Option<i32>,
    /// Nothing where it is null.
    pub metadata: Option<String>,
    /// Why it is not told.
    pub error: i16,
}

impl Connection {
    /// The node that coordinates a group, with its address.
    pub fn find_coordinator(&mut self, group: &str) -> Result<(i32, String)> {
        let mut body = Writer::new();
        body.string(group);
        let answer = self.ask(FIND_COORDINATOR, 0, body.bytes())?;
        let mut reader = Reader::new(&answer);
        let (error, node) = (reader.i16()?, reader.i32()?);
        ensure!(error == 0, "no coordinator of {group}: error {error}");
        Ok((node, format!("{}:{}", reader.string()?, reader.i32()?)))
    }

    /// The committed offsets of the first `partitions` partitions of a topic.
    pub fn committed(&mut self, group: &str, topic: &str, partitions: i32) -> Result<Vec<Committed>> {
        let mut body = Writer::new();
        body.string(group).count(1).string(topic);
        body.count(usize::try_from(partitions)?);
        (0..partitions).for_each(|partition| {
            body.i32(partition);
        });
        let answer = self.ask(OFFSET_FETCH, 1, body.bytes())?;
        let mut reader = Reader::new(&answer);
        let topics = reader.list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                let (partition, offset) = (reader.i32()?, reader.i64()?);
                reader.string()?;
                let error = reader.i16()?;
                Ok(Committed {
                    partition,
                    offset,
                    error,
                })
            })
        })?;
        Ok(topics.into_iter().flatten().collect())
    }

    /// Commits offsets of a topic from outside of the group; gives the code of each.
    pub fn commit(&mut self, group: &str, topic: &str, offsets: &[(i32, i64)]) -> Result<Vec<i16>> {
        let mut body = Writer::new();
        body.string(group)
            .i32(-1)
            .string("")
            .i64(-1)
            .count(1)
            .string(topic);
        body.count(offsets.len());
        for (partition, offset) in offsets {
            body.i32(*partition).i64(*offset).string("");
        }
        let answer = self.ask(OFFSET_COMMIT, 2, body.bytes())?;
        let codes = Reader::new(&answer).list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                reader.i32()?;
                reader.i16()
            })
        })?;
        Ok(codes.into_iter().flatten().collect())
    }

    /// OffsetCommit v6 of one partition from outside of the group; gives its code.
    pub fn commit_saying(
        &mut self,
        group: &str,
        (topic, partition): (&str, i32),
        (offset, leader_epoch): (i64, i32),
        metadata: Option<&str>,
    ) -> Result<i16> {
        let mut body = Writer::new();
        body.string(group).i32(-1).string("").count(1).string(topic);
        body.count(1).i32(partition).i64(offset).i32(leader_epoch);
        match metadata {
            Some(text) => body.string(text),
            None => body.null_string(),
        };
        let answer = self.ask(OFFSET_COMMIT, 6, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let codes = reader.list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                reader.i32()?;
                reader.i16()
            })
        })?;
        reader.end()?;
        codes
            .concat()
            .first()
            .copied()
            .context("a code for the partition")
    }

    /// OffsetFetch v1 to v5 of some partitions of a topic, or of everything that the group has committed.
    pub fn offsets_told(
        &mut self,
        version: i16,
        group: &str,
        wanted: Option<(&str, &[i32])>,
    ) -> Result<Vec<Told>> {
        ensure!(
            (1..=5).contains(&version),
            "version {version} is not written here"
        );
        let mut body = Writer::new();
        body.string(group);
        match wanted {
            Some((topic, partitions)) => {
                body.count(1).string(topic).count(partitions.len());
                partitions.iter().fold(&mut body, |body, index| body.i32(*index));
            }
            None => {
                body.i32(-1);
            }
        }
        let answer = self.ask(OFFSET_FETCH, version, body.bytes())?;
        let mut reader = Reader::new(&answer);
        if version >= 3 {
            reader.i32()?;
        }
        let topics = reader.list(|reader| {
            let topic = reader.string()?;
            reader.list(|reader| told(reader, version, &topic))
        })?;
        if version >= 2 {
            let error = reader.i16()?;
            ensure!(
                error == 0,
                "OffsetFetch v{version} was answered with error {error}"
            );
        }
        reader.end()?;
        Ok(topics.concat())
    }

    /// Joins a group as its only member and takes everything; gives the member's id and the generation.
    pub fn join_alone(&mut self, group: &str, session_ms: i32) -> Result<(String, i32)> {
        let mut body = Writer::new();
        body.string(group).i32(session_ms).string("").string("consumer");
        body.count(1).string("range").sized(b"all");
        let answer = self.ask(JOIN_GROUP, 0, body.bytes())?;
        let mut reader = Reader::new(&answer);
        let (error, generation) = (reader.i16()?, reader.i32()?);
        ensure!(error == 0, "{group} takes no member: error {error}");
        reader.string()?;
        reader.string()?;
        let member = reader.string()?;
        let mut body = Writer::new();
        body.string(group).i32(generation).string(&member);
        body.count(1).string(&member).sized(b"all");
        let answer = self.ask(SYNC_GROUP, 0, body.bytes())?;
        let error = Reader::new(&answer).i16()?;
        ensure!(error == 0, "{group} assigns nothing: error {error}");
        Ok((member, generation))
    }

    /// A member's sign of life; gives its code.
    pub fn heartbeat(&mut self, group: &str, generation: i32, member: &str) -> Result<i16> {
        let mut body = Writer::new();
        body.string(group).i32(generation).string(member);
        let answer = self.ask(HEARTBEAT, 0, body.bytes())?;
        Reader::new(&answer).i16()
    }
}

fn told(reader: &mut Reader<'_>, version: i16, topic: &str) -> Result<Told> {
    let (partition, offset) = (reader.i32()?, reader.i64()?);
    let leader_epoch = (version >= 5).then(|| reader.i32()).transpose()?;
    Ok(Told {
        topic: topic.to_owned(),
        partition,
        offset,
        leader_epoch,
        metadata: reader.nullable_string()?,
        error: reader.i16()?,
    })
}

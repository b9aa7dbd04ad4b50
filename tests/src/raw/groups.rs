//! What the tests ask of group coordinators.

use anyhow::{Result, ensure};

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

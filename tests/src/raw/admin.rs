//! Requests of administrators, sent by hand, in the last versions before the compact encoding.

use anyhow::{Context, Result};

use super::Connection;
use super::bytes::{Reader, Writer};

/// Resource types, as Kafka numbers them.
pub mod resource {
    /// A topic, by name.
    pub const TOPIC: i8 = 2;
    /// A broker, by number; all of them where the name is empty.
    pub const BROKER: i8 = 4;
}

/// What happens to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// It gets this value.
    Set(&'a str),
    /// It loses its value.
    Delete,
}

/// One configuration, as DescribeConfigs shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its value; empty where there is none.
    pub value: String,
    /// Where the value comes from, as Kafka numbers it.
    pub source: i8,
}

impl Connection {
    /// IncrementalAlterConfigs v0 of one resource: the error code.
    pub fn alter_config(&mut self, kind: i8, name: &str, changes: &[(&str, Operation<'_>)]) -> Result<i16> {
        let mut body = Writer::new();
        body.count(1).i8(kind).string(name).count(changes.len());
        for (key, operation) in changes {
            body.string(key);
            match operation {
                Operation::Set(value) => body.i8(0).string(value),
                Operation::Delete => body.i8(1).null_string(),
            };
        }
        let answer = self.ask(44, 0, body.i8(0).bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let codes = reader.list(|reader| {
            let code = reader.i16()?;
            reader.string()?;
            reader.i8()?;
            reader.string()?;
            Ok(code)
        })?;
        reader.end()?;
        codes.first().copied().context("an answer for the resource")
    }

    /// DescribeConfigs v1 of one key.
    pub fn config(&mut self, kind: i8, name: &str, key: &str) -> Result<Config> {
        let mut body = Writer::new();
        body.count(1).i8(kind).string(name).count(1).string(key).i8(0);
        let answer = self.ask(32, 1, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let found = reader.list(|reader| {
            let code = reader.i16()?;
            reader.string()?;
            reader.i8()?;
            reader.string()?;
            let configs = reader.list(config)?;
            anyhow::ensure!(code == 0, "DescribeConfigs was answered with error {code}");
            Ok(configs)
        })?;
        reader.end()?;
        found.into_iter().flatten().next().context("the key is not shown")
    }

    /// CreatePartitions v1 of one topic: the error code.
    pub fn grow(&mut self, topic: &str, count: i32) -> Result<i16> {
        let mut body = Writer::new();
        body.count(1).string(topic).i32(count).i32(-1).i32(10_000).i8(0);
        let answer = self.ask(37, 1, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let codes = reader.list(|reader| {
            reader.string()?;
            let code = reader.i16()?;
            reader.string()?;
            Ok(code)
        })?;
        reader.end()?;
        codes.first().copied().context("an answer for the topic")
    }

    /// ElectLeaders v1 for one partition: the error code. Kind 0 is preferred, 1 is unclean.
    pub fn elect(&mut self, kind: i8, topic: &str, partition: i32) -> Result<i16> {
        let mut body = Writer::new();
        body.i8(kind)
            .count(1)
            .string(topic)
            .count(1)
            .i32(partition)
            .i32(10_000);
        let answer = self.ask(43, 1, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        reader.i16()?;
        let codes = reader.list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                reader.i32()?;
                let code = reader.i16()?;
                reader.string()?;
                Ok(code)
            })
        })?;
        reader.end()?;
        codes
            .concat()
            .first()
            .copied()
            .context("an answer for the partition")
    }

    /// DeleteRecords v1 of one partition: the error code, and the low watermark.
    pub fn delete_records(&mut self, topic: &str, partition: i32, before: i64) -> Result<(i16, i64)> {
        let mut body = Writer::new();
        body.count(1)
            .string(topic)
            .count(1)
            .i32(partition)
            .i64(before)
            .i32(10_000);
        let answer = self.ask(21, 1, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let results = reader.list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                reader.i32()?;
                let low = reader.i64()?;
                Ok((reader.i16()?, low))
            })
        })?;
        reader.end()?;
        results
            .concat()
            .first()
            .copied()
            .context("an answer for the partition")
    }

    /// Metadata v4 of one topic that may be created by being named: its error code.
    pub fn name_topic(&mut self, topic: &str) -> Result<i16> {
        let mut body = Writer::new();
        body.count(1).string(topic).i8(1);
        let answer = self.ask(3, 4, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        reader.list(|reader| {
            reader.i32()?;
            reader.string()?;
            reader.i32()?;
            reader.string()
        })?;
        reader.string()?;
        reader.i32()?;
        // One topic: what follows its error does not matter.
        reader.i32()?;
        reader.i16()
    }
}

fn config(reader: &mut Reader<'_>) -> Result<Config> {
    reader.string()?;
    let value = reader.string()?;
    reader.i8()?;
    let source = reader.i8()?;
    reader.i8()?;
    reader.list(|reader| {
        reader.string()?;
        reader.string()?;
        reader.i8()
    })?;
    Ok(Config { value, source })
}

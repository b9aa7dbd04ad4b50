//! Stock consumers as members of a group, each a process of its own that prints what it reads.
//!
//! Must not: know what a group should do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::Process;
use crate::{conformance, kafka};

/// How long a member may be silent; the least that Kafka allows.
const SESSION_MS: &str = "6000";

/// A client that can be a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `kafka-console-consumer`
    Console,
    /// `kafka-verifiable-consumer`
    Verifiable,
    /// `kcat -G`, which is librdkafka.
    Kcat,
    /// kafka-python
    KafkaPython,
    /// aiokafka
    AioKafka,
}

/// Where to read, as whom.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// `bootstrap.servers`.
    pub bootstrap: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The group.
    pub group: &'a str,
    /// For what members print.
    pub folder: &'a Path,
}

/// A member at work. It is killed when this is dropped.
pub struct Member {
    process: Process,
    output: PathBuf,
}

impl Kind {
    /// The client's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Console => "kafka-console-consumer",
            Kind::Verifiable => "kafka-verifiable-consumer",
            Kind::Kcat => "kcat -G",
            Kind::KafkaPython => "kafka-python",
            Kind::AioKafka => "aiokafka",
        }
    }

    fn command(self, place: Place<'_>) -> Result<Command> {
        let Place {
            bootstrap,
            topic,
            group,
            ..
        } = place;
        let session = format!("session.timeout.ms={SESSION_MS}");
        let arguments: Vec<&str> = match self {
            Kind::Console => vec![
                "--bootstrap-server",
                bootstrap,
                "--topic",
                topic,
                "--group",
                group,
                "--from-beginning",
                "--command-property",
                &session,
            ],
            Kind::Verifiable => vec![
                "--bootstrap-server",
                bootstrap,
                "--topic",
                topic,
                "--group-id",
                group,
                "--reset-policy",
                "earliest",
                "--session-timeout",
                SESSION_MS,
                "--verbose",
            ],
            Kind::Kcat => vec![
                "-u",
                "-q",
                "-b",
                bootstrap,
                "-X",
                &session,
                "-X",
                "auto.offset.reset=earliest",
                "-G",
                group,
                topic,
            ],
            Kind::KafkaPython => vec!["-u", "-c", KAFKA_PYTHON, bootstrap, topic, group, SESSION_MS],
            Kind::AioKafka => vec!["-u", "-c", AIOKAFKA, bootstrap, topic, group, SESSION_MS],
        };
        let mut command = match self {
            Kind::Console | Kind::Verifiable => kafka::tool(self.name())?,
            Kind::Kcat => Command::new("kcat"),
            Kind::KafkaPython => Command::new(conformance::python_with("kafka-python", "kafka")?),
            Kind::AioKafka => Command::new(conformance::python_with("aiokafka", "aiokafka")?),
        };
        command.args(arguments);
        Ok(command)
    }
}

impl Member {
    /// Joins; `number` tells members of one group apart.
    pub fn start(kind: Kind, place: Place<'_>, number: usize) -> Result<Member> {
        let output = place.folder.join(format!("{}-{number}.out", place.group));
        let process = Process::start(kind.command(place)?, &output)?;
        Ok(Member { process, output })
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Whether it still runs; an error with the end of what it printed if it does not.
    pub fn lives(&mut self) -> Result<()> {
        let ended = self.process.ended();
        let text = std::fs::read(&self.output)?;
        let tail = String::from_utf8_lossy(&text[text.len().saturating_sub(600)..]).into_owned();
        ensure!(ended.is_none(), "a member ended: {ended:?}\n{tail}");
        Ok(())
    }

    /// The records of the load that it has printed, by their numbers.
    pub fn read(&self) -> Result<BTreeSet<usize>> {
        let text = std::fs::read(&self.output).context("what a member printed")?;
        Ok(numbers(&String::from_utf8_lossy(&text)))
    }
}

/// The numbers in values such as `1:42:abc`, wherever they stand.
fn numbers(text: &str) -> BTreeSet<usize> {
    let begins = |at: usize| !text[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
    let values = text
        .match_indices("1:")
        .filter(|(at, _)| begins(*at))
        .filter_map(|(at, start)| text[at + start.len()..].split_once(':'));
    values.filter_map(|(number, _)| number.parse().ok()).collect()
}

/// A member that commits as its users mostly do: by itself.
const KAFKA_PYTHON: &str = r#"
import sys
from kafka import KafkaConsumer
servers, topic, group, session = sys.argv[1:]
consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest",
                         session_timeout_ms=int(session), heartbeat_interval_ms=1000, auto_commit_interval_ms=1000)
for record in consumer:
    print(record.value.decode(), flush=True)
"#;

/// The same with the other client.
const AIOKAFKA: &str = r#"
import asyncio, sys
from aiokafka import AIOKafkaConsumer
servers, topic, group, session = sys.argv[1:]
async def main():
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest",
                                session_timeout_ms=int(session), heartbeat_interval_ms=1000, auto_commit_interval_ms=1000)
    await consumer.start()
    async for record in consumer:
        print(record.value.decode(), flush=True)
asyncio.run(main())
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_lines_and_in_json() {
        let text = "1:7:abc\n{\"value\":\"1:12:x\",\"offset\":31}\n1:9\n1:31:y\n11:30:y";
        assert_eq!(numbers(text), BTreeSet::from([7, 12, 31]));
    }
}

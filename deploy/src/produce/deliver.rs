//! Batches to the leaders of their partitions, again and again until each is written or refused for good.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use host::{Clock, OsClock};
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::messages::{ProduceRequest, ProduceResponse};
use wire::{ErrorCode, Records};

use super::PartitionWritten;
use super::rounds::Ready;
use crate::args::{Acks, ProduceArgs};
use crate::client::{Client, ClientError};
use crate::cluster::{Cluster, Topic};
use crate::outcome::Failure;
use crate::shortage;
use crate::waiting::{Waiting, no_leader, told};

/// How long a leader may wait for its replicas.
const REPLICAS_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause before batches are sent again: doubled each time up to the second.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The way of a topic's batches.
#[derive(Debug)]
pub struct Delivery {
    cluster: Cluster,
    topic: Topic,
    acks: Acks,
    limit: Duration,
    clock: OsClock,
    /// What every partition got.
    pub written: BTreeMap<i32, PartitionWritten>,
}

/// What came of one attempt to write to one leader.
type Attempt = (
    i32,
    Option<Client>,
    Vec<Ready>,
    Result<Option<ProduceResponse>, ClientError>,
);

impl Delivery {
    /// Over these connections, with these acks, as long as the options allow.
    pub fn new(cluster: Cluster, topic: Topic, args: &ProduceArgs) -> Self {
        Self {
            cluster,
            topic,
            acks: args.acks,
            limit: Duration::from_secs(args.timeout),
            clock: OsClock::new(),
            written: BTreeMap::new(),
        }
    }

    /// Comes back when all of these are written.
    ///
    /// # Errors
    /// When one is refused for good, or not written in time.
    pub async fn send(&mut self, mut left: Vec<Ready>) -> Result<(), Failure> {
        let began = self.clock.now();
        let mut pause = BACKOFF.0;
        let mut why = String::new();
        let mut waiting = Waiting::begin();
        while !left.is_empty() {
            let attempts = self.attempt(left, &mut why).await;
            left = Vec::new();
            for attempt in attempts {
                left.extend(self.judge(attempt, &mut why)?);
            }
            if left.is_empty() {
                break;
            }
            if self.limit <= self.clock.now().since(began) {
                let why = self.explained(&why, &left).await;
                let what = format!("not written within {} s: {why}", self.limit.as_secs());
                return Err(Failure::Refused(what));
            }
            if waiting.is_due() {
                told(&self.explained(&why, &left).await);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BACKOFF.1);
            if let Ok(topic) = self.cluster.topic(&self.topic.name).await {
                self.topic = topic;
            }
        }
        Ok(())
    }

    /// Why batches are left, with who is missing where that can be seen.
    async fn explained(&mut self, why: &str, left: &[Ready]) -> String {
        let partition = left.first().map_or(-1, |ready| ready.partition);
        let short = shortage::of(&mut self.cluster, &self.topic.name, partition).await;
        match short {
            Some(short) if !why.contains(&short) => format!("{why}: {short}"),
            _ => why.to_owned(),
        }
    }

    /// Sends to all leaders at once. What has no leader comes back untried.
    async fn attempt(&mut self, batches: Vec<Ready>, why: &mut String) -> Vec<Attempt> {
        let mut by_leader: BTreeMap<Option<i32>, Vec<Ready>> = BTreeMap::new();
        for ready in batches {
            let leader = self.topic.leaders.get(&ready.partition).copied().flatten();
            by_leader.entry(leader).or_default().push(ready);
        }
        let mut turns = Vec::new();
        let mut untried = Vec::new();
        for (leader, batches) in by_leader {
            let client = match leader {
                None => {
                    let partition = batches.first().map_or(-1, |ready| ready.partition);
                    Err(no_leader(&self.topic.name, partition))
                }
                Some(leader) => self
                    .cluster
                    .take(leader)
                    .await
                    .map_err(|failure| failure.to_string()),
            };
            match client {
                Ok(client) => turns.push(turn(
                    leader.unwrap_or(-1),
                    client,
                    self.request(&batches),
                    batches,
                )),
                Err(reason) => {
                    *why = reason;
                    untried.extend(batches);
                }
            }
        }
        let mut attempts = join_all(turns).await;
        attempts.push((-1, None, untried, Ok(Some(ProduceResponse::default()))));
        attempts
    }

    fn request(&self, batches: &[Ready]) -> ProduceRequest {
        let partition = |ready: &Ready| PartitionProduceData {
            index: ready.partition,
            records: Records::Bytes(ready.batch.clone()),
        };
        ProduceRequest {
            transactional_id: None,
            acks: self.acks.number(),
            timeout_ms: i32::try_from(REPLICAS_TIMEOUT.as_millis()).unwrap_or(i32::MAX),
            topic_data: vec![TopicProduceData {
                name: self.topic.name.clone(),
                topic_id: self.topic.id,
                partition_data: batches.iter().map(partition).collect(),
            }],
        }
    }

    /// Counts what was written and gives back what must be sent again.
    fn judge(&mut self, attempt: Attempt, why: &mut String) -> Result<Vec<Ready>, Failure> {
        let (broker, client, batches, answer) = attempt;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error @ ClientError::NotServed { .. }) => return Err(error.into()),
            Err(error) => {
                *why = error.to_string();
                return Ok(batches);
            }
        };
        if let Some(client) = client {
            self.cluster.give_back(broker, client);
        }
        let Some(answer) = answer else {
            batches.iter().for_each(|ready| self.count(ready, None));
            return Ok(Vec::new());
        };
        let mut again = Vec::new();
        for ready in batches {
            let results = answer
                .responses
                .iter()
                .flat_map(|topic| &topic.partition_responses);
            let result = results.into_iter().find(|result| result.index == ready.partition);
            let Some(result) = result else {
                again.push(ready);
                continue;
            };
            match result.error_code {
                ErrorCode::NONE => self.count(&ready, Some(result.base_offset)),
                // It is there already: only the answer was lost.
                ErrorCode::DUPLICATE_SEQUENCE_NUMBER => self.count(&ready, None),
                code if code.is_retriable() && code != ErrorCode::CORRUPT_MESSAGE => {
                    *why = format!("{}-{}: {code}", self.topic.name, ready.partition);
                    again.push(ready);
                }
                code => {
                    let what = format!("{}-{}", self.topic.name, ready.partition);
                    crate::ask::refuse(code, result.error_message.as_deref(), &what)?;
                }
            }
        }
        Ok(again)
    }

    fn count(&mut self, ready: &Ready, base_offset: Option<i64>) {
        let partition = ready.partition;
        let none = PartitionWritten {
            partition,
            records: 0,
            first_offset: None,
            last_offset: None,
        };
        let written = self.written.entry(partition).or_insert(none);
        written.records += ready.records as u64;
        if let Some(base) = base_offset.filter(|base| 0 <= *base) {
            written.first_offset = written.first_offset.or(Some(base));
            written.last_offset = Some(base + ready.records as i64 - 1);
        }
    }
}

async fn turn(broker: i32, mut client: Client, request: ProduceRequest, batches: Vec<Ready>) -> Attempt {
    let answer = if request.acks == Acks::None.number() {
        client.tell(13, &request).await.map(|()| None)
    } else {
        client.ask(13, &request).await.map(|(_, answer)| Some(answer))
    };
    (broker, Some(client), batches, answer)
}

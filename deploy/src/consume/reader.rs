//! Fetches from the leaders of partitions, one question to each at a time, and gives records as they come.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use wire::ErrorCode;
use wire::batch::Batches;
use wire::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use wire::messages::{FetchRequest, FetchResponse};

use super::patience::Patience;
use crate::args::ConsumeArgs;
use crate::client::{Client, ClientError};
use crate::cluster::{Cluster, Topic};
use crate::offsets::{self, Place};
use crate::outcome::Failure;
use crate::waiting::{Waiting, no_leader};

/// How long a broker may wait for something to give.
const WAIT_MS: i32 = 500;

/// How much one partition, and one answer, may give at once.
const PARTITION_BYTES: i32 = 1 << 20;
const ANSWER_BYTES: i32 = 50 << 20;

/// What a batch may take when it is decompressed.
const BATCH_BYTES: usize = 256 << 20;

/// The pause before a partition without a leader is looked at again.
const PAUSE: Duration = Duration::from_millis(100);

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its time, in ms since 1970.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers, in order.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

type Turn = (i32, u64, Client, Result<FetchResponse, ClientError>);

/// Reads partitions of one topic.
pub struct Reader {
    cluster: Cluster,
    topic: Topic,
    start: Place,
    /// Where it goes on where an offset does not exist.
    reset: Place,
    stops_at_end: bool,
    /// The offset that is read next, by partition; not of those whose offset is still looked for.
    pub positions: BTreeMap<i32, i64>,
    /// Partitions whose first offset is looked for. The others are read meanwhile.
    unplaced: Vec<i32>,
    /// Where each partition ended when reading began, as far as that is known; empty unless reading stops there.
    ends: BTreeMap<i32, Option<i64>>,
    busy: FuturesUnordered<BoxFuture<'static, Turn>>,
    asked: Vec<i32>,
    /// Answers to what was asked before the last [`Reader::read_from`] are not listened to.
    round: u64,
    /// Leaders are looked up before anything else is asked.
    stale: bool,
    /// Partitions whose offset does not exist; they begin anew.
    lost: Vec<i32>,
    /// What leaders said of partitions that they do not give now, by partition; under none, of their whole answer.
    refused: BTreeMap<Option<i32>, ErrorCode>,
    /// For leaders that cannot be asked, or refuse.
    waiting: Option<Waiting>,
    patience: Rc<Patience>,
}

impl Reader {
    /// Of this topic, from where and how far the options say.
    pub fn new(cluster: Cluster, topic: Topic, args: &ConsumeArgs, patience: Rc<Patience>) -> Self {
        Self {
            cluster,
            topic,
            start: args.start(),
            reset: match args.start() {
                Place::End => Place::End,
                _ => Place::Beginning,
            },
            stops_at_end: args.exit_at_end,
            positions: BTreeMap::new(),
            unplaced: Vec::new(),
            ends: BTreeMap::new(),
            busy: FuturesUnordered::new(),
            asked: Vec::new(),
            round: 0,
            stale: false,
            lost: Vec::new(),
            refused: BTreeMap::new(),
            waiting: None,
            patience,
        }
    }

    /// From now on these partitions, from these offsets; where none is given, from where the options say.
    pub fn read_from(&mut self, partitions: &[i32], positions: BTreeMap<i32, i64>) {
        let unplaced = partitions.iter().filter(|one| !positions.contains_key(one));
        self.unplaced = unplaced.copied().collect();
        let looked_for = partitions.iter().filter(|_| self.stops_at_end);
        self.ends = looked_for.map(|partition| (*partition, None)).collect();
        self.positions = positions;
        self.round += 1;
        self.asked.clear();
        self.lost.clear();
        self.refused.clear();
        // The connections go with the questions on them.
        self.busy = FuturesUnordered::new();
    }

    /// Whether everything was read that was there when reading began, where reading stops there.
    pub fn is_at_end(&self) -> bool {
        let is_read = |(partition, end): (&i32, &Option<i64>)| {
            let at = self.positions.get(partition);
            at.zip(end.as_ref()).is_some_and(|(at, end)| end <= at)
        };
        self.stops_at_end && self.ends.iter().all(is_read)
    }

    /// The next records, of one leader; none where it had none. Nothing is lost when nobody waits for it any more.
    ///
    /// # Errors
    /// When no broker answers, the topic is gone, or a partition cannot be read.
    pub async fn next(&mut self) -> Result<Vec<Record>, Failure> {
        if self.stale {
            tokio::time::sleep(PAUSE).await;
            self.topic = self.cluster.topic(&self.topic.name).await?;
            self.stale = false;
        }
        let unknown = self.look_up().await?;
        if self.is_at_end() {
            return Ok(Vec::new());
        }
        let why = unknown
            .or(self.ask_idle_leaders().await)
            .or_else(|| self.refusal());
        match &why {
            None => self.waiting = None,
            Some(why) => self.waiting.get_or_insert_with(Waiting::begin).still(why),
        }
        self.patience.is_busy_with(why);
        let Some((leader, round, client, answer)) = self.busy.next().await else {
            // Nothing to read, as when a group has more members than partitions.
            if self.positions.is_empty() && self.unplaced.is_empty() && self.lost.is_empty() {
                std::future::pending::<()>().await;
            }
            self.stale = true;
            return Ok(Vec::new());
        };
        if round != self.round {
            return Ok(Vec::new());
        }
        self.asked.retain(|asked| *asked != leader);
        match answer {
            Ok(answer) => {
                self.cluster.give_back(leader, client);
                self.take_in(&answer)
            }
            Err(error @ ClientError::NotServed { .. }) => Err(error.into()),
            Err(_) => {
                self.stale = true;
                Ok(Vec::new())
            }
        }
    }

    /// Looks for the offsets that are not known yet. Gives the first reason why some stay so.
    async fn look_up(&mut self) -> Result<Option<String>, Failure> {
        let (cluster, topic) = (&mut self.cluster, &self.topic);
        let (found, unplaced) = offsets::known(cluster, topic, &self.unplaced, self.start).await?;
        self.unplaced.retain(|one| !found.contains_key(one));
        self.positions.extend(found);
        let (found, lost) = offsets::known(cluster, topic, &self.lost, self.reset).await?;
        self.lost.retain(|one| !found.contains_key(one));
        self.positions.extend(found);
        let endless = self.ends.iter().filter(|(_, end)| end.is_none());
        let endless: Vec<i32> = endless.map(|(partition, _)| *partition).collect();
        let (found, unended) = offsets::known(cluster, topic, &endless, Place::End).await?;
        self.ends
            .extend(found.into_iter().map(|(partition, end)| (partition, Some(end))));
        let why = unplaced.or(lost).or(unended);
        self.stale |= why.is_some();
        Ok(why)
    }

    /// What a leader refuses, and goes on refusing.
    fn refusal(&self) -> Option<String> {
        let (partition, code) = self.refused.first_key_value()?;
        let partition = partition.map_or_else(String::new, |partition| format!("-{partition}"));
        let name = &self.topic.name;
        Some(format!("{name}{partition}: {code}; `millrace status` shows more"))
    }

    /// Gives the first reason why somebody could not be asked.
    async fn ask_idle_leaders(&mut self) -> Option<String> {
        let mut why = None;
        let mut by_leader: BTreeMap<i32, Vec<(i32, i64)>> = BTreeMap::new();
        for (partition, offset) in &self.positions {
            match self.topic.leaders.get(partition).copied().flatten() {
                Some(leader) => by_leader.entry(leader).or_default().push((*partition, *offset)),
                None => {
                    self.stale = true;
                    why.get_or_insert_with(|| no_leader(&self.topic.name, *partition));
                }
            }
        }
        for (leader, partitions) in by_leader {
            if self.asked.contains(&leader) {
                continue;
            }
            let mut client = match self.cluster.take(leader).await {
                Ok(client) => client,
                Err(failure) => {
                    self.stale = true;
                    why.get_or_insert_with(|| failure.to_string());
                    continue;
                }
            };
            let question = self.question(&partitions);
            let round = self.round;
            self.asked.push(leader);
            self.busy.push(Box::pin(async move {
                let answer = client.ask(17, &question).await.map(|(_, answer)| answer);
                (leader, round, client, answer)
            }));
        }
        why
    }

    fn question(&self, partitions: &[(i32, i64)]) -> FetchRequest {
        let partition = |(index, offset): &(i32, i64)| FetchPartition {
            partition: *index,
            fetch_offset: *offset,
            partition_max_bytes: PARTITION_BYTES,
            ..Default::default()
        };
        FetchRequest {
            max_wait_ms: WAIT_MS,
            min_bytes: 1,
            max_bytes: ANSWER_BYTES,
            topics: vec![FetchTopic {
                topic: self.topic.name.clone(),
                topic_id: self.topic.id,
                partitions: partitions.iter().map(partition).collect(),
            }],
            ..Default::default()
        }
    }

    /// Nothing is waited for in here: records that were counted as read are given in any case.
    fn take_in(&mut self, answer: &FetchResponse) -> Result<Vec<Record>, Failure> {
        if answer.error_code.is_error() {
            self.refused.insert(None, answer.error_code);
            self.stale = true;
            return Ok(Vec::new());
        }
        self.refused.remove(&None);
        let mut records = Vec::new();
        for result in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            let partition = Some(result.partition_index);
            self.refused.remove(&partition);
            match result.error_code {
                ErrorCode::NONE => self.records_of(result, &mut records)?,
                ErrorCode::OFFSET_OUT_OF_RANGE => {
                    self.positions.remove(&result.partition_index);
                    self.lost.push(result.partition_index);
                }
                code if code.is_retriable() => {
                    self.refused.insert(partition, code);
                    self.stale = true;
                }
                code => {
                    let what = format!("{}-{}", self.topic.name, result.partition_index);
                    crate::ask::refuse(code, None, &what)?;
                }
            }
        }
        Ok(records)
    }

    fn records_of(&mut self, result: &PartitionData, records: &mut Vec<Record>) -> Result<(), Failure> {
        let partition = result.partition_index;
        let Some(position) = self.positions.get_mut(&partition) else {
            return Ok(());
        };
        let broken = |error: &dyn std::fmt::Display, at: i64| {
            Failure::Refused(format!(
                "{}-{partition} from offset {at} on: {error}",
                self.topic.name
            ))
        };
        for batch in Batches::new(result.records.bytes().cloned().unwrap_or_default()) {
            let batch = batch.map_err(|error| broken(&error, *position))?;
            batch.check().map_err(|error| broken(&error, *position))?;
            let next = batch.header.last_offset().saturating_add(1);
            // Markers are the cluster's, not a user's.
            if *position < next && !batch.header.attributes.is_control() {
                let body = batch
                    .body(BATCH_BYTES)
                    .map_err(|error| broken(&error, *position))?;
                for record in batch.records(&body) {
                    let record = record.map_err(|error| broken(&error, *position))?;
                    let offset = batch.header.base_offset + i64::from(record.offset_delta);
                    if *position <= offset {
                        let time = offsets_time(&batch.header, record.timestamp_delta);
                        records.push(owned(&self.topic.name, partition, offset, time, &record, &body));
                    }
                }
            }
            *position = next.max(*position);
        }
        Ok(())
    }
}

fn offsets_time(header: &wire::batch::BatchHeader, delta: i64) -> i64 {
    match header.attributes.timestamp_type() {
        wire::batch::TimestampType::CreateTime => header.base_timestamp.wrapping_add(delta),
        wire::batch::TimestampType::LogAppendTime => header.max_timestamp,
    }
}

fn owned(
    topic: &str,
    partition: i32,
    offset: i64,
    timestamp: i64,
    record: &wire::batch::Record<'_>,
    body: &Bytes,
) -> Record {
    let bytes = |part: Option<&[u8]>| part.map(|part| body.slice_ref(part));
    let headers = record
        .headers
        .map(|header| (body.slice_ref(header.key), bytes(header.value)));
    Record {
        topic: topic.to_owned(),
        partition,
        offset,
        timestamp,
        key: bytes(record.key),
        value: bytes(record.value),
        headers: headers.collect(),
    }
}

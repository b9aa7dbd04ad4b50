//! One member of a classic group: joins, shares partitions out when it leads, says that it lives, commits, leaves.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponseMember};
use wire::messages::leave_group::MemberIdentity;
use wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::messages::sync_group::SyncGroupRequestAssignment;
use wire::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest,
    SyncGroupRequest,
};
use wire::{ApiKey, ApiVersion, ErrorCode, Request};

use super::patience::Patience;
use super::protocol;
use crate::client::{Client, ClientError};
use crate::cluster::Cluster;
use crate::group::committed;
use crate::outcome::Failure;
use crate::waiting::{Waiting, told};
use crate::{ask, coordinator};

/// Kafka's defaults: how long a member may be silent, and how long others may take to join again.
const SESSION: Duration = Duration::from_secs(45);
const REBALANCE: Duration = Duration::from_secs(60);

/// A join is answered when all others have joined too; everything else at once.
const JOIN_PATIENCE: Duration = Duration::from_secs(75);
const PATIENCE: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(100);

/// What a member asks its group for.
const JOINING: &str = "joining";
const STAYING: &str = "staying in";
const COMMITTING: &str = "committing to";

/// What a member that joins usually waits for.
const OTHERS: &str = "a new group gives others the time of group.initial.rebalance.delay.ms to come, 3 s unless set; one \
    that others are in waits until they have joined again";

const PROTOCOL_TYPE: &str = "consumer";
const ASSIGNOR: &str = "range";

/// What a group says to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Go on.
    Stable,
    /// Join again.
    Rebalancing,
    /// Join again, as somebody new.
    Unknown,
}

/// A member.
pub struct Member {
    cluster: Cluster,
    coordinator: Option<Client>,
    group: String,
    topic: String,
    id: String,
    generation: i32,
    /// What did not come about yet, by what it is.
    waits: BTreeMap<&'static str, Waiting>,
    /// The last error of the coordinator, and what is behind it.
    trouble: Option<(ErrorCode, String)>,
    patience: Rc<Patience>,
}

/// What a question to the group is for.
const fn purpose(key: ApiKey) -> &'static str {
    match key {
        ApiKey::JoinGroup | ApiKey::SyncGroup => JOINING,
        ApiKey::Heartbeat => STAYING,
        ApiKey::OffsetCommit => COMMITTING,
        _ => "leaving",
    }
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

impl Member {
    /// Of a group, for one topic; it has not joined yet.
    pub fn new(cluster: Cluster, group: &str, topic: &str, patience: Rc<Patience>) -> Self {
        Self {
            cluster,
            coordinator: None,
            group: group.to_owned(),
            topic: topic.to_owned(),
            id: String::new(),
            generation: -1,
            waits: BTreeMap::new(),
            trouble: None,
            patience,
        }
    }

    /// What the group calls it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The group's name.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The group no longer knows it: the next join is that of somebody new.
    pub fn forget(&mut self) {
        self.id.clear();
        self.generation = -1;
    }

    /// Asks the coordinator; `None` where the connection broke, after which another is looked for.
    async fn ask<R: Request>(
        &mut self,
        newest: i16,
        question: &R,
    ) -> Result<Option<(ApiVersion, R::Response)>, Failure> {
        if self.coordinator.is_none() {
            self.coordinator = Some(coordinator::of(&mut self.cluster, &self.group).await?);
        }
        let client = self.coordinator.as_mut().expect("one was just found");
        client.wait_at_most(match R::KEY {
            ApiKey::JoinGroup | ApiKey::SyncGroup => JOIN_PATIENCE,
            _ => PATIENCE,
        });
        match client.ask(newest, question).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error @ ClientError::NotServed { .. }) => Err(error.into()),
            Err(error) => {
                self.wait(purpose(R::KEY), &error.to_string());
                self.look_again().await;
                Ok(None)
            }
        }
    }

    async fn look_again(&mut self) {
        self.coordinator = None;
        tokio::time::sleep(PAUSE).await;
    }

    /// It must be asked again, for this reason.
    fn wait(&mut self, purpose: &'static str, why: &str) {
        let why = format!("{purpose} {}: {why}", self.group);
        self.waits
            .entry(purpose)
            .or_insert_with(Waiting::begin)
            .still(&why);
        self.patience.is_busy_with(Some(why));
    }

    /// The group is kept by another broker now, or not kept by anybody yet. Such a wait has no end of its own.
    async fn moved(&mut self, purpose: &'static str, code: ErrorCode) {
        let is_due = self.waits.entry(purpose).or_insert_with(Waiting::begin).is_due();
        let known = self.trouble.take().filter(|(last, _)| *last == code && !is_due);
        let why = match known {
            Some((_, why)) => why,
            None => coordinator::trouble(&mut self.cluster, &self.group, code).await,
        };
        let what = format!("{purpose} {}: {why}", self.group);
        if is_due {
            told(&what);
        }
        self.patience.is_busy_with(Some(what));
        self.trouble = Some((code, why));
        self.look_again().await;
    }

    /// Joins and gives the partitions of the topic that fall to this member.
    ///
    /// # Errors
    /// When the group refuses it, or its coordinator cannot be found.
    pub async fn join(&mut self) -> Result<Vec<i32>, Failure> {
        let what = format!("joining {}: {OTHERS}", self.group);
        self.patience.is_busy_with(Some(what));
        self.waits.insert(JOINING, Waiting::begin());
        loop {
            let metadata = protocol::subscription(&[&self.topic]);
            let question = JoinGroupRequest {
                group_id: self.group.clone(),
                session_timeout_ms: millis(SESSION),
                rebalance_timeout_ms: millis(REBALANCE),
                member_id: self.id.clone(),
                protocol_type: PROTOCOL_TYPE.to_owned(),
                protocols: vec![JoinGroupRequestProtocol {
                    name: ASSIGNOR.to_owned(),
                    metadata: metadata.into(),
                }],
                ..Default::default()
            };
            let Some((_, answer)) = self.ask(9, &question).await? else {
                continue;
            };
            match answer.error_code {
                ErrorCode::NONE => {}
                ErrorCode::MEMBER_ID_REQUIRED => {
                    self.id = answer.member_id;
                    continue;
                }
                ErrorCode::UNKNOWN_MEMBER_ID => {
                    self.forget();
                    continue;
                }
                code if coordinator::is_moving(code) => {
                    self.moved(JOINING, code).await;
                    continue;
                }
                code => ask::refuse(code, None, &format!("joining {}", self.group))?,
            }
            (self.id, self.generation) = (answer.member_id.clone(), answer.generation_id);
            if let Some(partitions) = self.sync(&answer).await? {
                self.waits.remove(JOINING);
                self.patience.is_busy_with(None);
                return Ok(partitions);
            }
        }
    }

    /// `None` where it must join again.
    async fn sync(&mut self, joined: &JoinGroupResponse) -> Result<Option<Vec<i32>>, Failure> {
        let assignments = match joined.leader == joined.member_id && !joined.skip_assignment {
            true => self.share_out(&joined.members).await?,
            false => Vec::new(),
        };
        let question = SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: Some(
                joined
                    .protocol_name
                    .clone()
                    .unwrap_or_else(|| ASSIGNOR.to_owned()),
            ),
            assignments,
            ..Default::default()
        };
        let Some((_, answer)) = self.ask(5, &question).await? else {
            return Ok(None);
        };
        match answer.error_code {
            ErrorCode::NONE => {
                let mine = protocol::assigned(&answer.assignment).remove(&self.topic);
                Ok(Some(mine.unwrap_or_default()))
            }
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::ILLEGAL_GENERATION => Ok(None),
            ErrorCode::UNKNOWN_MEMBER_ID => {
                self.forget();
                Ok(None)
            }
            code if coordinator::is_moving(code) => {
                self.moved(JOINING, code).await;
                Ok(None)
            }
            code => ask::refuse(code, None, &format!("joining {}", self.group)).map(|()| None),
        }
    }

    async fn share_out(
        &mut self,
        members: &[JoinGroupResponseMember],
    ) -> Result<Vec<SyncGroupRequestAssignment>, Failure> {
        let subscriptions: BTreeMap<String, Vec<String>> = members
            .iter()
            .map(|member| (member.member_id.clone(), protocol::subscribed(&member.metadata)))
            .collect();
        let mut names: Vec<&str> = subscriptions.values().flatten().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let metadata = self.cluster.metadata(&names).await?;
        let known = metadata
            .topics
            .iter()
            .filter(|topic| !topic.partitions.is_empty());
        let counts: BTreeMap<String, i32> = known
            .filter_map(|topic| Some((topic.name.clone()?, i32::try_from(topic.partitions.len()).ok()?)))
            .collect();
        let shares = protocol::range(&subscriptions, &counts);
        Ok(shares
            .into_iter()
            .map(|(member_id, partitions)| SyncGroupRequestAssignment {
                member_id,
                assignment: protocol::assignment(&partitions).into(),
            })
            .collect())
    }

    /// Where the group was in these partitions; nothing where it has committed nothing.
    ///
    /// # Errors
    /// When the offsets cannot be asked for.
    pub async fn positions(&mut self, partitions: &[i32]) -> Result<BTreeMap<i32, i64>, Failure> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let wanted = BTreeMap::from([(self.topic.clone(), partitions.to_vec())]);
        let known = committed::offsets(&mut self.cluster, &self.group, Some(&wanted)).await?;
        let mine = |one: &&committed::Committed| one.topic == self.topic;
        Ok(known
            .iter()
            .filter(mine)
            .map(|one| (one.partition, one.offset))
            .collect())
    }

    /// Says that it lives.
    ///
    /// # Errors
    /// When the group refuses it.
    pub async fn heartbeat(&mut self) -> Result<Standing, Failure> {
        let question = HeartbeatRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            ..Default::default()
        };
        let Some((_, answer)) = self.ask(4, &question).await? else {
            return Ok(Standing::Stable);
        };
        match answer.error_code {
            ErrorCode::NONE => {
                self.waits.remove(STAYING);
                Ok(Standing::Stable)
            }
            ErrorCode::REBALANCE_IN_PROGRESS => Ok(Standing::Rebalancing),
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => Ok(Standing::Unknown),
            code if coordinator::is_moving(code) => {
                self.moved(STAYING, code).await;
                Ok(Standing::Stable)
            }
            code => ask::refuse(code, None, &format!("member of {}", self.group)).map(|()| Standing::Stable),
        }
    }

    /// Commits these offsets. A group that is sharing out anew refuses; what was not committed is read once more.
    ///
    /// # Errors
    /// When the group refuses for another reason.
    pub async fn commit(&mut self, positions: &BTreeMap<i32, i64>) -> Result<(), Failure> {
        if positions.is_empty() || self.id.is_empty() {
            return Ok(());
        }
        let partition = |(index, offset): (&i32, &i64)| OffsetCommitRequestPartition {
            partition_index: *index,
            committed_offset: *offset,
            committed_metadata: Some(String::new()),
            ..Default::default()
        };
        let question = OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.id.clone(),
            topics: vec![OffsetCommitRequestTopic {
                name: self.topic.clone(),
                partitions: positions.iter().map(partition).collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let Some((_, answer)) = self.ask(9, &question).await? else {
            return Ok(());
        };
        for result in answer.topics.iter().flat_map(|topic| &topic.partitions) {
            match result.error_code {
                ErrorCode::REBALANCE_IN_PROGRESS
                | ErrorCode::ILLEGAL_GENERATION
                | ErrorCode::UNKNOWN_MEMBER_ID => {}
                code if coordinator::is_moving(code) => {
                    self.moved(COMMITTING, code).await;
                    return Ok(());
                }
                code => ask::refuse(
                    code,
                    None,
                    &format!("committing {}-{}", self.topic, result.partition_index),
                )?,
            }
        }
        self.waits.remove(COMMITTING);
        Ok(())
    }

    /// Leaves, so that the others need not wait until it is missed. They will, where this fails.
    pub async fn leave(&mut self) {
        if self.id.is_empty() {
            return;
        }
        let question = LeaveGroupRequest {
            group_id: self.group.clone(),
            member_id: self.id.clone(),
            members: vec![MemberIdentity {
                member_id: self.id.clone(),
                group_instance_id: None,
                reason: Some("done".to_owned()),
            }],
        };
        let _ = self.ask(5, &question).await;
    }
}

//! What the controllers say of the quorum: by DescribeQuorum where brokers serve it, else by asking each controller.

use std::time::Duration;

use millrace_proto::v1::metadata_client::MetadataClient;
use millrace_proto::v1::{StatusReply, StatusRequest, VoterStatus};
use serde::Serialize;
use tokio::time::{sleep, timeout};
use wire::messages::DescribeQuorumRequest;
use wire::messages::describe_quorum::{Node, RequestPartitionData, RequestTopicData, ResponsePartitionData};

use crate::address::Address;
use crate::ask;
use crate::client::{Client, ClientError};
use crate::outcome::Failure;

/// How long a controller may take to answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A follower that its leader has not heard for so long is silent: Kafka's `controller.quorum.fetch.timeout.ms`, after
/// which a live one would have asked again several times.
const SILENT_AFTER_MS: i64 = 2_000;

/// A leader that was just elected has not heard everybody yet: it is asked again so often, with this pause, before it is
/// believed that somebody is silent.
const LOOKS_AGAIN: usize = 8;
const PAUSE: Duration = Duration::from_millis(250);

/// The state of a member of which its leader never heard.
const NEVER_HEARD: &str = "silent since its leader was elected";

/// What a controller calls itself that leads, or believes that it does.
const LEADER: &str = "leader";

/// The quorum, as far as it can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuorumView {
    /// The cluster's id, where a controller told it, or the broker that was asked for the quorum.
    pub cluster_id: Option<String>,
    /// Who leads it, where somebody does.
    pub leader: Option<i32>,
    /// The newest term that anybody knows.
    pub term: Option<u64>,
    /// Its members, by number; those that did not answer and are not known by number come last.
    pub controllers: Vec<ControllerView>,
}

/// One controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControllerView {
    /// Its number, where it is known.
    pub id: Option<i32>,
    /// Where it was asked, or is said to be.
    pub address: Option<String>,
    /// What it is: leader, follower, candidate, learner; or why that is not known.
    pub state: String,
    /// Whether it answers: this command or, where it was not asked, its leader.
    pub answers: bool,
    /// The end of its metadata log.
    pub log_end: Option<i64>,
    /// How many records it is behind the leader.
    pub lag: Option<i64>,
    /// Why it only serves reads, where it does.
    pub quarantine: Option<String>,
}

impl QuorumView {
    /// Whether there is a member that its leader never heard: one that is gone, or a leader that is new.
    fn is_unheard(&self) -> bool {
        self.controllers.iter().any(|one| one.state == NEVER_HEARD)
    }
}

/// Asks a broker, which has told its `cluster_id` before: the answer names none. `None` where it does not serve the
/// question.
///
/// # Errors
/// When the broker does not answer or refuses.
pub async fn by_broker(client: &mut Client, cluster_id: Option<&str>) -> Result<Option<QuorumView>, Failure> {
    let is_unheard =
        |told: &Result<Option<QuorumView>, Failure>| matches!(told, Ok(Some(view)) if view.is_unheard());
    settled(async || told_by_broker(client, cluster_id).await, is_unheard).await
}

/// What is seen at the first look after which nothing is left open, or at the last one.
async fn settled<T>(mut look: impl AsyncFnMut() -> T, is_open: impl Fn(&T) -> bool) -> T {
    let mut seen = look().await;
    for _ in 0..LOOKS_AGAIN {
        if !is_open(&seen) {
            break;
        }
        sleep(PAUSE).await;
        seen = look().await;
    }
    seen
}

async fn told_by_broker(
    client: &mut Client,
    cluster_id: Option<&str>,
) -> Result<Option<QuorumView>, Failure> {
    let partitions = vec![RequestPartitionData::default()];
    let topics = vec![RequestTopicData {
        topic_name: "__cluster_metadata".to_owned(),
        partitions,
    }];
    let answer = match client.ask(2, &DescribeQuorumRequest { topics }).await {
        Ok((_, answer)) => answer,
        Err(ClientError::NotServed { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    ask::refuse(
        answer.error_code,
        answer.error_message.as_deref(),
        "the quorum cannot be described",
    )?;
    let Some(log) = answer.topics.first().and_then(|topic| topic.partitions.first()) else {
        return Err(Failure::Refused(
            "the quorum cannot be described: the answer is empty".to_owned(),
        ));
    };
    ask::refuse(
        log.error_code,
        log.error_message.as_deref(),
        "the quorum cannot be described",
    )?;
    Ok(Some(described(log, &answer.nodes, cluster_id)))
}

/// What the leader says of all. Who is silent is judged by its own clock: this machine's may be another.
fn described(log: &ResponsePartitionData, nodes: &[Node], cluster_id: Option<&str>) -> QuorumView {
    let own = log
        .current_voters
        .iter()
        .find(|voter| voter.replica_id == log.leader_id);
    // Versions before 1 tell no times at all, not even the leader's: then nothing is known of silence.
    let now_ms = own.map(|own| own.last_fetch_timestamp).filter(|now| 0 <= *now);
    let controllers = log.current_voters.iter().map(|voter| {
        let heard_at = Some(voter.last_fetch_timestamp).filter(|at| 0 <= *at);
        let ago_ms = |now: i64| heard_at.map(|at| now.saturating_sub(at));
        let silence = now_ms.and_then(|now| silence(ago_ms(now)));
        let is_leader = voter.replica_id == log.leader_id;
        let role = if is_leader { LEADER } else { "follower" };
        ControllerView {
            id: Some(voter.replica_id),
            address: address_of(voter.replica_id, nodes),
            answers: silence.is_none(),
            state: silence.unwrap_or_else(|| role.to_owned()),
            log_end: Some(voter.log_end_offset).filter(|end| 0 <= *end),
            lag: own.map(|own| own.log_end_offset.saturating_sub(voter.log_end_offset).max(0)),
            quarantine: None,
        }
    });
    QuorumView {
        cluster_id: cluster_id.map(str::to_owned),
        leader: Some(log.leader_id).filter(|id| 0 <= *id),
        term: u64::try_from(log.leader_epoch).ok(),
        controllers: controllers.collect(),
    }
}

/// How long a member has been silent towards its leader, in words; none where it was heard just now.
fn silence(ago_ms: Option<i64>) -> Option<String> {
    match ago_ms {
        None => Some(NEVER_HEARD.to_owned()),
        Some(ago) if SILENT_AFTER_MS <= ago => Some(format!("silent for {} s", ago / 1_000)),
        Some(_) => None,
    }
}

/// The first listener of a node, as of version 2.
fn address_of(id: i32, nodes: &[Node]) -> Option<String> {
    let listener = nodes.iter().find(|node| node.node_id == id)?.listeners.first()?;
    let (host, port) = (listener.host.clone(), listener.port);
    Some(Address { host, port }.to_string())
}

/// Asks every one of these controllers, all at once.
pub async fn by_controllers(addresses: &[Address]) -> QuorumView {
    settled(
        async || told_by_controllers(addresses).await,
        QuorumView::is_unheard,
    )
    .await
}

async fn told_by_controllers(addresses: &[Address]) -> QuorumView {
    let asked: Vec<_> = addresses
        .iter()
        .cloned()
        .map(|address| tokio::spawn(async move { (address.clone(), status_of(&address).await) }))
        .collect();
    let mut answers = Vec::new();
    for one in asked {
        match one.await {
            Ok(answer) => answers.push(answer),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    judge(answers)
}

async fn status_of(address: &Address) -> Result<StatusReply, String> {
    let turn = async {
        let mut client = MetadataClient::connect(format!("http://{address}"))
            .await
            .map_err(|error| root(&error))?;
        client
            .status(StatusRequest {})
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| status.message().to_owned())
    };
    timeout(TIMEOUT, turn)
        .await
        .unwrap_or_else(|_| Err(format!("silent for {} s", TIMEOUT.as_secs())))
}

/// The innermost reason: what stands around it only says that something failed.
fn root(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// One view of what each controller says of itself and the leader says of all.
fn judge(answers: Vec<(Address, Result<StatusReply, String>)>) -> QuorumView {
    let replies = || answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    let term = replies().map(|reply| reply.term).max();
    // An old leader that does not know yet that it was deposed answers with an older term.
    let leader = replies().find(|reply| reply.active && Some(reply.term) == term);
    let leading = Leading(leader);
    let mut controllers: Vec<ControllerView> = answers
        .iter()
        .map(|(address, answer)| leading.view_of(address, answer))
        .collect();
    let unasked: Vec<ControllerView> = leading
        .voters()
        .filter(|voter| !controllers.iter().any(|known| known.id == Some(voter.id)))
        .map(|voter| leading.view_of_unasked(voter))
        .collect();
    controllers.extend(unasked);
    controllers.sort_by_key(|one| (one.id.is_none(), one.id));
    QuorumView {
        cluster_id: leader
            .or_else(|| replies().next())
            .map(|reply| reply.cluster_id.clone()),
        leader: leader.map(|leader| leader.id),
        term,
        controllers,
    }
}

/// What the leader says of all, where there is one.
struct Leading<'a>(Option<&'a StatusReply>);

impl<'a> Leading<'a> {
    fn voters(&self) -> impl Iterator<Item = &'a VoterStatus> {
        self.0.into_iter().flat_map(|leader| &leader.voters)
    }

    fn is(&self, id: i32) -> bool {
        self.0.is_some_and(|leader| leader.id == id)
    }

    fn end_of(&self, id: i32) -> Option<i64> {
        self.voters().find(|voter| voter.id == id)?.log_end
    }

    /// How far an end is behind the leader's own.
    fn lag(&self, log_end: Option<i64>) -> Option<i64> {
        let leader = self.0?;
        let own = self.end_of(leader.id).unwrap_or(leader.committed_end);
        log_end.map(|end| (own - end).max(0))
    }

    fn view_of(&self, address: &Address, answer: &Result<StatusReply, String>) -> ControllerView {
        let told = answer.as_ref().ok();
        let by_address = || {
            self.voters()
                .find(|voter| voter.address == address.to_string())
                .map(|voter| voter.id)
        };
        let id = told.map(|reply| reply.id).or_else(by_address);
        let log_end = id
            .and_then(|id| self.end_of(id))
            .or_else(|| told.map(|reply| reply.applied_end));
        ControllerView {
            id,
            address: Some(address.to_string()),
            answers: told.is_some(),
            state: match answer {
                Ok(reply) if reply.role == LEADER && !self.is(reply.id) => {
                    format!("{LEADER} (deposed or without a quorum)")
                }
                Ok(reply) => reply.role.clone(),
                Err(reason) => format!("does not answer: {reason}"),
            },
            log_end,
            lag: self.lag(log_end),
            quarantine: told.and_then(|reply| reply.quarantine.clone()),
        }
    }

    fn view_of_unasked(&self, voter: &VoterStatus) -> ControllerView {
        let silence = silence(voter.last_fetch_ms);
        ControllerView {
            id: Some(voter.id),
            address: Some(voter.address.clone()),
            answers: silence.is_none(),
            state: silence.unwrap_or_else(|| "was not asked".to_owned()),
            log_end: voter.log_end,
            lag: self.lag(voter.log_end),
            quarantine: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use wire::messages::describe_quorum::{Listener, ReplicaState};

    fn at(port: u16) -> Address {
        format!("127.0.0.1:{port}").parse().unwrap()
    }

    fn reply(id: i32, role: &str, term: u64) -> StatusReply {
        let active = role == "leader";
        let voter = |id: i32, log_end| VoterStatus {
            id,
            address: at(90 + id as u16).to_string(),
            log_end,
            last_fetch_ms: log_end.map(|_| 40),
            ..Default::default()
        };
        let voters = if active {
            vec![voter(1, Some(50)), voter(2, Some(47)), voter(3, None)]
        } else {
            vec![]
        };
        StatusReply {
            id,
            role: role.to_owned(),
            term,
            active,
            committed_end: 49,
            applied_end: 46,
            voters,
            ..Default::default()
        }
    }

    #[test]
    fn the_leader_says_how_far_the_others_are_behind() {
        let view = judge(vec![
            (at(92), Ok(reply(2, "follower", 7))),
            (at(91), Ok(reply(1, "leader", 7))),
        ]);
        assert_eq!((view.leader, view.term), (Some(1), Some(7)));
        let seen: Vec<_> = view
            .controllers
            .iter()
            .map(|one| (one.id, one.state.as_str(), one.lag))
            .collect();
        assert_eq!(
            seen,
            [
                (Some(1), "leader", Some(0)),
                (Some(2), "follower", Some(3)),
                (Some(3), "silent since its leader was elected", None)
            ]
        );
    }

    #[test]
    fn a_leader_of_an_older_term_does_not_lead() {
        let view = judge(vec![
            (at(91), Ok(reply(1, "leader", 6))),
            (at(92), Ok(reply(2, "follower", 7))),
        ]);
        assert_eq!((view.leader, view.term), (None, Some(7)));
        assert_eq!(view.controllers[0].state, "leader (deposed or without a quorum)");
    }

    #[test]
    fn a_silent_controller_is_named_by_what_the_leader_knows_of_its_address() {
        let view = judge(vec![
            (at(91), Ok(reply(1, "leader", 7))),
            (at(93), Err("refused".to_owned())),
        ]);
        let silent = view.controllers.iter().find(|one| one.id == Some(3)).unwrap();
        assert_eq!(silent.state, "does not answer: refused");
    }

    #[test]
    fn when_nobody_answers_nobody_leads() {
        let view = judge(vec![(at(91), Err("refused".to_owned()))]);
        assert_eq!((view.leader, view.term), (None, None));
        assert_eq!(view.controllers[0].id, None);
    }

    /// A leader of clock 90 000 and its followers, which it heard at these moments.
    fn told(heard_ms: [i64; 3]) -> QuorumView {
        let voter = |(index, at): (i32, i64)| ReplicaState {
            replica_id: 101 + index,
            log_end_offset: 50,
            last_fetch_timestamp: at,
            ..Default::default()
        };
        let log = ResponsePartitionData {
            leader_id: 101,
            leader_epoch: 3,
            current_voters: (0..).zip(heard_ms).map(voter).collect(),
            ..Default::default()
        };
        let listener = Listener {
            name: "CONTROLLER".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 9096,
        };
        let node = Node {
            node_id: 102,
            listeners: vec![listener],
        };
        described(&log, &[node], Some("c"))
    }

    fn states(view: &QuorumView) -> Vec<(&str, bool)> {
        let controllers = view.controllers.iter();
        controllers.map(|one| (one.state.as_str(), one.answers)).collect()
    }

    /// A killed follower was shown as a follower like any other.
    #[test]
    fn a_follower_that_its_leader_does_not_hear_is_silent() {
        assert_eq!(
            states(&told([90_000, 88_001, 43_000])),
            [("leader", true), ("follower", true), ("silent for 47 s", false)]
        );
        assert_eq!(
            states(&told([90_000, -1, 89_990])),
            [
                ("leader", true),
                ("silent since its leader was elected", false),
                ("follower", true)
            ]
        );
    }

    /// Right after an election every follower was called silent.
    #[tokio::test]
    async fn a_follower_that_a_new_leader_has_not_heard_yet_is_asked_after_again() {
        let looks = std::cell::Cell::new(0);
        let look = async || {
            looks.set(looks.get() + 1);
            let heard_at = if looks.get() < 3 { -1 } else { 89_990 };
            told([90_000, heard_at, 89_990])
        };
        let seen = settled(look, QuorumView::is_unheard).await;
        assert_eq!(
            states(&seen),
            [("leader", true), ("follower", true), ("follower", true)]
        );
        assert_eq!(looks.get(), 3, "no oftener than it takes");
    }

    #[test]
    fn where_no_times_are_told_nobody_is_called_silent() {
        assert_eq!(
            states(&told([-1, -1, -1])),
            [("leader", true), ("follower", true), ("follower", true)]
        );
    }

    /// It was null in JSON, although the broker tells it.
    #[test]
    fn a_quorum_is_that_of_the_brokers_cluster() {
        assert_eq!(told([0, 0, 0]).cluster_id.as_deref(), Some("c"));
    }

    #[test]
    fn the_addresses_that_the_broker_tells_are_shown() {
        let view = told([0, 0, 0]);
        assert_eq!(view.controllers[1].address.as_deref(), Some("127.0.0.1:9096"));
        assert_eq!(view.controllers[2].address, None);
    }
}

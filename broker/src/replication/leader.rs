//! Fetches from one leader: carries out [`broker_core::fetcher`] over two connections.
//!
//! ```text
//!  orders of the lanes ─► Fetcher ─► Fetch (Kafka) ─► leader
//!                            ▲                           │
//!        lane: append, cut ──┴───────── effects ◄── answer
//! ```
//! Must not: touch a log; its lane does.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use broker_core::fetcher::{Answer, Effect, Failure, Fetcher, Next, Outcome, Plan, RequestId};
use broker_core::offsets::{EpochEnd, HighWatermark, LogEnd, LogStart, Offset};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId, PartitionIndex};
use partition_log::TopicPartition;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tracing::{debug, info};
use wire::messages::fetch::FetchResponse;
use wire::{ErrorCode, Records};

use super::FetchOrder;
use super::link::{Address, Link};
use super::request;
use crate::node::Node;
use crate::seam;
use crate::storage::follower::{FetchedPart, Work};
use crate::storage::lane::Event;

/// Something that the task waited for.
enum Happened {
    Fetched {
        request: RequestId,
        result: io::Result<(FetchResponse, Link)>,
    },
    /// One partition's, under the leadership for which it was asked.
    Answered {
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        answered: Answered,
    },
}

/// What was asked about one partition.
enum Answered {
    /// Nothing became of it where the lane has taken up another role: it gives another order.
    Worked(WorkKind, Option<Outcome>),
    LeaderEnd(Result<Offset, Failure>),
    LeaderStart(Result<Offset, Failure>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkKind {
    Append,
    Cut,
}

type Waiting = Pin<Box<dyn Future<Output = Option<Happened>> + Send>>;

struct Leader {
    node: Arc<Node>,
    id: BrokerId,
    fetcher: Fetcher,
    /// The names of the partitions that are followed.
    followed: HashMap<PartitionId, TopicPartition>,
    links: Vec<Link>,
    at_work: FuturesUnordered<Waiting>,
    /// Records of the answer that is being taken in.
    records: BTreeMap<PartitionId, Bytes>,
    reachable: bool,
}

/// Fetches until the node stops.
pub async fn run(node: Arc<Node>, id: BrokerId, mut orders: UnboundedReceiver<FetchOrder>) {
    let fetcher = Fetcher::of(id, node.settings.replica_fetch.backoff);
    let mut leader = Leader {
        node,
        id,
        fetcher,
        followed: HashMap::new(),
        links: Vec::new(),
        at_work: FuturesUnordered::new(),
        records: BTreeMap::new(),
        reachable: true,
    };
    loop {
        while let Ok(order) = orders.try_recv() {
            leader.order(order);
        }
        let pause = leader.send_what_is_due();
        let is_at_work = !leader.at_work.is_empty();
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => leader.order(order),
                None => return,
            },
            Some(happened) = leader.at_work.next(), if is_at_work => {
                if let Some(happened) = happened {
                    leader.take(happened);
                }
            }
            () = sleep_or_wait(pause) => {}
        }
    }
}

async fn sleep_or_wait(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

impl Leader {
    fn order(&mut self, order: FetchOrder) {
        match order {
            FetchOrder::Start {
                partition,
                name,
                leader,
                leader_epoch,
                log,
                watermark,
            } => {
                info!(partition = %name, %leader, %leader_epoch, from = log.end.0.0, "following");
                self.followed.insert(partition, name);
                let effects = self.fetcher.follow(partition, leader_epoch, log, watermark);
                self.carry_out(effects);
            }
            FetchOrder::Stop(partition) => {
                self.followed.remove(&partition);
                self.fetcher.unfollow(partition);
                if self.fetcher.is_idle() {
                    self.links.clear();
                }
            }
        }
    }

    /// Sends what is due; then how long nothing is.
    fn send_what_is_due(&mut self) -> Option<Duration> {
        loop {
            match self.fetcher.next(self.node.now()) {
                Next::Send(plan) => self.send(plan),
                Next::WaitUntil(moment) => return Some(moment.since(self.node.now())),
                Next::Wait => return None,
            }
        }
    }

    fn send(&mut self, plan: Plan) {
        let link = self.link_for(&plan);
        let address = self.address();
        let node = Arc::clone(&self.node);
        let patience = node.settings.replica_fetch.answer_timeout;
        let Plan { request, fetches } = plan;
        self.at_work.push(Box::pin(async move {
            let result = async {
                let mut link = usable(link, address).await?;
                let fetch = request::fetch(&node, &link.told.say(&fetches));
                let response = link.call(request::FETCH_VERSION, &fetch, patience).await?;
                match response.error_code.is_error() {
                    true => link.told.refused(),
                    false => link.told.answered(request::session_of(&response)),
                }
                io::Result::Ok((response, link))
            };
            Some(Happened::Fetched {
                request,
                result: result.await,
            })
        }));
    }

    /// The connection over which the least is to be said.
    fn link_for(&mut self, plan: &Plan) -> Option<Link> {
        let links = self.links.iter().enumerate();
        let best = links.max_by_key(|(_, link)| link.told.known(&plan.fetches));
        let at = best.map(|(at, _)| at)?;
        Some(self.links.swap_remove(at))
    }

    /// Where the leader is now, by the newest image.
    fn address(&self) -> Option<Address> {
        let published = self.node.published.load();
        let broker = published.image.brokers.get(&self.id)?;
        let endpoint = broker.endpoint(&self.node.settings.inter_broker_listener)?;
        Some(Address {
            host: endpoint.host.clone(),
            port: endpoint.port,
        })
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Fetched {
                request,
                result: Ok((response, link)),
            } => {
                if !std::mem::replace(&mut self.reachable, true) {
                    info!(leader = %self.id, "the leader can be reached again");
                }
                self.links.push(link);
                self.fetched(request, response);
            }
            Happened::Fetched {
                request,
                result: Err(error),
            } => {
                if std::mem::replace(&mut self.reachable, false) {
                    info!(leader = %self.id, %error, "the leader cannot be reached");
                }
                self.fetcher.unreachable(request, self.node.now());
            }
            Happened::Answered {
                partition,
                leader_epoch,
                answered,
            } => {
                self.answered(partition, leader_epoch, answered);
            }
        }
    }

    fn answered(&mut self, partition: PartitionId, leader_epoch: LeaderEpoch, answered: Answered) {
        let (fetcher, now) = (&mut self.fetcher, self.node.now());
        let effects = match answered {
            Answered::Worked(_, None) => Vec::new(),
            Answered::Worked(WorkKind::Append, Some(outcome)) => {
                fetcher.appended(partition, leader_epoch, outcome, now);
                Vec::new()
            }
            Answered::Worked(WorkKind::Cut, Some(outcome)) => {
                fetcher.truncated(partition, leader_epoch, outcome, now);
                Vec::new()
            }
            Answered::LeaderEnd(end) => fetcher.leader_end(partition, leader_epoch, end.map(LogEnd), now),
            Answered::LeaderStart(start) => {
                fetcher.leader_start(partition, leader_epoch, start.map(LogStart), now)
            }
        };
        self.carry_out(effects);
    }

    fn fetched(&mut self, request: RequestId, response: FetchResponse) {
        let mut answers = BTreeMap::new();
        self.records.clear();
        if response.error_code.is_error() {
            debug!(leader = %self.id, error = %response.error_code, "the leader refuses a fetch");
            self.fetcher.unreachable(request, self.node.now());
            return;
        }
        for topic in response.responses {
            let id = seam::topic_from_wire(topic.topic_id);
            for data in topic.partitions {
                let partition = PartitionId {
                    topic: id,
                    index: PartitionIndex(data.partition_index),
                };
                let answer = match data.error_code {
                    // An end that no log can have: to be asked again.
                    ErrorCode::NONE
                        if data.diverging_epoch.epoch != -1 && data.diverging_epoch.end_offset < 0 =>
                    {
                        Answer::Failed(Failure::Passing)
                    }
                    ErrorCode::NONE if data.diverging_epoch.epoch != -1 => {
                        let epoch = LeaderEpoch(data.diverging_epoch.epoch);
                        let theirs = EpochEnd {
                            epoch,
                            end: Offset(data.diverging_epoch.end_offset),
                        };
                        Answer::Diverging {
                            theirs,
                            ours: self.own_epoch_end(partition, epoch),
                        }
                    }
                    ErrorCode::NONE => Answer::Records {
                        watermark: HighWatermark(Offset(data.high_watermark)),
                        log_start: LogStart(Offset(data.log_start_offset)),
                    },
                    error => Answer::Failed(failure(error)),
                };
                if let Records::Bytes(bytes) = data.records {
                    self.records.insert(partition, bytes);
                }
                answers.insert(partition, answer);
            }
        }
        let effects = self.fetcher.answered(request, &answers, self.node.now());
        self.carry_out(effects);
    }

    fn own_epoch_end(&self, partition: PartitionId, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let hosted = self.node.partitions.get(partition)?;
        match hosted.log.end_offset_for_epoch(seam::epoch_to_log(epoch)) {
            partition_log::EpochEnd::Undefined => None,
            partition_log::EpochEnd::At { epoch, end } => Some(EpochEnd {
                epoch: seam::epoch_to_core(epoch),
                end: seam::to_core(end),
            }),
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append {
                    partition,
                    leader_epoch,
                    at,
                    watermark,
                    log_start,
                } => {
                    let batches = self.records.remove(&partition).unwrap_or_default();
                    let work = Work::Append {
                        from: at.0,
                        batches,
                        watermark,
                        log_start,
                    };
                    self.work(partition, leader_epoch, work, WorkKind::Append);
                }
                Effect::TruncateTo {
                    partition,
                    leader_epoch,
                    to,
                } => {
                    self.work(partition, leader_epoch, Work::Truncate(to.0), WorkKind::Cut);
                }
                Effect::RestartAt {
                    partition,
                    leader_epoch,
                    start,
                } => {
                    self.work(partition, leader_epoch, Work::Restart(start), WorkKind::Cut);
                }
                Effect::AskLeaderEnd {
                    partition,
                    leader_epoch,
                } => {
                    self.ask(partition, leader_epoch, request::LATEST, Answered::LeaderEnd);
                }
                Effect::AskLeaderStart {
                    partition,
                    leader_epoch,
                } => {
                    self.ask(partition, leader_epoch, request::EARLIEST, Answered::LeaderStart);
                }
            }
        }
    }

    fn work(&mut self, partition: PartitionId, leader_epoch: LeaderEpoch, work: Work, kind: WorkKind) {
        let (done, outcome) = oneshot::channel();
        let part = FetchedPart {
            partition,
            leader_epoch,
            work,
            done,
        };
        match self.node.partitions.get(partition) {
            Some(hosted) => hosted.lane.send(Event::Fetched(part)),
            None => part.nobody_is_here(),
        }
        self.at_work.push(Box::pin(async move {
            let outcome = outcome.await.ok();
            Some(Happened::Answered {
                partition,
                leader_epoch,
                answered: Answered::Worked(kind, outcome),
            })
        }));
    }

    fn ask(
        &mut self,
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        timestamp: i64,
        answered: fn(Result<Offset, Failure>) -> Answered,
    ) {
        let Some(name) = self.followed.get(&partition) else {
            return;
        };
        let question = request::list_offsets(self.node.id, name, leader_epoch, timestamp);
        let (link, address) = (self.links.pop(), self.address());
        let patience = self.node.settings.replica_fetch.answer_timeout;
        self.at_work.push(Box::pin(async move {
            let result = async {
                let mut link = usable(link, address).await?;
                link.call(request::LIST_OFFSETS_VERSION, &question, patience)
                    .await
            };
            let offset = match result.await {
                Ok(response) => request::offset_of(&response),
                Err(_) => Err(Failure::Passing),
            };
            Some(Happened::Answered {
                partition,
                leader_epoch,
                answered: answered(offset),
            })
        }));
    }
}

/// A connection to where the leader is now: the old one, if it leads there.
async fn usable(link: Option<Link>, address: Option<Address>) -> io::Result<Link> {
    let address = address.ok_or_else(|| io::Error::other("the leader has no address"))?;
    match link.filter(|link| *link.address() == address) {
        Some(link) => Ok(link),
        None => Link::open(address).await,
    }
}

fn failure(error: ErrorCode) -> Failure {
    match error {
        ErrorCode::OFFSET_OUT_OF_RANGE => Failure::OutOfRange,
        ErrorCode::FENCED_LEADER_EPOCH => Failure::FencedLeaderEpoch,
        _ => Failure::Passing,
    }
}

//! One broker of the model: the shell around its replica, its log and its fetcher.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::fetch::{Claim, FetchRefusal, Reader, admit, check_range, divergence};
use broker_core::fetcher::{self, Answer, Failure, Fetch, Fetcher, LocalLog, Next, Outcome};
use broker_core::offsets::{HighWatermark, LogFacts, Offset};
use broker_core::replica::{Assignment, Effect, FollowerFetch, Replica, Role};
use broker_core::time::Moment;
use metadata::ids::{BrokerId, LeaderEpoch};

use super::controller::PARTITION;
use super::log::{Log, Record};
use super::{LAG_MAX, World};

const BACKOFF_MAX: Duration = Duration::from_secs(1);

pub struct Node {
    pub id: BrokerId,
    pub up: bool,
    pub log: Log,
    /// The watermark as the last checkpoint has it: what a restart finds.
    saved: HighWatermark,
    pub replica: Option<Replica>,
    pub fetcher: Option<Fetcher>,
    /// Read, but not yet seen by the lane.
    pub unseen_fetches: Vec<(BrokerId, FollowerFetch)>,
}

impl Node {
    pub fn starting(id: BrokerId) -> Self {
        Self {
            id,
            up: true,
            log: Log::default(),
            saved: HighWatermark(Offset(0)),
            replica: None,
            fetcher: None,
            unseen_fetches: Vec::new(),
        }
    }

    pub fn assigned(&mut self, assignment: Assignment, now: Moment) -> Vec<Effect> {
        match &mut self.replica {
            Some(replica) => replica.assigned(assignment, now),
            None => {
                let log = LogFacts::recovered(self.log.start(), self.log.end(), self.saved);
                let (replica, effects) = Replica::opened(assignment, log, LAG_MAX, now);
                self.replica = Some(replica);
                effects
            }
        }
    }

    pub fn append(&mut self, value: u64) {
        let epoch = self.replica.as_ref().unwrap().view().leader_epoch;
        self.log.append((epoch, value));
    }

    /// Everything but the log is gone.
    pub fn kill(&mut self) {
        self.up = false;
        self.replica = None;
        self.fetcher = None;
        self.unseen_fetches.clear();
    }

    /// An empty disk.
    pub fn wipe(&mut self) {
        self.log = Log::default();
        self.saved = HighWatermark(Offset(0));
    }

    pub fn local(&self) -> LocalLog {
        LocalLog {
            start: self.log.start(),
            end: self.log.end(),
            last_epoch: self.log.last_epoch(),
        }
    }

    /// Reads for a follower, as the read path of a leader does.
    fn read(
        &mut self,
        follower: BrokerId,
        fetch: Fetch,
        most: u8,
        now: Moment,
    ) -> Result<(Vec<Record>, Read), FetchRefusal> {
        let replica = self.replica.as_ref().unwrap();
        let view = replica.view();
        let assignment = replica.assignment();
        let broker_epoch = assignment
            .registrations
            .get(&follower)
            .map(|registered| registered.epoch);
        let claim = Claim {
            leader_epoch: Some(fetch.leader_epoch),
            topic: None,
        };
        admit(
            &view,
            assignment,
            Reader::Follower {
                id: follower,
                epoch: broker_epoch,
            },
            claim,
        )?;
        let (start, end) = (self.log.start(), self.log.end());
        if let Some(last) = fetch.last_fetched_epoch
            && let Some(theirs) = divergence(last, fetch.offset, self.log.end_of(last), start, end)?
        {
            return Ok((Vec::new(), Read::Diverging(theirs)));
        }
        check_range(fetch.offset, start, end)?;
        self.unseen_fetches.push((
            follower,
            FollowerFetch {
                leader_epoch: view.leader_epoch,
                broker_epoch,
                fetch_offset: broker_core::offsets::LogEnd(fetch.offset),
                log_start: fetch.log_start,
                leader_end: end,
                at: now,
            },
        ));
        let from = fetch.offset.0 as usize;
        let records = self.log.records[from..]
            .iter()
            .take(usize::from(most))
            .copied()
            .collect();
        let Role::Leading(leading) = replica.role() else {
            unreachable!("only leaders are admitted")
        };
        Ok((records, Read::Records(leading.log())))
    }
}

enum Read {
    Records(LogFacts),
    Diverging(broker_core::offsets::EpochEnd),
}

impl World {
    pub fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            let this = &mut self.nodes[node];
            match effect {
                Effect::EpochStarted { leader_epoch, at } => this.log.epoch_started(leader_epoch, at),
                Effect::StartFetching {
                    leader, leader_epoch, ..
                } => self.follow(node, leader, leader_epoch),
                Effect::StopFetching => this.fetcher = None,
                Effect::ProposeIsr(proposal) => self.proposals.push((BrokerId(node as i32), proposal)),
                // Every other move is saved, so that restarts find old checkpoints as well.
                Effect::WatermarkMoved { to } if to.0.0 % 2 == 0 => this.saved = to,
                Effect::WatermarkMoved { .. }
                | Effect::LogStartMoved { .. }
                | Effect::InSyncChanged { .. }
                | Effect::Completed { .. }
                | Effect::RoleChanged => {}
            }
        }
    }

    fn follow(&mut self, node: usize, leader: BrokerId, leader_epoch: LeaderEpoch) {
        let mut fetcher = Fetcher::of(leader, BACKOFF_MAX);
        let Role::Following(following) = self.nodes[node].replica.as_ref().unwrap().role() else {
            panic!("only followers fetch")
        };
        let watermark = following.log().watermark;
        let effects = fetcher.follow(PARTITION, leader_epoch, self.nodes[node].local(), watermark);
        self.nodes[node].fetcher = Some(fetcher);
        for effect in effects {
            self.carry_out_fetched(node, effect, &[]);
        }
    }

    /// One request of a follower, answered at once.
    pub fn fetch(&mut self, node: usize, most: u8) {
        let now = self.now;
        let id = self.nodes[node].id;
        let Some(fetcher) = self.nodes[node].fetcher.as_mut() else {
            return;
        };
        let Next::Send(plan) = fetcher.next(now) else {
            return;
        };
        let leader = fetcher.leader().0 as usize;
        if self.nodes[leader].replica.is_none() {
            self.nodes[node]
                .fetcher
                .as_mut()
                .unwrap()
                .unreachable(plan.request, now);
            return;
        }
        let read = self.nodes[leader].read(id, plan.fetches[0].1, most, now);
        let (records, answer) = match read {
            Ok((records, Read::Records(log))) => (
                records,
                Answer::Records {
                    watermark: log.watermark,
                    log_start: log.start,
                },
            ),
            Ok((records, Read::Diverging(theirs))) => (
                records,
                Answer::Diverging {
                    theirs,
                    ours: self.nodes[node].log.end_of(theirs.epoch),
                },
            ),
            Err(FetchRefusal::OffsetOutOfRange { .. }) => (Vec::new(), Answer::Failed(Failure::OutOfRange)),
            Err(FetchRefusal::FencedLeaderEpoch { .. }) => {
                (Vec::new(), Answer::Failed(Failure::FencedLeaderEpoch))
            }
            Err(_) => (Vec::new(), Answer::Failed(Failure::Passing)),
        };
        let answers = BTreeMap::from([(PARTITION, answer)]);
        let effects = self.nodes[node]
            .fetcher
            .as_mut()
            .unwrap()
            .answered(plan.request, &answers, now);
        for effect in effects {
            self.carry_out_fetched(node, effect, &records);
        }
    }

    fn carry_out_fetched(&mut self, node: usize, effect: fetcher::Effect, records: &[Record]) {
        let now = self.now;
        let this = &mut self.nodes[node];
        let (replica, fetcher) = (this.replica.as_mut().unwrap(), this.fetcher.as_mut().unwrap());
        match effect {
            fetcher::Effect::Append {
                leader_epoch,
                at,
                watermark,
                log_start,
                ..
            } => {
                replica.follows(leader_epoch).unwrap();
                if at != this.log.end() {
                    let log = LocalLog {
                        start: this.log.start(),
                        end: this.log.end(),
                        last_epoch: this.log.last_epoch(),
                    };
                    fetcher.appended(PARTITION, leader_epoch, Outcome::LogMoved(log), now);
                    return;
                }
                records.iter().for_each(|record| this.log.append(*record));
                let mut effects = replica.appended(this.log.end(), now);
                effects.extend(replica.leader_said(watermark, log_start));
                let done = Outcome::Done(this.local());
                let fetcher = this.fetcher.as_mut().unwrap();
                fetcher.appended(PARTITION, leader_epoch, done, now);
                self.carry_out(node, effects);
            }
            fetcher::Effect::TruncateTo { leader_epoch, to, .. } => {
                replica.follows(leader_epoch).unwrap();
                this.log.truncate(to);
                replica.truncated(to);
                let done = Outcome::Done(this.local());
                let fetcher = this.fetcher.as_mut().unwrap();
                fetcher.truncated(PARTITION, leader_epoch, done, now);
            }
            fetcher::Effect::AskLeaderEnd { leader_epoch, .. } => self.locate(node, leader_epoch),
            fetcher::Effect::AskLeaderStart { .. } | fetcher::Effect::RestartAt { .. } => {
                unreachable!("no log here starts above zero")
            }
        }
    }

    /// Tells a follower where its leader's log ends, if that still leads.
    fn locate(&mut self, node: usize, leader_epoch: LeaderEpoch) {
        let now = self.now;
        let leader = self.nodes[node].fetcher.as_ref().unwrap().leader().0 as usize;
        let leads = self.nodes[leader]
            .replica
            .as_ref()
            .is_some_and(|replica| matches!(replica.role(), Role::Leading(_)));
        let end = if leads {
            Ok(self.nodes[leader].log.end())
        } else {
            Err(Failure::Passing)
        };
        let fetcher = self.nodes[node].fetcher.as_mut().unwrap();
        for effect in fetcher.leader_end(PARTITION, leader_epoch, end, now) {
            if matches!(effect, fetcher::Effect::AskLeaderStart { .. }) {
                let start = Ok(self.nodes[leader].log.start());
                let more = self.nodes[node].fetcher.as_mut().unwrap().leader_start(
                    PARTITION,
                    leader_epoch,
                    start,
                    now,
                );
                assert!(more.is_empty(), "no log here starts above zero");
            } else {
                self.carry_out_fetched(node, effect, &[]);
            }
        }
    }
}

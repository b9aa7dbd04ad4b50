//! Members of a quorum in one process, over real connections and real stores, without a driver.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::{Disk, OsDisk, OsEntropy};
use metadata::ids::{ControllerId, Term};
use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;

use super::{Addressing, Committed, Dump, Layout, Opened, Quorum, Timing, server};

const PATIENCE: Duration = Duration::from_secs(60);

const TIMING: Timing = Timing {
    election_shortest: Duration::from_millis(150),
    election_longest: Duration::from_millis(300),
    snapshot_bytes: u64::MAX,
    snapshot_age: None,
    entries_kept: 3,
};

/// What a member was told, replayed by the simplest of machines: a list.
#[derive(Clone, Debug, Default)]
struct Told {
    batches: Vec<Bytes>,
    replaced: bool,
}

struct Member {
    quorum: Arc<Quorum>,
    told: watch::Receiver<Told>,
    tasks: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl Member {
    /// Starts a member on `listener`, in a directory of this id.
    async fn start(
        id: i32,
        directory: &str,
        dir: &Path,
        voters: BTreeMap<u64, String>,
        listener: TcpListener,
    ) -> Member {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let adopt = Box::new(|_: &str| Ok(()));
        let cluster_id = Some("ours".to_owned());
        let addressing = Addressing::new(ControllerId(id), directory.into(), voters, cluster_id, adopt);
        let opened = Opened::at(&disk, &Layout::below(dir)).unwrap();
        let (sender, committed) = mpsc::unbounded_channel();
        let entropy = Arc::new(OsEntropy);
        let (quorum, snapshot) = Quorum::start(opened, Arc::new(addressing), TIMING, entropy, sender)
            .await
            .unwrap();
        let start = Told {
            batches: snapshot.map(|(_, dump)| dump.records).unwrap_or_default(),
            replaced: false,
        };
        let (telling, told) = watch::channel(start);
        let (stop, mut stopped) = watch::channel(false);
        let serving = tonic::transport::Server::builder()
            .add_service(server(quorum.clone()))
            .serve_with_incoming_shutdown(TcpIncoming::from(listener), async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            });
        let (founder, keeper) = (quorum.clone(), quorum.clone());
        let tasks = vec![
            tokio::spawn(listen(committed, telling)),
            tokio::spawn(async move { serving.await.unwrap() }),
            tokio::spawn(async move { founder.found().await.unwrap() }),
            tokio::spawn(async move { keeper.keep_membership().await }),
        ];
        Member {
            quorum,
            told,
            tasks,
            stop,
        }
    }

    /// Leaves without a word, and waits until its store is free.
    async fn leave(self) {
        self.stop.send_replace(true);
        self.tasks.iter().for_each(JoinHandle::abort);
        self.quorum.stop().await;
    }

    async fn has(&self, count: usize) -> Told {
        let mut told = self.told.clone();
        let waiting = told.wait_for(|told| count <= told.batches.len());
        let told = tokio::time::timeout(PATIENCE, waiting).await;
        told.unwrap_or_else(|_| panic!("never {count} batches"))
            .unwrap()
            .clone()
    }
}

async fn listen(mut committed: mpsc::UnboundedReceiver<Committed>, telling: watch::Sender<Told>) {
    let held = Mutex::new(telling.borrow().clone());
    while let Some(next) = committed.recv().await {
        match next {
            Committed::Entry { batch, .. } => held.lock().batches.extend(batch),
            Committed::Replaced { dump, .. } => {
                *held.lock() = Told {
                    batches: dump.records,
                    replaced: true,
                };
            }
            Committed::Capture(asked) => {
                let records = held.lock().batches.clone();
                let dump = Dump {
                    next_offset: i64::try_from(records.len()).unwrap(),
                    last_term: 1,
                    records,
                };
                let _ = asked.send(Box::new(move || dump));
            }
        }
        telling.send_replace(held.lock().clone());
    }
}

struct Trio {
    dir: tempfile::TempDir,
    voters: BTreeMap<u64, String>,
    members: Vec<Option<Member>>,
}

impl Trio {
    async fn start() -> Trio {
        let dir = tempfile::tempdir().unwrap();
        let mut voters = BTreeMap::new();
        let mut listeners = Vec::new();
        for id in 0..3_u64 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            voters.insert(id, listener.local_addr().unwrap().to_string());
            listeners.push(listener);
        }
        let mut trio = Trio {
            dir,
            voters,
            members: Vec::new(),
        };
        for (id, listener) in (0_i32..).zip(listeners) {
            let (dir, voters) = (trio.dir.path().join(id.to_string()), trio.voters.clone());
            let member = Member::start(id, &format!("disk-{id}"), &dir, voters, listener).await;
            trio.members.push(Some(member));
        }
        trio
    }

    fn running(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten()
    }

    /// The member that leads, and its term.
    async fn leader(&self) -> (usize, Term) {
        let asking = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(5));
            loop {
                ticks.tick().await;
                for (at, member) in self.members.iter().enumerate() {
                    let standing = member.as_ref().map(|member| member.quorum.standing());
                    if let Some(term) = standing.as_ref().and_then(|standing| standing.leads())
                        && standing
                            .is_some_and(|standing| standing.acknowledged_ago < Some(TIMING.election_longest))
                    {
                        return (at, term);
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, asking)
            .await
            .expect("somebody leads in the end")
    }

    /// Proposes until the quorum takes it.
    async fn commit(&self, text: String) {
        loop {
            let (at, term) = self.leader().await;
            let member = self.members[at].as_ref().unwrap();
            if member
                .quorum
                .propose(term, Bytes::from(text.clone()))
                .await
                .await
                .is_ok()
            {
                return;
            }
        }
    }

    async fn leave(&mut self, at: usize) {
        self.members[at].take().unwrap().leave().await;
    }

    async fn come_back(&mut self, at: usize, directory: &str) {
        let id = i32::try_from(at).unwrap();
        let address = self.voters[&u64::try_from(at).unwrap()].clone();
        let listener = TcpListener::bind(address).await.unwrap();
        let dir = self.dir.path().join(id.to_string());
        self.members[at] = Some(Member::start(id, directory, &dir, self.voters.clone(), listener).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_member_is_told_all_are_told_in_the_same_order() {
    let trio = Trio::start().await;
    for n in 0..20 {
        trio.commit(format!("batch {n}")).await;
    }
    let mut lists = Vec::new();
    for member in trio.running() {
        lists.push(member.has(20).await.batches);
    }
    assert_eq!(lists[0], lists[1]);
    assert_eq!(lists[0], lists[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_bound_to_another_term_is_refused() {
    let trio = Trio::start().await;
    trio.commit("first".into()).await;
    let (at, term) = trio.leader().await;
    let leader = &trio.members[at].as_ref().unwrap().quorum;

    let older = leader
        .propose(Term(term.0 - 1), Bytes::from_static(b"older"))
        .await
        .await;
    let later = leader
        .propose(Term(term.0 + 1), Bytes::from_static(b"later"))
        .await
        .await;

    assert!(older.is_err());
    assert!(later.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stops_answers_what_others_asked_and_takes_no_more() {
    let trio = Trio::start().await;
    let (at, _) = trio.leader().await;
    let quorum = &trio.members[at].as_ref().unwrap().quorum;
    let asked = quorum.taking_part().await.unwrap();
    let mut stopping = std::pin::pin!(quorum.stop());
    assert!(
        futures::poll!(&mut stopping).is_pending(),
        "stopped, with a call of another controller in the core"
    );
    let running = quorum.raft.metrics().borrow_watched().running_state.clone();
    assert_eq!(running, Ok(()), "the core ended before it answered");
    drop(asked);
    tokio::time::timeout(PATIENCE, stopping).await.unwrap();
    assert!(quorum.taking_part().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_away_is_told_what_it_missed() {
    let mut trio = Trio::start().await;
    trio.commit("before".into()).await;
    let (leader, _) = trio.leader().await;
    let away = (leader + 1) % 3;
    trio.leave(away).await;
    trio.commit("meanwhile".into()).await;

    trio.come_back(away, &format!("disk-{away}")).await;

    let told = trio.members[away].as_ref().unwrap().has(2).await;
    assert_eq!(told.batches.last().unwrap(), "meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_on_a_new_disk_learns_from_a_snapshot_what_the_log_no_longer_has() {
    let mut trio = Trio::start().await;
    let (leader, _) = trio.leader().await;
    let lost = (leader + 1) % 3;
    trio.leave(lost).await;
    std::fs::remove_dir_all(trio.dir.path().join(lost.to_string())).unwrap();
    for n in 0..40 {
        trio.commit(format!("batch {n}")).await;
    }
    let snapshots = trio.dir.path().join(leader.to_string()).join("snapshots");
    trio.members[leader]
        .as_ref()
        .unwrap()
        .quorum
        .take_snapshot()
        .await;
    trio.members[leader].as_ref().unwrap().purged_behind(30).await;
    assert_eq!(std::fs::read_dir(snapshots).unwrap().count(), 1);

    trio.come_back(lost, "another disk").await;

    let told = trio.members[lost].as_ref().unwrap().has(40).await;
    assert!(told.replaced, "the log alone does not reach back");
    let expected = trio.members[leader].as_ref().unwrap().has(40).await.batches;
    assert_eq!(told.batches[..40], expected[..40]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_restarts_from_its_snapshot_and_what_follows() {
    let mut trio = Trio::start().await;
    for n in 0..30 {
        trio.commit(format!("batch {n}")).await;
    }
    let (leader, _) = trio.leader().await;
    trio.members[leader]
        .as_ref()
        .unwrap()
        .quorum
        .take_snapshot()
        .await;
    trio.members[leader].as_ref().unwrap().purged_behind(20).await;
    trio.commit("behind the snapshot".into()).await;
    let expected = trio.members[leader].as_ref().unwrap().has(31).await.batches;
    trio.leave(leader).await;

    trio.come_back(leader, &format!("disk-{leader}")).await;

    assert_eq!(
        trio.members[leader].as_ref().unwrap().has(31).await.batches,
        expected
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_an_earlier_leader_left_without_its_vote_gets_it_back() {
    let trio = Trio::start().await;
    trio.commit("first".into()).await;
    let (leader, _) = trio.leader().await;
    let left = u64::try_from((leader + 1) % 3).unwrap();
    let quorum = &trio.members[leader].as_ref().unwrap().quorum;
    let only = std::collections::BTreeSet::from([left]);
    let removal = openraft::ChangeMembers::RemoveVoters(only);
    quorum.raft.change_membership(removal, true).await.unwrap();

    let votes = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        while quorum.members().iter().filter(|member| member.votes).count() < 3 {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, votes)
        .await
        .expect("it votes again");
}

impl Member {
    /// Waits until the log begins behind an index.
    async fn purged_behind(&self, index: u64) {
        let asking = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(5));
            while self
                .quorum
                .store
                .purged()
                .is_none_or(|purged| purged.index < index)
            {
                ticks.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, asking)
            .await
            .expect("the log is purged behind a snapshot");
    }
}

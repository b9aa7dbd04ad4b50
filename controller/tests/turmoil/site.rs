//! What outlives a process: its disks, whose they are, and what was seen of it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use controller::quorum::log_backend::{Loaded, PURGED, VOTE};
use controller::quorum::mem_backend::MemMedium;
use controller::quorum::{Layout, Timing};
use host::{Disk, SimDisk};
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use crate::history::{At, Fact, History, Log};
use crate::net::PORT;

/// How a quorum of the simulation keeps time, and how soon it forgets its log.
pub const TIMING: Timing = Timing {
    election_shortest: Duration::from_millis(150),
    election_longest: Duration::from_millis(300),
    snapshot_bytes: 4 * 1024,
    snapshot_age: Some(Duration::from_secs(5)),
    entries_kept: 20,
};

/// Something asked of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Hand the lead over, if it has it.
    HandOver,
    /// Take a snapshot.
    Snapshot,
    /// Stop in order, handing the lead over first, and start again.
    Roll,
    /// Stop without a word, and start again at once: a leader comes back as itself.
    RestartInPlace,
}

/// The place of one controller.
pub struct Site {
    /// The log.
    pub medium: MemMedium,
    /// Floor and snapshots.
    pub disk: SimDisk,
    /// Which disk it is.
    pub directory: String,
    /// The cluster that its disk belongs to.
    pub cluster_id: Option<String>,
    /// Disks that were taken away.
    pub lost: Vec<MemMedium>,
    /// Processes that ran here.
    pub lives: u32,
    /// The way to the one that runs.
    pub orders: Option<UnboundedSender<Order>>,
    /// What it says of itself.
    pub shown: Shown,
    vote_seen: Option<(u64, u64, bool)>,
}

/// What a process says of itself.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The term that it leads.
    pub leads: Option<u64>,
    /// The end of what it published.
    pub end: Option<i64>,
    /// Directories of the voters, if it leads.
    pub voters: Vec<String>,
}

/// All sites, and the history.
pub struct World {
    /// The seed of the run.
    pub seed: u64,
    /// Names and addresses.
    pub voters: BTreeMap<u64, String>,
    /// By controller.
    pub sites: Vec<Mutex<Site>>,
    history: Mutex<History>,
    now_ms: AtomicU64,
    /// Disk latency is multiplied by this, by controller.
    pub slowness: Vec<AtomicU64>,
    /// Snapshots given to followers.
    pub installs: AtomicUsize,
}

/// The id of a controller.
pub fn id(at: At) -> i32 {
    101 + i32::try_from(at).expect("few controllers")
}

/// Its name in the network.
pub fn name(at: At) -> String {
    format!("controller-{}", id(at))
}

impl Site {
    fn new(at: At, disks: usize) -> Site {
        Site {
            medium: MemMedium::default(),
            disk: SimDisk::new(),
            directory: format!("disk-{at}-{disks}"),
            cluster_id: None,
            lost: Vec::new(),
            lives: 0,
            orders: None,
            shown: Shown::default(),
            vote_seen: None,
        }
    }

    /// Where its files are.
    pub fn layout() -> Layout {
        Layout::below(Path::new("/metadata"))
    }

    /// Only what was synced is left.
    pub fn lose_power(&mut self, seed: u64) {
        self.medium.lose_power();
        self.disk.crash(seed);
    }

    /// An empty disk takes the place of this one.
    pub fn lose_disk(&mut self, at: At) {
        let mut lost = std::mem::take(&mut self.lost);
        lost.push(self.medium.clone());
        let (lives, orders) = (self.lives, self.orders.take());
        *self = Site::new(at, lost.len());
        (self.lost, self.lives, self.orders) = (lost, lives, orders);
    }

    /// The log as it is written.
    pub fn log(&self) -> Log {
        log_of(&self.medium.written())
    }

    /// Whether a disk of this place keeps the entry of a position durably.
    fn keeps(&self, position: u64, term: u64) -> bool {
        let is_it = |bytes: &Bytes| number(bytes, 0) == Some(term);
        let mut media = self.lost.iter().chain([&self.medium]);
        media.any(|medium| medium.keeps(position - 1, is_it))
    }
}

fn number(bytes: &Bytes, from: usize) -> Option<u64> {
    let eight = bytes.get(from..)?.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*eight))
}

fn log_of(loaded: &Loaded) -> Log {
    let purged = loaded.meta(PURGED).and_then(|id| number(id, 8));
    let begin = purged.map_or(0, |index| index + 1);
    let entry = |(index, bytes): &(u64, Bytes)| {
        let term = number(bytes, 0).unwrap_or_default();
        (*index, (term, crc32c::crc32c(bytes)))
    };
    let entries = loaded.entries.iter().map(entry);
    Log {
        begin,
        entries: entries.filter(|(index, _)| begin <= *index).collect(),
    }
}

impl World {
    /// A world of so many controllers, none of which has ever run.
    pub fn new(seed: u64, controllers: usize) -> Arc<World> {
        let address = |at| {
            (
                u64::try_from(id(at)).expect("positive"),
                format!("{}:{PORT}", name(at)),
            )
        };
        Arc::new(World {
            seed,
            voters: (0..controllers).map(address).collect(),
            sites: (0..controllers).map(|at| Mutex::new(Site::new(at, 0))).collect(),
            history: Mutex::default(),
            now_ms: AtomicU64::new(0),
            slowness: (0..controllers).map(|_| AtomicU64::new(1)).collect(),
            installs: AtomicUsize::new(0),
        })
    }

    /// How many disks are more than half of them.
    pub fn majority(&self) -> usize {
        self.sites.len() / 2 + 1
    }

    /// Time goes on.
    pub fn now(&self, elapsed: Duration) {
        let now_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Notes what was seen.
    pub fn note(&self, fact: Fact) {
        let now = Duration::from_millis(self.now_ms.load(Ordering::Relaxed));
        self.history.lock().note(now, fact);
    }

    /// What was seen so far, once nobody looks any more.
    pub fn history(&self) -> History {
        std::mem::take(&mut *self.history.lock())
    }

    /// How many disks would keep an entry if the power failed everywhere now.
    pub fn durable_on(&self, position: u64, term: u64) -> usize {
        let sites = self.sites.iter();
        sites.filter(|site| site.lock().keeps(position, term)).count()
    }

    /// Looks at every disk for votes that became durable.
    pub fn look_at_votes(&self) {
        for site in &self.sites {
            let mut site = site.lock();
            let vote = site
                .medium
                .durable_meta(VOTE)
                .and_then(|vote| Some((number(&vote, 0)?, number(&vote, 8)?, *vote.get(16)? != 0)));
            if vote != site.vote_seen
                && let Some((term, candidate, won)) = vote
            {
                site.vote_seen = vote;
                self.note(Fact::Voted {
                    directory: site.directory.clone(),
                    term,
                    candidate,
                    won,
                });
            }
        }
    }

    /// Looks at every log.
    pub fn look_at_logs(&self) {
        for (at, site) in self.sites.iter().enumerate() {
            let log = site.lock().log();
            self.note(Fact::Logged { at, log });
        }
    }

    /// The controller that says that it leads the newest term.
    pub fn leader(&self) -> Option<At> {
        let leads = |at: &At| self.sites[*at].lock().shown.leads;
        (0..self.sites.len())
            .filter(|at| leads(at).is_some())
            .max_by_key(leads)
    }

    /// The disk of a controller, as the product takes it.
    pub fn disk(&self, at: At) -> Arc<dyn Disk> {
        Arc::new(self.sites[at].lock().disk.clone())
    }

    /// Puts the cluster's id on the disk of a controller.
    pub fn join(&self, at: At, cluster_id: &str) -> io::Result<()> {
        self.sites[at].lock().cluster_id = Some(cluster_id.to_owned());
        Ok(())
    }
}

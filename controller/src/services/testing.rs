//! What tests of those who look at a desk begin with.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::{Disk, OsClock, OsDisk, OsEntropy};
use metadata::ids::{ControllerId, Term};
use metadata::image::Image;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::Desk;
use crate::inbox::Inbox;
use crate::published::Published;
use crate::quorum::{Addressing, Layout, Opened, Quorum, Timing};
use crate::space::Space;

/// The desk of a controller that leads itself.
pub async fn desk(dir: &Path, active: watch::Receiver<Option<Term>>, space: watch::Receiver<Space>) -> Desk {
    let (disk, entropy): (Arc<dyn Disk>, _) = (Arc::new(OsDisk), Arc::new(OsEntropy));
    let voters = BTreeMap::from([(1, "127.0.0.1:1".to_owned())]);
    let addressing = Addressing::new(ControllerId(1), "disk".into(), voters, None, Box::new(|_| Ok(())));
    let timing = Timing {
        election_shortest: Duration::from_millis(150),
        election_longest: Duration::from_millis(300),
        snapshot_bytes: u64::MAX,
        snapshot_age: None,
        entries_kept: 3,
    };
    let opened = Opened::at(&disk, &Layout::below(dir)).unwrap();
    let (committed, _) = mpsc::unbounded_channel();
    let starting = Quorum::start(opened, Arc::new(addressing), timing, entropy.clone(), committed);
    let (quorum, _) = starting.await.unwrap();
    quorum.found().await.unwrap();
    let mut changes = quorum.changes();
    while quorum.standing().leads().is_none() {
        changes.next().await;
    }
    let clock = Arc::new(OsClock::new());
    Desk {
        inbox: Inbox::new(clock.clone(), active, space).0,
        published: Arc::new(Published::new(Image::default())),
        quorum,
        entropy,
        clock,
        quarantine: Arc::new(Mutex::new(None)),
        progress_interval: Duration::from_secs(1),
        observers: Mutex::default(),
    }
}

//! What is done from time to time: checkpoints, retention, removal of files whose time has come.
//!
//! Must not: run on a network worker while it waits for a disk.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tracing::{error, warn};

use crate::storage::dirs::{Dirs, Marks};
use crate::storage::lane::{Event, LaneHandle};
use crate::storage::shared::Doomed;

/// How often recovery points and log starts are written (L-23).
const RECOVERY_INTERVAL: Duration = Duration::from_secs(60);
/// When old segments are looked for the first time (3.7).
const FIRST_RETENTION: Duration = Duration::from_secs(30);

/// Writes watermarks down until the node stops.
pub async fn high_watermarks(lanes: Vec<LaneHandle>, dirs: Arc<Dirs>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let marks = marks(&lanes).await;
        written("watermarks", &dirs, move |dirs| {
            dirs.write_high_watermarks(&marks)
        })
        .await;
    }
}

/// Writes recovery points and log starts down until the node stops.
pub async fn recovery_points(lanes: Vec<LaneHandle>, dirs: Arc<Dirs>) {
    loop {
        tokio::time::sleep(RECOVERY_INTERVAL).await;
        let marks = marks(&lanes).await;
        written("recovery points", &dirs, move |dirs| dirs.write_recovery(&marks)).await;
    }
}

async fn marks(lanes: &[LaneHandle]) -> Vec<Marks> {
    let mut all = Vec::new();
    for lane in lanes {
        let (reply, marks) = oneshot::channel();
        lane.send(Event::Marks(reply));
        // A lane that has ended has written its marks itself.
        all.extend(marks.await.unwrap_or_default());
    }
    all
}

async fn written(
    what: &'static str,
    dirs: &Arc<Dirs>,
    write: impl FnOnce(&Dirs) -> Result<(), partition_log::LogFault> + Send + 'static,
) {
    let dirs = Arc::clone(dirs);
    match tokio::task::spawn_blocking(move || write(&dirs)).await {
        // A fault is told where it comes up.
        Ok(_) => {}
        Err(error) => error!(what, %error, "a checkpoint was not written"),
    }
}

/// Lets the lanes delete what retention allows, until the node stops.
pub async fn retention(lanes: Vec<LaneHandle>, interval: Duration) {
    tokio::time::sleep(FIRST_RETENTION.min(interval)).await;
    loop {
        for lane in &lanes {
            lane.send(Event::Retain);
        }
        tokio::time::sleep(interval).await;
    }
}

/// Removes files when their time has come.
pub async fn removals(dirs: Arc<Dirs>, mut doomed: UnboundedReceiver<(Duration, Doomed)>) {
    while let Some((delay, doomed)) = doomed.recv().await {
        let dirs = Arc::clone(&dirs);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let removed = tokio::task::spawn_blocking(move || remove(&dirs, doomed)).await;
            if let Ok(Err(error)) = removed {
                warn!(%error, "files of a deleted log stay behind");
            }
        });
    }
}

fn remove(dirs: &Dirs, doomed: Doomed) -> Result<(), String> {
    match doomed {
        Doomed::Partition(dir, path) => dirs.remove(dir, &path).map_err(|fault| fault.to_string()),
        Doomed::Files(paths) => paths
            .iter()
            .try_for_each(|path| dirs.host().disk.remove_file(path))
            .map_err(|error| error.to_string()),
    }
}

//! The consensus library's own suite for logs and state machines, on every backend.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use host::OsDisk;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::log_backend::LogBackend;
use super::machine::{Committed, Machine};
use super::mem_backend::MemMedium;
use super::sled_backend::SledBackend;
use super::snapshots::{DiskWork, Dump, Snapshots};
use super::store::LogStore;
use super::types::TypeConfig;

struct Builder<F>(F);

impl<B: LogBackend, F: Fn(&TempDir) -> B + Send + Sync> StoreBuilder<TypeConfig, LogStore, Machine, TempDir>
    for Builder<F>
{
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let store = LogStore::open(self.0(&dir), &OsDisk, &dir.path().join("floor")).unwrap();
        let snapshots =
            Snapshots::open(Arc::new(OsDisk), &dir.path().join("snapshots"), DiskWork::Threads).unwrap();
        let (driver, mut committed) = mpsc::unbounded_channel();
        let (machine, _) = Machine::new(snapshots, None, driver);
        tokio::spawn(async move {
            while let Some(next) = committed.recv().await {
                if let Committed::Capture(asked) = next {
                    let _ = asked.send(Box::new(Dump::default));
                }
            }
        });
        Ok((dir, store, machine))
    }
}

#[test]
fn the_librarys_suite_passes_in_memory() {
    Suite::test_all_in(Builder(|_: &TempDir| MemMedium::default().open()));
}

#[test]
fn the_librarys_suite_passes_on_sled() {
    Suite::test_all_in(Builder(|dir: &TempDir| {
        SledBackend::open(&OsDisk, &dir.path().join("raft")).unwrap()
    }));
}

/// Runs a suite on a runtime of its own.
trait TestAllIn<B> {
    fn test_all_in(builder: B);
}

impl<B> TestAllIn<B> for Suite<TypeConfig, LogStore, Machine, B, TempDir>
where
    B: StoreBuilder<TypeConfig, LogStore, Machine, TempDir>,
{
    fn test_all_in(builder: B) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(Self::test_all(builder)).unwrap();
    }
}

//! A store in memory that tells written from durable, so that a power loss can be played.
//!
//! For tests and simulation; never behind a running controller.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::log_backend::{Batch, Loaded, LogBackend, MetaKey, PURGED, assert_dense};
use super::types::decode_log_id;

#[derive(Clone, Debug, Default)]
struct Contents {
    entries: BTreeMap<u64, Bytes>,
    meta: BTreeMap<MetaKey, Bytes>,
}

impl Contents {
    fn loaded(&self) -> Loaded {
        let copied = |(index, bytes): (&u64, &Bytes)| (*index, bytes.clone());
        let named = |(key, bytes): (&MetaKey, &Bytes)| (*key, bytes.clone());
        Loaded {
            entries: self.entries.iter().map(copied).collect(),
            meta: self.meta.iter().map(named).collect(),
        }
    }

    fn purged_upto(&self) -> Option<u64> {
        let purged = self.meta.get(PURGED)?;
        decode_log_id(purged).ok().map(|id| id.index)
    }
}

/// The medium: outlives the backends opened on it.
#[derive(Clone, Debug, Default)]
pub struct MemMedium {
    sides: Arc<Mutex<Sides>>,
    before_sync: BeforeSync,
}

/// Called with nothing locked, just before what was written becomes durable.
#[derive(Clone, Default)]
struct BeforeSync(Arc<Mutex<Option<Watcher>>>);

type Watcher = Box<dyn FnMut() + Send>;

impl std::fmt::Debug for BeforeSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BeforeSync")
    }
}

#[derive(Debug, Default)]
struct Sides {
    written: Contents,
    durable: Contents,
}

impl MemMedium {
    /// What is left when the power fails now: what was synced, on a medium of its own.
    #[must_use]
    pub fn durable_copy(&self) -> MemMedium {
        let durable = self.sides.lock().durable.clone();
        let sides = Sides {
            written: durable.clone(),
            durable,
        };
        MemMedium {
            sides: Arc::new(Mutex::new(sides)),
            before_sync: BeforeSync::default(),
        }
    }

    /// The power fails: what was not synced is gone.
    pub fn lose_power(&self) {
        let mut sides = self.sides.lock();
        sides.written = sides.durable.clone();
    }

    /// What a reader finds now.
    #[must_use]
    pub fn written(&self) -> Loaded {
        self.sides.lock().written.loaded()
    }

    /// One small value that a power loss would leave.
    #[must_use]
    pub fn durable_meta(&self, key: MetaKey) -> Option<Bytes> {
        self.sides.lock().durable.meta.get(key).cloned()
    }

    /// Whether a power loss would leave the entry of this index with these bytes, or a mark that it was purged.
    #[must_use]
    pub fn keeps(&self, index: u64, entry: impl FnOnce(&Bytes) -> bool) -> bool {
        let sides = self.sides.lock();
        let held = sides.durable.entries.get(&index);
        held.is_some_and(entry) || sides.durable.purged_upto().is_some_and(|purged| index <= purged)
    }

    /// Calls `watcher` on the writer's thread just before every sync.
    pub fn watch_syncs(&self, watcher: impl FnMut() + Send + 'static) {
        *self.before_sync.0.lock() = Some(Box::new(watcher));
    }

    /// Opens the store on it.
    pub fn open(&self) -> MemBackend {
        MemBackend { medium: self.clone() }
    }
}

/// A [`LogBackend`] on a [`MemMedium`].
#[derive(Debug)]
pub struct MemBackend {
    medium: MemMedium,
}

impl LogBackend for MemBackend {
    fn load(&mut self) -> io::Result<Loaded> {
        let loaded = self.medium.written();
        assert_dense(&loaded.entries)?;
        Ok(loaded)
    }

    fn apply(&mut self, batch: &Batch) -> io::Result<()> {
        let mut sides = self.medium.sides.lock();
        let written = &mut sides.written;
        if let Some(from) = batch.truncate_from {
            written.entries.retain(|index, _| *index < from);
        }
        if let Some(upto) = batch.purge_upto {
            written.entries.retain(|index, _| upto < *index);
        }
        written.entries.extend(batch.append.iter().cloned());
        written.meta.extend(batch.meta.iter().cloned());
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(watcher) = self.medium.before_sync.0.lock().as_mut() {
            watcher();
        }
        let mut sides = self.medium.sides.lock();
        sides.durable = sides.written.clone();
        Ok(())
    }
}

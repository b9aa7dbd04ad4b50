//! A store in memory that tells written from durable, so that a power loss can be played.
//!
//! For tests and simulation; never behind a running controller.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::log_backend::{Batch, Loaded, LogBackend, MetaKey, assert_dense};

#[derive(Clone, Debug, Default)]
struct Contents {
    entries: BTreeMap<u64, Bytes>,
    meta: BTreeMap<MetaKey, Bytes>,
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
        let sides = self.medium.sides.lock();
        let copied = |(key, bytes): (&u64, &Bytes)| (*key, bytes.clone());
        let entries: Vec<_> = sides.written.entries.iter().map(copied).collect();
        assert_dense(&entries)?;
        let meta = sides.written.meta.iter();
        Ok(Loaded {
            entries,
            meta: meta.map(|(key, bytes)| (*key, bytes.clone())).collect(),
        })
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

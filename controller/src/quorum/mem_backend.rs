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
}

#[derive(Debug, Default)]
struct Sides {
    written: Contents,
    durable: Contents,
}

impl MemMedium {
    /// The power fails: what was not synced is gone.
    pub fn lose_power(&self) {
        let mut sides = self.sides.lock();
        sides.written = sides.durable.clone();
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
        let mut sides = self.medium.sides.lock();
        sides.durable = sides.written.clone();
        Ok(())
    }
}

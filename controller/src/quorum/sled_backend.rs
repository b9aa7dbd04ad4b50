//! The durable store on sled, by a recipe that its crash tests led to:
//!
//! - `flush` of sled 0.34 never calls `fsync`: a second handle on its file does, after every flush;
//! - values above a quarter segment go to files that are never synced: segments are 4 MiB, values at most 16 KiB;
//! - only writes to one tree are atomic: log and small values share one, told apart by a prefix;
//! - a damaged tail can open with holes: every entry carries length and checksum, and the indexes must be dense;
//! - opening a damaged file may panic: the panic is caught and becomes an error.
//!
//! Keys: `l`, first index, part (big-endian `u64`, `u32`). The parts of one first index, joined, are frames
//! `[length u32][crc32c u32][entry]`, one behind the other. `m` and a name: a small value.
//!
//! Must not be called from an async task: every call may block on the disk.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use host::{Disk, File, OpenHow};

use super::log_backend::{Batch, COMMITTED, Loaded, LogBackend, MetaKey, PURGED, VOTE, assert_dense};
use super::types::damaged;

const VALUE_BYTES_MAX: usize = 16 * 1024;
const SEGMENT_BYTES: usize = 4 * 1024 * 1024;
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
const FRAME_HEADER_BYTES: usize = 8;
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
const LOG: u8 = b'l';
const META: u8 = b'm';

/// A [`LogBackend`] on sled.
pub struct SledBackend {
    // Dropped before `file`: closing writes.
    tree: sled::Tree,
    db: sled::Db,
    file: Arc<dyn File>,
    /// First index of every chunk, with its last index and its number of parts.
    chunks: BTreeMap<u64, Chunk>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    last: u64,
    parts: u32,
}

impl SledBackend {
    /// Opens the store in `dir`, which sled creates if it is missing.
    ///
    /// # Errors
    /// Whatever sled says or panics with: the store is then damaged, or held by another process.
    pub fn open(disk: &dyn Disk, dir: &Path) -> io::Result<SledBackend> {
        let config = sled::Config::new()
            .path(dir)
            .segment_size(SEGMENT_BYTES)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None)
            .mode(sled::Mode::HighThroughput);
        let (db, tree) = opened(&config)?;
        let file = disk.open(&dir.join("db"), OpenHow::Write)?;
        disk.sync_dir(dir)?;
        if let Some(parent) = dir.parent() {
            disk.sync_dir(parent)?;
        }
        Ok(SledBackend {
            tree,
            db,
            file,
            chunks: BTreeMap::new(),
        })
    }

    /// The bytes of one chunk, its parts joined.
    fn chunk(&self, first: u64, chunk: Chunk) -> io::Result<Bytes> {
        let mut joined = BytesMut::new();
        for part in 0..chunk.parts {
            let value = self.tree.get(log_key(first, part)).map_err(io::Error::other)?;
            joined.put_slice(&value.ok_or_else(|| damaged("a part of a chunk is gone"))?);
        }
        Ok(joined.freeze())
    }

    /// Takes entries from `from` on out of the store.
    fn truncate(&mut self, from: u64, out: &mut sled::Batch) -> io::Result<()> {
        for (first, chunk) in self.chunks.split_off(&from) {
            remove_chunk(out, first, chunk);
        }
        let straddling = self
            .chunks
            .last_key_value()
            .map(|(first, chunk)| (*first, *chunk));
        if let Some((first, chunk)) = straddling
            && from <= chunk.last
        {
            let mut kept = frames(&self.chunk(first, chunk)?, first)?;
            kept.retain(|(index, _)| *index < from);
            remove_chunk(out, first, chunk);
            self.chunks.remove(&first);
            self.append(&kept, out);
        }
        Ok(())
    }

    /// Takes whole chunks that end at or before `upto` out. A chunk that goes beyond stays until it does not.
    fn purge(&mut self, upto: u64, out: &mut sled::Batch) {
        let gone: Vec<_> = self
            .chunks
            .iter()
            .take_while(|(_, chunk)| chunk.last <= upto)
            .map(|(first, chunk)| (*first, *chunk))
            .collect();
        for (first, chunk) in gone {
            remove_chunk(out, first, chunk);
            self.chunks.remove(&first);
        }
    }

    /// Packs entries into chunks; one that is larger than a value stands alone, cut into parts.
    fn append(&mut self, entries: &[(u64, Bytes)], out: &mut sled::Batch) {
        let mut open = BytesMut::new();
        let mut first = None;
        for (index, entry) in entries {
            let framed = FRAME_HEADER_BYTES + entry.len();
            if let Some(begun) = first
                && VALUE_BYTES_MAX < open.len() + framed
            {
                self.put_chunk(begun, index - 1, &open.split(), out);
                first = None;
            }
            first.get_or_insert(*index);
            open.put_u32(u32::try_from(entry.len()).expect("an entry is limited to a few MiB"));
            open.put_u32(crc32c::crc32c(entry));
            open.put_slice(entry);
        }
        if let (Some(begun), Some((last, _))) = (first, entries.last()) {
            self.put_chunk(begun, *last, &open, out);
        }
    }

    fn put_chunk(&mut self, first: u64, last: u64, bytes: &[u8], out: &mut sled::Batch) {
        let mut parts = 0;
        for piece in bytes.chunks(VALUE_BYTES_MAX) {
            out.insert(&log_key(first, parts), piece);
            parts += 1;
        }
        self.chunks.insert(first, Chunk { last, parts });
    }
}

impl LogBackend for SledBackend {
    fn load(&mut self) -> io::Result<Loaded> {
        let tree = self.tree.clone();
        let pairs = caught(|| tree.iter().collect::<Result<Vec<_>, _>>())?;
        let mut loaded = Loaded::default();
        let mut joined: BTreeMap<u64, (u32, BytesMut)> = BTreeMap::new();
        for (key, value) in pairs {
            match key.split_first() {
                Some((&LOG, rest)) => {
                    let (first, part) = parse_log_key(rest)?;
                    let chunk = joined.entry(first).or_default();
                    if chunk.0 != part {
                        return Err(damaged(&format!("chunk {first} lacks its part {}", chunk.0)));
                    }
                    chunk.0 += 1;
                    chunk.1.put_slice(&value);
                }
                Some((&META, name)) => loaded
                    .meta
                    .push((meta_key(name)?, Bytes::copy_from_slice(&value))),
                _ => return Err(damaged("a key of unknown kind")),
            }
        }
        self.chunks.clear();
        for (first, (parts, bytes)) in joined {
            let entries = frames(&bytes.freeze(), first)?;
            let (last, _) = entries.last().ok_or_else(|| damaged("an empty chunk"))?;
            self.chunks.insert(first, Chunk { last: *last, parts });
            loaded.entries.extend(entries);
        }
        assert_dense(&loaded.entries)?;
        Ok(loaded)
    }

    fn apply(&mut self, batch: &Batch) -> io::Result<()> {
        let mut out = sled::Batch::default();
        if let Some(from) = batch.truncate_from {
            self.truncate(from, &mut out)?;
        }
        if let Some(upto) = batch.purge_upto {
            self.purge(upto, &mut out);
        }
        self.append(&batch.append, &mut out);
        for (name, value) in &batch.meta {
            let mut key = vec![META];
            key.extend_from_slice(name.as_bytes());
            out.insert(key, value.as_ref());
        }
        let tree = &self.tree;
        caught(|| tree.apply_batch(out))
    }

    fn sync(&mut self) -> io::Result<()> {
        let db = &self.db;
        caught(|| db.flush())?;
        self.file.sync_data()
    }
}

/// Opens the tree. A handle of this process that was just dropped keeps sled's lock until sled's own threads have
/// ended, so a held lock is waited for; that no other process is here, the lock of the directory has made sure.
fn opened(config: &sled::Config) -> io::Result<(sled::Db, sled::Tree)> {
    let mut tries = 1;
    loop {
        let result = caught(|| {
            let db = config.open()?;
            let tree = db.open_tree("raft")?;
            Ok((db, tree))
        });
        match result {
            Err(error) if tries < LOCK_TRIES && error.to_string().contains("could not acquire lock") => {
                tries += 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            done => return done,
        }
    }
}

/// Runs a call into sled; its errors and panics become IO errors.
fn caught<T>(call: impl FnOnce() -> sled::Result<T>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(io::Error::other),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err(damaged(&format!(
                "the store is damaged beyond reading: {}",
                text.unwrap_or("a panic without words")
            )))
        }
    }
}

fn remove_chunk(out: &mut sled::Batch, first: u64, chunk: Chunk) {
    for part in 0..chunk.parts {
        out.remove(&log_key(first, part));
    }
}

fn log_key(first: u64, part: u32) -> [u8; 13] {
    let mut key = [LOG; 13];
    key[1..9].copy_from_slice(&first.to_be_bytes());
    key[9..].copy_from_slice(&part.to_be_bytes());
    key
}

fn parse_log_key(rest: &[u8]) -> io::Result<(u64, u32)> {
    let (Some(first), Some(part), 12) = (rest.first_chunk::<8>(), rest.last_chunk::<4>(), rest.len()) else {
        return Err(damaged("a log key of the wrong length"));
    };
    Ok((u64::from_be_bytes(*first), u32::from_be_bytes(*part)))
}

fn meta_key(name: &[u8]) -> io::Result<MetaKey> {
    [VOTE, PURGED, COMMITTED]
        .into_iter()
        .find(|key| key.as_bytes() == name)
        .ok_or_else(|| damaged("a small value of unknown name"))
}

/// Cuts a chunk into its entries and checks each.
fn frames(chunk: &Bytes, first: u64) -> io::Result<Vec<(u64, Bytes)>> {
    let mut entries = Vec::new();
    let mut index = first;
    let mut at = 0;
    while at < chunk.len() {
        let word = |at: usize| {
            chunk
                .get(at..at + 4)
                .and_then(|bytes| bytes.first_chunk::<4>().copied())
        };
        let (Some(length), Some(crc)) = (word(at), word(at + 4)) else {
            return Err(damaged(&format!("entry {index} has no whole header")));
        };
        let begin = at + FRAME_HEADER_BYTES;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        let end = begin.checked_add(length).filter(|end| *end <= chunk.len());
        let end = end.ok_or_else(|| damaged(&format!("entry {index} is cut short")))?;
        let entry = chunk.slice(begin..end);
        if crc32c::crc32c(&entry) != u32::from_be_bytes(crc) {
            return Err(damaged(&format!("entry {index} does not fit its checksum")));
        }
        entries.push((index, entry));
        index += 1;
        at = end;
    }
    Ok(entries)
}

//! A disk in memory that forgets what was not synced.
//!
//! Every inode keeps its *live* bytes, which any reader sees, and its *durable* bytes, which a crash leaves,
//! with the writes in between in order; names likewise. Two kinds of end exist: a killed process loses nothing
//! (drop the handles, keep the disk), a power loss is [`SimDisk::crash`]. Deterministic: the same calls and
//! seeds give the same bytes.
//!
//! Must not: be more forgiving than a real disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Disk, Entropy, EntryKind, File, LockGuard, OpenHow, PathEntry, SeededEntropy, WallMs};

/// What the next sync of a file does, see [`SimDisk::fail_next_sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFault {
    /// It fails, and what it should have saved stays unsynced.
    Fails,
    /// It reports success and saves nothing, as a lying drive does.
    Lies,
}

/// A file system in memory. Clones share the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

type Inode = u64;

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, Name>,
    durable_names: BTreeMap<PathBuf, Name>,
    unsynced_names: Vec<NameChange>,
    files: BTreeMap<Inode, Contents>,
    next_inode: Inode,
    /// Raised by a crash: handles and locks of an earlier boot are dead.
    boot: u64,
    locked: BTreeSet<PathBuf>,
    capacity_bytes: Option<u64>,
    sync_fault: Option<SyncFault>,
    /// The next write to a file whose name ends so is damaged: this bit of its last byte.
    damage: Option<(&'static str, u8)>,
    wall: WallMs,
    counts: Counts,
}

/// How often the disk was asked; for tests that must see a path taken.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    writes: u64,
    syncs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Directory,
    File(Inode),
}

#[derive(Clone, Debug)]
enum NameChange {
    Create(PathBuf, Name),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Contents {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Write>,
    modified: WallMs,
}

#[derive(Clone, Debug)]
enum Write {
    Bytes { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Write {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Write::SetLen(len) => to.resize(*len, 0),
            Write::Bytes { at, bytes } => {
                let end = at + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*at..end].copy_from_slice(bytes);
            }
        }
    }
}

impl SimDisk {
    /// An empty disk without a limit.
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    /// Power loss and restart. Of every file the synced bytes stay, and of the unsynced writes a prefix that the
    /// seed chooses, the last of them sometimes torn; of the unsynced names likewise a prefix. Handles and locks
    /// from before are dead.
    pub fn crash(&self, seed: u64) {
        let entropy = SeededEntropy::new(seed);
        let mut state = self.state();
        let state = &mut *state;
        for contents in state.files.values_mut() {
            let unsynced = std::mem::take(&mut contents.unsynced);
            let kept = entropy.below(unsynced.len() as u64 + 1) as usize;
            for write in &unsynced[..kept] {
                write.apply(&mut contents.durable);
            }
            if let Some(Write::Bytes { at, bytes }) = unsynced.get(kept)
                && entropy.below(2) == 0
            {
                let torn = entropy.below(bytes.len() as u64 + 1) as usize;
                Write::Bytes {
                    at: *at,
                    bytes: bytes[..torn].to_vec(),
                }
                .apply(&mut contents.durable);
            }
            contents.live.clone_from(&contents.durable);
        }
        let changes = std::mem::take(&mut state.unsynced_names);
        let kept = entropy.below(changes.len() as u64 + 1) as usize;
        for change in &changes[..kept] {
            change.apply(&mut state.durable_names);
        }
        state.names.clone_from(&state.durable_names);
        state.locked.clear();
        state.sync_fault = None;
        state.boot += 1;
    }

    /// From now on writes that would need more than this many bytes in all files together fail with
    /// `StorageFull`, after a prefix was written; `None` lifts the limit.
    pub fn set_capacity(&self, capacity_bytes: Option<u64>) {
        self.state().capacity_bytes = capacity_bytes;
    }

    /// Sets what the next sync of a file does; it is used up by it.
    pub fn fail_next_sync(&self, fault: SyncFault) {
        self.state().sync_fault = Some(fault);
    }

    /// Flips one bit of a file, as a failing medium does: readers and crashes see it alike.
    ///
    /// # Errors
    /// `NotFound` without such a file, `UnexpectedEof` behind its end.
    pub fn flip_bit(&self, path: &Path, at: u64, bit: u8) -> io::Result<()> {
        let mut state = self.state();
        let contents = state.contents_of(path)?;
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let byte = contents.live.get_mut(at).ok_or(io::ErrorKind::UnexpectedEof)?;
        *byte ^= 1 << (bit % 8);
        if let Some(byte) = contents.durable.get_mut(at) {
            *byte ^= 1 << (bit % 8);
        }
        // What is written out later is what readers see.
        for write in &mut contents.unsynced {
            if let Write::Bytes { at: begins, bytes } = write
                && let Some(byte) = at.checked_sub(*begins).and_then(|at| bytes.get_mut(at))
            {
                *byte ^= 1 << (bit % 8);
            }
        }
        Ok(())
    }

    /// The next write to a file whose name ends so arrives with one bit of its last byte flipped, and nobody is told.
    pub fn damage_next_write(&self, name_ends: &'static str, bit: u8) {
        self.state().damage = Some((name_ends, bit));
    }

    /// Sets the time that changed files get.
    pub fn set_wall(&self, wall: WallMs) {
        self.state().wall = wall;
    }

    /// Writes and syncs of file contents so far.
    pub fn writes_and_syncs(&self) -> (u64, u64) {
        let counts = self.state().counts;
        (counts.writes, counts.syncs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no caller panics while it holds the disk")
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Name>) {
        match self {
            NameChange::Create(path, name) => {
                names.insert(path.clone(), *name);
            }
            NameChange::Remove(path) => names.retain(|name, _| !name.starts_with(path)),
            NameChange::Rename(from, to) => {
                let moved: Vec<_> = names
                    .range(from.clone()..)
                    .map(|(p, n)| (p.clone(), *n))
                    .collect();
                for (path, name) in moved {
                    if let Ok(rest) = path.strip_prefix(from) {
                        names.remove(&path);
                        let target = if rest.as_os_str().is_empty() {
                            to.clone()
                        } else {
                            to.join(rest)
                        };
                        names.insert(target, name);
                    }
                }
            }
        }
    }
}

impl State {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    fn contents_of(&mut self, path: &Path) -> io::Result<&mut Contents> {
        match self.names.get(path) {
            Some(Name::File(inode)) => Ok(self
                .files
                .get_mut(inode)
                .expect("a name of a file always has its inode")),
            Some(Name::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Bytes of the files that have a name; a removed file gives its space back at once.
    fn used_bytes(&self) -> u64 {
        let inodes = self.names.values().filter_map(|name| match name {
            Name::File(inode) => self.files.get(inode),
            Name::Directory => None,
        });
        inodes.map(|contents| contents.live.len() as u64).sum()
    }

    /// How many of the bytes `[at, end)` may be written to a file of this length.
    fn room(&self, len: u64, at: u64, end: u64) -> u64 {
        let Some(capacity) = self.capacity_bytes else {
            return end - at;
        };
        let free = capacity.saturating_sub(self.used_bytes());
        (len + free).clamp(at, end.max(at)) - at
    }

    /// Damages what is written to a file, if that was asked for.
    fn damage_once(&mut self, inode: Inode, bytes: &mut [u8]) {
        let (Some((name_ends, bit)), Some(last)) = (self.damage, bytes.last_mut()) else {
            return;
        };
        let is_it = |(path, name): (&PathBuf, &Name)| {
            let file_name = path.file_name().and_then(|name| name.to_str());
            *name == Name::File(inode) && file_name.is_some_and(|name| name.ends_with(name_ends))
        };
        if self.names.iter().any(is_it) {
            *last ^= 1 << (bit % 8);
            self.damage = None;
        }
    }

    fn parent_exists(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            None => Ok(()),
            Some(parent) if parent.as_os_str().is_empty() || parent == Path::new("/") => Ok(()),
            Some(parent) => match self.names.get(parent) {
                Some(Name::Directory) => Ok(()),
                Some(Name::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
                None => Err(io::ErrorKind::NotFound.into()),
            },
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: Inode,
    boot: u64,
    writable: bool,
}

impl SimFile {
    fn with<T>(&self, ask: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        if state.boot != self.boot {
            return Err(io::Error::other(
                "this handle was opened before the machine crashed",
            ));
        }
        ask(&mut state)
    }

    fn contents<'a>(&self, state: &'a mut State) -> &'a mut Contents {
        state
            .files
            .get_mut(&self.inode)
            .expect("an open handle keeps its inode")
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.with(|state| {
            let len = self.contents(state).live.len() as u64;
            let room = state.room(len, at, at + bytes.len() as u64) as usize;
            let wall = state.wall;
            state.counts.writes += 1;
            let mut bytes_kept = bytes[..room].to_vec();
            state.damage_once(self.inode, &mut bytes_kept);
            let write = Write::Bytes {
                at: usize::try_from(at).map_err(io::Error::other)?,
                bytes: bytes_kept,
            };
            let contents = self.contents(state);
            if 0 < room {
                write.apply(&mut contents.live);
                contents.unsynced.push(write);
                contents.modified = wall;
            }
            if room < bytes.len() {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        })
    }
}

impl File for SimFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.with(|state| {
            let live = &self.contents(state).live;
            let start = usize::try_from(at).unwrap_or(usize::MAX).min(live.len());
            let read = into.len().min(live.len() - start);
            into[..read].copy_from_slice(&live[start..start + read]);
            Ok(read)
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write(bytes, at)
    }

    fn write_vectored_at(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<()> {
        self.write(
            &parts
                .iter()
                .flat_map(|part| part.iter().copied())
                .collect::<Vec<u8>>(),
            at,
        )
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|state| Ok(self.contents(state).live.len() as u64))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let to = usize::try_from(len).map_err(io::Error::other)?;
        self.with(|state| {
            let from = self.contents(state).live.len() as u64;
            if from < len && state.room(from, from, len) < len - from {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let wall = state.wall;
            let contents = self.contents(state);
            contents.live.resize(to, 0);
            contents.unsynced.push(Write::SetLen(to));
            contents.modified = wall;
            Ok(())
        })
    }

    fn allocate(&self, _at: u64, _size_bytes: u64) -> io::Result<()> {
        self.with(|_| Ok(()))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state| {
            state.counts.syncs += 1;
            match state.sync_fault.take() {
                Some(SyncFault::Fails) => Err(io::Error::other("the sync failed, as it was told to")),
                Some(SyncFault::Lies) => Ok(()),
                None => {
                    let contents = self.contents(state);
                    contents.unsynced.clear();
                    contents.durable.clone_from(&contents.live);
                    Ok(())
                }
            }
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn modified(&self) -> io::Result<WallMs> {
        self.with(|state| Ok(self.contents(state).modified))
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let inode = match (state.names.get(path).copied(), how) {
            (Some(Name::Directory), _) => return Err(io::ErrorKind::IsADirectory.into()),
            (Some(Name::File(_)), OpenHow::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(Name::File(inode)), _) => inode,
            (None, OpenHow::Read | OpenHow::Write) => return Err(io::ErrorKind::NotFound.into()),
            (None, OpenHow::CreateOrWrite | OpenHow::CreateNew) => {
                state.parent_exists(path)?;
                let inode = state.next_inode;
                state.next_inode += 1;
                let modified = state.wall;
                state.files.insert(
                    inode,
                    Contents {
                        modified,
                        ..Contents::default()
                    },
                );
                state.change(NameChange::Create(path.to_owned(), Name::File(inode)));
                inode
            }
        };
        let boot = state.boot;
        drop(state);
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            inode,
            boot,
            writable: how != OpenHow::Read,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let name = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.parent_exists(to)?;
        match (name, state.names.get(to)) {
            (_, None) | (Name::File(_), Some(Name::File(_))) => {}
            (Name::File(_), Some(Name::Directory)) => return Err(io::ErrorKind::IsADirectory.into()),
            (Name::Directory, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        state.change(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.contents_of(path)?;
        state.change(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        match state.names.get(path) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(Name::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            Some(Name::Directory) => {
                state.change(NameChange::Remove(path.to_owned()));
                Ok(())
            }
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathEntry>> {
        let state = self.state();
        if dir != Path::new("/") && state.names.get(dir) != Some(&Name::Directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut entries = Vec::new();
        for (path, name) in state
            .names
            .range(dir.to_owned()..)
            .take_while(|(p, _)| p.starts_with(dir))
        {
            let Some(text) = path.file_name().and_then(|n| n.to_str()) else {
                continue;
            };
            if path.parent() != Some(dir) {
                continue;
            }
            let (kind, size_bytes) = match name {
                Name::Directory => (EntryKind::Directory, 0),
                Name::File(inode) => (EntryKind::File, state.files[inode].live.len() as u64),
            };
            entries.push(PathEntry {
                name: text.to_owned(),
                kind,
                size_bytes,
            });
        }
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.state().names.contains_key(path))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        let ancestors: Vec<_> = dir.ancestors().filter(|a| a.file_name().is_some()).collect();
        for ancestor in ancestors.into_iter().rev() {
            match state.names.get(ancestor) {
                Some(Name::Directory) => {}
                Some(Name::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => state.change(NameChange::Create(ancestor.to_owned(), Name::Directory)),
            }
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        let state = &mut *state;
        if state.names.get(dir) != Some(&Name::Directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // Journalling file systems commit names in order: syncing one directory makes every earlier change
        // durable up to the last one that concerns it.
        let concerns = |path: &Path| path.parent() == Some(dir) || path == dir;
        let last = state.unsynced_names.iter().rposition(|change| match change {
            NameChange::Create(path, _) | NameChange::Remove(path) => concerns(path),
            NameChange::Rename(from, to) => concerns(from) || concerns(to),
        });
        if let Some(last) = last {
            for change in state.unsynced_names.drain(..=last) {
                change.apply(&mut state.durable_names);
            }
        }
        Ok(())
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let state = self.state();
        Ok(state
            .capacity_bytes
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used_bytes())))
    }

    fn total_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state().capacity_bytes.unwrap_or(u64::MAX))
    }

    fn lock(&self, path: &Path) -> io::Result<LockGuard> {
        drop(self.open(path, OpenHow::CreateOrWrite)?);
        let mut state = self.state();
        if !state.locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(LockGuard::new(SimLock {
            disk: self.clone(),
            path: path.to_owned(),
            boot: state.boot,
        }))
    }
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    boot: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let Ok(mut state) = self.disk.state.lock() else {
            return;
        };
        if state.boot == self.boot {
            state.locked.remove(&self.path);
        }
    }
}

//! The disk as everything above sees it: named files that are read and written by position.
//!
//! Written is not durable: bytes survive a power loss only after [`File::sync_data`], a new name or a rename
//! only after [`Disk::sync_dir`] of its directory. Must not: know what the files mean.

use std::any::Any;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::WallMs;

/// How [`Disk::open`] treats a file that exists or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenHow {
    /// It must exist; only reads.
    Read,
    /// It must exist; reads and writes.
    Write,
    /// Reads and writes; created empty if it does not exist.
    CreateOrWrite,
    /// Reads and writes; must not exist yet.
    CreateNew,
}

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// The name, without the directory.
    pub name: String,
    /// File or directory; anything else is not listed.
    pub kind: EntryKind,
    /// Length in bytes; zero for a directory.
    pub size_bytes: u64,
}

/// An advisory lock, held until this value is dropped or the process ends.
pub struct LockGuard(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl LockGuard {
    pub(crate) fn new(held: impl Any + Send + Sync) -> LockGuard {
        LockGuard(Box::new(held))
    }
}

impl Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockGuard")
    }
}

/// An open file. Every access names its position, so one handle may be shared by any number of threads.
///
/// All errors are the operating system's; a full disk is [`io::ErrorKind::StorageFull`].
pub trait File: Debug + Send + Sync {
    /// Reads at `at` into `into` and returns how many bytes came; zero only at or behind the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `at`. After an error a prefix may have been written.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Writes all of `parts`, one behind the other, at `at`. After an error a prefix may have been written.
    fn write_vectored_at(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<()>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Cuts the file, or extends it with zeros; also gives back what [`File::allocate`] reserved behind `len`.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for `size_bytes` at `at` without changing the length. A file system that cannot is no error.
    fn allocate(&self, at: u64, size_bytes: u64) -> io::Result<()>;

    /// Makes the contents and the length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes contents, length and the file's other attributes durable.
    fn sync_all(&self) -> io::Result<()>;

    /// When the contents were last changed.
    fn modified(&self) -> io::Result<WallMs>;

    /// The descriptor, for `sendfile`; `None` where there is none.
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Writes `bytes` behind the present end and returns where they begin. The caller must be the only writer.
    fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.len()?;
        self.write_at(bytes, at)?;
        Ok(at)
    }

    /// Fills `into` from `at`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before `into` is full.
    fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read_at(&mut into[filled..], at + filled as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }
}

/// A file system.
///
/// All errors are the operating system's: `NotFound`, `AlreadyExists`, `StorageFull` and so on.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>>;

    /// Renames a file or directory, replacing a file of the new name. Durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The files and directories in a directory, sorted by name. Names that are not UTF-8 are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathEntry>>;

    /// Whether the name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Creates a directory and those above it that are missing.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable: creations, renames and removals.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Bytes that may still be written under `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Bytes of the whole file system that `path` lies on, used or not.
    fn total_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Creates the file if needed and takes an exclusive lock on it.
    ///
    /// # Errors
    /// `WouldBlock` if another process, or another guard of this one, holds it.
    fn lock(&self, path: &Path) -> io::Result<LockGuard>;

    /// The whole contents of a file.
    ///
    /// # Errors
    /// `InvalidData` if it is larger than `size_bytes_max`; nothing is then allocated.
    fn read_file(&self, path: &Path, size_bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenHow::Read)?;
        let len = file.len()?;
        if size_bytes_max < len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} has {len} bytes, at most {size_bytes_max} were expected",
                    path.display()
                ),
            ));
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// Replaces a small file as a whole: whoever opens it, also after a power loss at any moment, sees the old
/// contents or the new ones. Writes `<path>.tmp`, syncs it, renames it, syncs the directory.
///
/// # Errors
/// The disk's; the old contents are then still in place, or the new ones are but may not be durable yet.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let file = disk.open(&temporary, OpenHow::CreateOrWrite)?;
    file.set_len(0)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    drop(file);
    disk.rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    }
}

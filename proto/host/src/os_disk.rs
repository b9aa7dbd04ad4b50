//! The real file system.
//!
//! Must not: buffer, retry a failed sync, or hide an error.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::{FallocateFlags, FlockOperation};

use crate::{Disk, EntryKind, File, LockGuard, OpenHow, PathEntry, WallMs};

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

#[derive(Debug)]
struct OsFile(fs::File);

impl File for OsFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(into, at) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn write_vectored_at(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut written = match rustix::io::pwritev(&self.0, parts, at) {
            Ok(written) => written,
            Err(rustix::io::Errno::INTR) => 0,
            Err(e) => return Err(e.into()),
        };
        if written == total {
            return Ok(());
        }
        // A short write is rare (a signal, a nearly full disk): finish part by part.
        let mut at = at + written as u64;
        for part in parts {
            let done = written.min(part.len());
            written -= done;
            self.0.write_all_at(&part[done..], at)?;
            at += (part.len() - done) as u64;
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, at: u64, size_bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, at, size_bytes) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            done => Ok(done?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn modified(&self) -> io::Result<WallMs> {
        let since_epoch = self
            .0
            .metadata()?
            .modified()?
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(WallMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)))
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(how != OpenHow::Read);
        options
            .create(how == OpenHow::CreateOrWrite)
            .create_new(how == OpenHow::CreateNew);
        Ok(Arc::new(OsFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // A file may go between the listing and the look at it: then it is not there.
            let Ok(about) = fs::metadata(entry.path()) else {
                continue;
            };
            if about.is_file() {
                entries.push(PathEntry {
                    name,
                    kind: EntryKind::File,
                    size_bytes: about.len(),
                });
            } else if about.is_dir() {
                entries.push(PathEntry {
                    name,
                    kind: EntryKind::Directory,
                    size_bytes: 0,
                });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let about = rustix::fs::statvfs(path)?;
        Ok(about.f_bavail.saturating_mul(about.f_frsize))
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        let about = rustix::fs::statvfs(path)?;
        Ok(about.f_blocks.saturating_mul(about.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<LockGuard> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(LockGuard::new(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::ErrorKind::WouldBlock.into()),
            Err(e) => Err(e.into()),
        }
    }
}

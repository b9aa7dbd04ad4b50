//! Snapshots as files: a description and the records of an image, each with length and checksum.
//!
//! A snapshot is written under a temporary name, synced and renamed, so that whatever carries a final name is whole.
//! Must not know what a record means. Everything here blocks on the disk.
//!
//! `MRSNAP01`, then frames `[length u32][crc32c u32][bytes]`: the description; offset, term and number of records;
//! then the records.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use host::{Disk, File, OpenHow};

use super::types::{SnapshotMeta, damaged, decode_snapshot_meta, encode_snapshot_meta};

const MAGIC: &[u8; 8] = b"MRSNAP01";
const FRAME_HEADER_BYTES: usize = 8;
/// Larger than any record: a batch is at most 4 MiB.
const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;
const WRITE_BYTES: usize = 256 * 1024;
const SUFFIX: &str = ".snapshot";
/// The newest, and the one before it for a reader that is still on its way.
const KEPT: usize = 2;

/// The records that an image adds up from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The image's next offset.
    pub next_offset: i64,
    /// Term of the batch before it.
    pub last_term: u64,
    /// Encoded records, in dump order.
    pub records: Vec<Bytes>,
}

/// A whole snapshot on disk.
#[derive(Clone, Debug)]
pub struct SnapshotFile {
    /// Where it lies.
    pub path: PathBuf,
}

/// A snapshot with what it stands for and holds.
pub type Newest = (SnapshotMeta, SnapshotFile, Dump);

/// Where work that blocks on the disk is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskWork {
    /// On threads of their own, off the runtime's workers.
    Threads,
    /// Where it comes up: for a disk in memory, whose simulation no thread may disturb.
    InPlace,
}

/// The directory of snapshots of one node.
#[derive(Clone, Debug)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    work: DiskWork,
}

impl Snapshots {
    /// Opens the directory and clears away what was never finished.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, work: DiskWork) -> io::Result<Snapshots> {
        disk.create_dir_all(dir)?;
        for entry in disk.list(dir)? {
            if entry.name.ends_with(".incoming") {
                disk.remove_file(&dir.join(entry.name))?;
            }
        }
        Ok(Snapshots {
            disk,
            dir: dir.to_owned(),
            work,
        })
    }

    /// Does what blocks on the disk.
    ///
    /// # Errors
    /// The work's; also when it panicked.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        match self.work {
            DiskWork::InPlace => work(),
            DiskWork::Threads => tokio::task::spawn_blocking(work)
                .await
                .unwrap_or_else(|error| Err(io::Error::other(error))),
        }
    }

    /// The disk that it lies on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The newest snapshot that can be read, if there is any.
    ///
    /// # Errors
    /// `InvalidData` if there are snapshots and none can be read; the disk's otherwise.
    pub fn newest(&self) -> io::Result<Option<Newest>> {
        let mut unreadable = None;
        for name in self.names()?.into_iter().rev() {
            let path = self.dir.join(&name);
            match read(self.disk.as_ref(), &path) {
                Ok((meta, dump)) => return Ok(Some((meta, SnapshotFile { path }, dump))),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(snapshot = name, %error, "a snapshot cannot be read");
                    unreadable = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        unreadable.map_or(Ok(None), Err)
    }

    /// Writes a snapshot and gives it its final name.
    ///
    /// # Errors
    /// The disk's; no snapshot is then there.
    pub fn write(&self, meta: &SnapshotMeta, dump: &Dump) -> io::Result<SnapshotFile> {
        let incoming = self.incoming("own");
        let file = self.disk.open(&incoming, OpenHow::CreateOrWrite)?;
        file.set_len(0)?;
        let mut out = Frames {
            file,
            at: 0,
            open: BytesMut::from(&MAGIC[..]),
        };
        out.put(&encode_snapshot_meta(meta))?;
        let mut position = BytesMut::new();
        position.put_i64(dump.next_offset);
        position.put_u64(dump.last_term);
        position.put_u64(dump.records.len() as u64);
        out.put(&position)?;
        for record in &dump.records {
            out.put(record)?;
        }
        out.flush()?;
        out.file.sync_data()?;
        self.adopt(meta, &incoming)
    }

    /// Gives a whole, synced file its final name and drops the snapshots that are older than the last two.
    ///
    /// # Errors
    /// The disk's.
    pub fn adopt(&self, meta: &SnapshotMeta, from: &Path) -> io::Result<SnapshotFile> {
        let path = self.dir.join(file_name(meta));
        self.disk.rename(from, &path)?;
        self.disk.sync_dir(&self.dir)?;
        let names = self.names()?;
        for old in names.iter().rev().skip(KEPT) {
            self.disk.remove_file(&self.dir.join(old))?;
        }
        Ok(SnapshotFile { path })
    }

    /// Where a snapshot that comes from elsewhere is put together.
    pub fn incoming(&self, whose: &str) -> PathBuf {
        self.dir.join(format!("{whose}.incoming"))
    }

    /// Drops a file that was put together and did not become a snapshot, if it is still there.
    ///
    /// # Errors
    /// The disk's.
    pub fn discard(&self, incoming: &Path) -> io::Result<()> {
        match self.disk.remove_file(incoming) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Reads a snapshot file whole.
    ///
    /// # Errors
    /// `InvalidData` if it is not exactly what was written; the disk's otherwise.
    pub fn read(&self, path: &Path) -> io::Result<(SnapshotMeta, Dump)> {
        read(self.disk.as_ref(), path)
    }

    /// Final names, oldest first: zero-padded index and term sort as numbers do.
    fn names(&self) -> io::Result<Vec<String>> {
        let entries = self.disk.list(&self.dir)?;
        Ok(entries
            .into_iter()
            .map(|entry| entry.name)
            .filter(|name| name.ends_with(SUFFIX))
            .collect())
    }
}

struct Frames {
    file: Arc<dyn File>,
    at: u64,
    open: BytesMut,
}

impl Frames {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.open.put_u32(length);
        self.open.put_u32(crc32c::crc32c(bytes));
        self.open.put_slice(bytes);
        if WRITE_BYTES <= self.open.len() {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = self.open.split();
        self.file.write_at(&bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn file_name(meta: &SnapshotMeta) -> String {
    let (term, index) = meta
        .last_log_id
        .map_or((0, 0), |id| (id.leader_id.term, id.index));
    format!("{index:020}-{term:010}{SUFFIX}")
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<(SnapshotMeta, Dump)> {
    let file = disk.open(path, OpenHow::Read)?;
    let end = file.len()?;
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).map_err(cut_short)?;
    if magic != *MAGIC {
        return Err(damaged("not a snapshot"));
    }
    let mut at = MAGIC.len() as u64;
    let meta = decode_snapshot_meta(&frame(file.as_ref(), &mut at)?)?;
    let position = frame(file.as_ref(), &mut at)?;
    let word = |from: usize| {
        let bytes = position.get(from..).and_then(|rest| rest.first_chunk::<8>());
        bytes
            .copied()
            .ok_or_else(|| damaged("a snapshot without its position"))
    };
    let next_offset = i64::from_be_bytes(word(0)?);
    let last_term = u64::from_be_bytes(word(8)?);
    let count = u64::from_be_bytes(word(16)?);
    let mut records = Vec::new();
    for _ in 0..count {
        records.push(frame(file.as_ref(), &mut at)?);
    }
    if at != end {
        return Err(damaged("a snapshot with bytes behind its end"));
    }
    let dump = Dump {
        next_offset,
        last_term,
        records,
    };
    Ok((meta, dump))
}

fn frame(file: &dyn File, at: &mut u64) -> io::Result<Bytes> {
    let mut header = [0; FRAME_HEADER_BYTES];
    file.read_exact_at(&mut header, *at).map_err(cut_short)?;
    let [l0, l1, l2, l3, c0, c1, c2, c3] = header;
    let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).map_err(io::Error::other)?;
    if FRAME_BYTES_MAX < length {
        return Err(damaged("a record in a snapshot is larger than any record"));
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, *at + FRAME_HEADER_BYTES as u64)
        .map_err(cut_short)?;
    if crc32c::crc32c(&bytes) != u32::from_be_bytes([c0, c1, c2, c3]) {
        return Err(damaged("a record in a snapshot does not fit its checksum"));
    }
    *at += (FRAME_HEADER_BYTES + length) as u64;
    Ok(Bytes::from(bytes))
}

fn cut_short(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("a snapshot that is cut short"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::super::types::{CommittedLeader, LogId};
    use super::*;
    use host::OsDisk;

    fn snapshots(dir: &Path) -> Snapshots {
        Snapshots::open(Arc::new(OsDisk), dir, DiskWork::Threads).unwrap()
    }

    fn meta(term: u64, index: u64) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: Some(LogId::new(CommittedLeader::new(term), index)),
            ..SnapshotMeta::default()
        }
    }

    fn dump(marker: u8) -> Dump {
        Dump {
            next_offset: i64::from(marker),
            last_term: 3,
            records: vec![Bytes::from(vec![marker; 700]), Bytes::new()],
        }
    }

    #[test]
    fn the_newest_snapshot_is_found_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        for index in [5, 9, 100] {
            let marker = u8::try_from(index).unwrap();
            snapshots(dir.path())
                .write(&meta(2, index), &dump(marker))
                .unwrap();
        }

        let (found, _, held) = snapshots(dir.path()).newest().unwrap().unwrap();

        assert_eq!((found, held), (meta(2, 100), dump(100)));
        assert_eq!(snapshots(dir.path()).names().unwrap().len(), KEPT);
    }

    #[test]
    fn a_damaged_snapshot_yields_to_the_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        snapshots(dir.path()).write(&meta(2, 5), &dump(5)).unwrap();
        let newest = snapshots(dir.path()).write(&meta(2, 9), &dump(9)).unwrap();
        let file = OsDisk.open(&newest.path, OpenHow::Write).unwrap();
        file.set_len(file.len().unwrap() - 1).unwrap();

        let (found, _, held) = snapshots(dir.path()).newest().unwrap().unwrap();

        assert_eq!((found, held), (meta(2, 5), dump(5)));
    }
}

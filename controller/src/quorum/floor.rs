//! The floor under a store: a small synced file that holds the vote last given and a lower bound of what was synced.
//! A store found below it has lost what it had promised, which no checksum can tell when a tail is gone cleanly.
//!
//! Two slots are written in turn, so that a torn write leaves the other. Must not be raised before the store is
//! synced, and must be lowered before the store is truncated.

use std::io;
use std::path::Path;
use std::sync::Arc;

use host::{Disk, File, OpenHow};

use super::types::{Vote, damaged};

/// Slots stand a disk block apart: one torn write never touches both.
const SLOT_STRIDE_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 48;
const MAGIC: &[u8; 4] = b"MFL1";

/// What a store must at least hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// The vote last given.
    pub vote: Option<Vote>,
    /// Every entry up to and with this index was synced.
    pub index: Option<u64>,
}

/// The file that keeps a [`Floor`].
#[derive(Debug)]
pub struct FloorFile {
    file: Arc<dyn File>,
    sequence: u64,
    held: Floor,
}

impl FloorFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// `InvalidData` if the file has bytes and neither slot is whole; the disk's otherwise.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<FloorFile> {
        let file = disk.open(path, OpenHow::CreateOrWrite)?;
        let length = file.len()?;
        let mut newest: Option<(u64, Floor)> = None;
        for slot in 0..2 {
            let at = slot * SLOT_STRIDE_BYTES;
            if length < at + SLOT_BYTES as u64 {
                continue;
            }
            let mut bytes = [0; SLOT_BYTES];
            file.read_exact_at(&mut bytes, at)?;
            if let Some((sequence, floor)) = parse(&bytes)
                && newest.as_ref().is_none_or(|(seen, _)| *seen < sequence)
            {
                newest = Some((sequence, floor));
            }
        }
        if newest.is_none() && 0 < length {
            return Err(damaged("the floor file has no whole slot"));
        }
        let fresh = newest.is_none();
        let (sequence, held) = newest.unwrap_or_default();
        let mut opened = FloorFile { file, sequence, held };
        if fresh {
            // Both slots are laid out at once: later writes change no length.
            opened.write(Floor::default())?;
            opened.write(Floor::default())?;
            if let Some(dir) = path.parent() {
                disk.sync_dir(dir)?;
            }
        }
        Ok(opened)
    }

    /// What is held now.
    pub fn held(&self) -> &Floor {
        &self.held
    }

    /// Replaces the floor, durably; does nothing if it would not change.
    ///
    /// # Errors
    /// The disk's.
    pub fn set(&mut self, floor: Floor) -> io::Result<()> {
        if floor == self.held {
            return Ok(());
        }
        self.write(floor)
    }

    fn write(&mut self, floor: Floor) -> io::Result<()> {
        let sequence = self.sequence + 1;
        let at = (sequence % 2) * SLOT_STRIDE_BYTES;
        self.file.write_at(&bytes_of(sequence, &floor), at)?;
        self.file.sync_data()?;
        self.sequence = sequence;
        self.held = floor;
        Ok(())
    }
}

fn bytes_of(sequence: u64, floor: &Floor) -> [u8; SLOT_BYTES] {
    let mut out = [0; SLOT_BYTES];
    out[..4].copy_from_slice(MAGIC);
    out[4..12].copy_from_slice(&sequence.to_be_bytes());
    if let Some(vote) = &floor.vote {
        out[12] = 1 + u8::from(vote.committed);
        out[13..21].copy_from_slice(&vote.leader_id.term.to_be_bytes());
        out[21..29].copy_from_slice(&vote.leader_id.voted_for.to_be_bytes());
    }
    if let Some(index) = floor.index {
        out[29] = 1;
        out[30..38].copy_from_slice(&index.to_be_bytes());
    }
    let crc = crc32c::crc32c(&out[..44]);
    out[44..].copy_from_slice(&crc.to_be_bytes());
    out
}

fn parse(bytes: &[u8; SLOT_BYTES]) -> Option<(u64, Floor)> {
    let number = |at: usize| bytes[at..].first_chunk::<8>().copied().map(u64::from_be_bytes);
    let crc = bytes.last_chunk::<4>().copied().map(u32::from_be_bytes)?;
    if &bytes[..4] != MAGIC || crc != crc32c::crc32c(&bytes[..44]) {
        return None;
    }
    let (term, node) = (number(13)?, number(21)?);
    let vote = match bytes[12] {
        0 => None,
        1 => Some(Vote::new(term, node)),
        _ => Some(Vote::new_committed(term, node)),
    };
    let index = (bytes[29] != 0).then(|| number(30)).flatten();
    Some((number(4)?, Floor { vote, index }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use host::OsDisk;

    #[test]
    fn the_floor_survives_a_torn_write_of_either_slot() {
        for torn in 0..2_u64 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("floor");
            let older = Floor {
                vote: Some(Vote::new(3, 1)),
                index: Some(7),
            };
            let newer = Floor {
                vote: Some(Vote::new_committed(4, 2)),
                index: Some(9),
            };
            let mut file = FloorFile::open(&OsDisk, &path).unwrap();
            file.set(older.clone()).unwrap();
            file.set(newer.clone()).unwrap();
            let newest_slot = file.sequence % 2;
            file.file.write_at(&[0xFF; 20], torn * SLOT_STRIDE_BYTES).unwrap();

            let reopened = FloorFile::open(&OsDisk, &path).unwrap();

            let expected = if torn == newest_slot { older } else { newer };
            assert_eq!(*reopened.held(), expected);
        }
    }

    #[test]
    fn a_floor_file_without_a_whole_slot_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("floor");
        let file = FloorFile::open(&OsDisk, &path).unwrap();
        file.file.write_at(&[0xFF; 20], 0).unwrap();
        file.file.write_at(&[0xFF; 20], SLOT_STRIDE_BYTES).unwrap();

        assert_eq!(
            FloorFile::open(&OsDisk, &path).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}

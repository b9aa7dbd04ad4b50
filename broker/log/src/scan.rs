//! Walking over the batches of a segment file, front to back.
//!
//! Must not: trust a length. A batch that does not lie wholly in the file is damage, never an allocation.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use host::File;
use wire::batch::{Batch, BatchError, BatchHeader, HEADER_SIZE};

use crate::LogFault;

/// How far ahead of what is asked for the file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAhead {
    /// A few small batches: for looking something up.
    Little,
    /// Many: for reading everything.
    Much,
}

impl ReadAhead {
    fn size_bytes(self) -> u64 {
        match self {
            // Twice the default distance of index entries.
            ReadAhead::Little => 8 * 1024,
            ReadAhead::Much => 256 * 1024,
        }
    }
}

/// Why a scan stopped before the end.
#[derive(Debug)]
pub(crate) enum ScanStop {
    /// The bytes at this position are no batch.
    Bad {
        path: PathBuf,
        position: u64,
        what: String,
    },
    /// The disk failed.
    Fault(LogFault),
}

impl ScanStop {
    /// The same as a fault, for callers that did not expect damage.
    pub(crate) fn into_fault(self) -> LogFault {
        match self {
            ScanStop::Fault(fault) => fault,
            ScanStop::Bad { path, position, what } => LogFault::Damaged { path, position, what },
        }
    }
}

/// A batch's header and where the batch begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub position: u64,
    pub header: BatchHeader,
}

/// The batches of a file between two positions.
pub(crate) struct Scanner {
    file: Arc<dyn File>,
    path: PathBuf,
    at: u64,
    end: u64,
    ahead: ReadAhead,
    buffer: Bytes,
    buffer_at: u64,
}

impl Scanner {
    /// The batches from the one that begins at `at` to the end of the file at `end`.
    pub(crate) fn new(file: Arc<dyn File>, path: PathBuf, at: u64, end: u64, ahead: ReadAhead) -> Scanner {
        Scanner {
            file,
            path,
            at,
            end,
            ahead,
            buffer: Bytes::new(),
            buffer_at: at,
        }
    }

    /// Where the next batch begins.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// The next batch's header; the batch is known to lie wholly in the file.
    pub(crate) fn next_header(&mut self) -> Result<Option<Located>, ScanStop> {
        let found = self.peek()?;
        if let Some(found) = &found {
            self.at += found.header.size() as u64;
        }
        Ok(found)
    }

    /// The next batch with all its bytes. The checksum is not looked at.
    pub(crate) fn next_batch(&mut self) -> Result<Option<(u64, Batch)>, ScanStop> {
        let Some(found) = self.peek()? else {
            return Ok(None);
        };
        let size = found.header.size();
        let bytes = self.bytes(found.position, size)?;
        self.at += size as u64;
        Ok(Some((
            found.position,
            Batch {
                header: found.header,
                bytes,
            },
        )))
    }

    fn peek(&mut self) -> Result<Option<Located>, ScanStop> {
        let (position, left) = (self.at, self.end.saturating_sub(self.at));
        if left == 0 {
            return Ok(None);
        }
        let path = self.path.clone();
        let bad = |what: String| ScanStop::Bad {
            path: path.clone(),
            position,
            what,
        };
        if left < HEADER_SIZE as u64 {
            return Err(bad(format!("{left} bytes are less than a batch's header")));
        }
        let header = BatchHeader::parse(&self.bytes(position, HEADER_SIZE)?)
            .map_err(|e: BatchError| bad(e.to_string()))?;
        if left < header.size() as u64 {
            return Err(bad(format!(
                "a batch of {} bytes where {left} are left",
                header.size()
            )));
        }
        Ok(Some(Located { position, header }))
    }

    /// `size` bytes at `at`, which the caller knows to be in the file.
    fn bytes(&mut self, at: u64, size: usize) -> Result<Bytes, ScanStop> {
        let buffered_to = self.buffer_at + self.buffer.len() as u64;
        if at < self.buffer_at || buffered_to < at + size as u64 {
            let wanted = self.ahead.size_bytes().max(size as u64).min(self.end - at);
            let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(size)];
            self.file
                .read_exact_at(&mut bytes, at)
                .map_err(|e| ScanStop::Fault(LogFault::io("read", &self.path)(e)))?;
            self.buffer = Bytes::from(bytes);
            self.buffer_at = at;
        }
        let start = (at - self.buffer_at) as usize;
        Ok(self.buffer.slice(start..start + size))
    }
}

//! Sends answers: bytes gathered into one call, file slices by `sendfile` straight from the page cache.
//!
//! Must not: reorder, or send half an answer and go on.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::response::{FileSlice, Part, Response};

/// Most parts gathered into one call.
const GATHERED_MAX: usize = 64;

/// Sends the whole answer. A peer that takes nothing in for as long as `idle` is given up.
///
/// # Errors
/// The socket's, `TimedOut`, or `UnexpectedEof` when a file is shorter than its slice. The connection is then good for
/// nothing.
pub async fn send(stream: &TcpStream, response: &Response, idle: Option<Duration>) -> io::Result<()> {
    let peer = Peer { stream, idle };
    let parts = response.parts();
    let mut next = 0;
    while next < parts.len() {
        let bytes = parts[next..]
            .iter()
            .take(GATHERED_MAX)
            .take_while(|part| matches!(part, Part::Bytes(_)))
            .count();
        if 0 < bytes {
            let more = next + bytes < parts.len();
            send_bytes(
                peer,
                &parts[next..next + bytes],
                if more { SendFlags::MORE } else { SendFlags::empty() },
            )
            .await?;
            next += bytes;
        } else if let Part::File(slice) = &parts[next] {
            send_slice(peer, slice).await?;
            next += 1;
        }
    }
    Ok(())
}

/// The socket, and how long its other end may take nothing in.
#[derive(Clone, Copy)]
struct Peer<'a> {
    stream: &'a TcpStream,
    idle: Option<Duration>,
}

impl Peer<'_> {
    /// Sends as much as the socket takes, as soon as it takes something.
    async fn takes<T>(self, send: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let taken = self.stream.async_io(Interest::WRITABLE, send);
        match self.idle {
            Some(idle) => tokio::time::timeout(idle, taken).await?,
            None => taken.await,
        }
    }
}

async fn send_bytes(peer: Peer<'_>, parts: &[Part], flags: SendFlags) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Bytes(bytes) => Some(IoSlice::new(bytes)),
            Part::File(_) => None,
        })
        .collect();
    let mut left = slices.as_mut_slice();
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let sent = peer
            .takes(|| {
                let mut nothing = SendAncillaryBuffer::default();
                let flags = flags | SendFlags::NOSIGNAL;
                rustix::net::sendmsg(peer.stream, left, &mut nothing, flags).map_err(io::Error::from)
            })
            .await?;
        IoSlice::advance_slices(&mut left, sent);
    }
    Ok(())
}

async fn send_slice(peer: Peer<'_>, slice: &FileSlice) -> io::Result<()> {
    if slice.size == 0 {
        return Ok(());
    }
    if is_cold(slice) {
        warm(slice).await?;
    }
    if slice.file.as_fd().is_none() {
        return send_copied(peer, slice).await;
    }
    let mut at = slice.at;
    let end = slice.at + slice.size as u64;
    while at < end {
        let size = usize::try_from(end - at).unwrap_or(usize::MAX);
        let sent = peer
            .takes(|| {
                let file = slice.file.as_fd().ok_or(io::ErrorKind::Unsupported)?;
                let mut from = at;
                rustix::fs::sendfile(peer.stream, file, Some(&mut from), size).map_err(io::Error::from)
            })
            .await?;
        if sent == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += sent as u64;
    }
    Ok(())
}

/// For files without a descriptor.
async fn send_copied(peer: Peer<'_>, slice: &FileSlice) -> io::Result<()> {
    let mut bytes = vec![0; slice.size];
    slice.file.read_exact_at(&mut bytes, slice.at)?;
    let part = [Part::Bytes(bytes.into())];
    send_bytes(peer, &part, SendFlags::empty()).await
}

/// Whether the first or the last byte is not in the page cache.
fn is_cold(slice: &FileSlice) -> bool {
    let Some(file) = slice.file.as_fd() else {
        return false;
    };
    let last = slice.at + slice.size as u64 - 1;
    [slice.at, last].into_iter().any(|at| {
        let mut one = [0_u8];
        let mut into = [io::IoSliceMut::new(&mut one)];
        let read = rustix::io::preadv2(file, &mut into, at, rustix::io::ReadWriteFlags::NOWAIT);
        matches!(read, Err(rustix::io::Errno::AGAIN))
    })
}

/// Brings the bytes into the page cache on a thread that may wait for the disk.
async fn warm(slice: &FileSlice) -> io::Result<()> {
    const STEP: usize = 128 * 1024;
    let file = Arc::clone(&slice.file);
    let (at, size) = (slice.at, slice.size);
    let read = tokio::task::spawn_blocking(move || {
        let mut scratch = vec![0; STEP.min(size)];
        let mut done = 0;
        while done < size {
            let step = scratch.len().min(size - done);
            file.read_exact_at(&mut scratch[..step], at + done as u64)?;
            done += step;
        }
        io::Result::Ok(())
    });
    read.await.map_err(io::Error::other)?
}

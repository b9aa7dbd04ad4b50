//! Reads frames from a socket. Memory grows with the bytes that came, never with the bytes that were announced.
//!
//! Must not: look into a frame.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use wire::frame::{self, BadLength};

/// What is reserved for a connection that has just begun to speak, in bytes: a small request fits.
const FIRST_READ: usize = 4 * 1024;
/// So many bytes of a frame must have come before its announced size is believed: a peer that announces and stays
/// silent pins no more than this. What came until then is copied once when the buffer grows.
const BELIEVED_AFTER: usize = 16 * 1024;
/// Up to here a size that is believed is reserved at once; above it the buffer at most doubles.
const RESERVED_AT_ONCE_MAX: usize = 1024 * 1024;
/// A buffer that is larger than this is given back when it is empty.
const KEPT_MAX: usize = 64 * 1024;

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Inbox {
    buffer: BytesMut,
    frame_bytes_max: usize,
}

/// What reading brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// More bytes.
    Some,
    /// The peer will send nothing more.
    End,
}

impl Inbox {
    /// An empty inbox that accepts frames up to a size.
    pub fn new(frame_bytes_max: usize) -> Inbox {
        Inbox {
            buffer: BytesMut::new(),
            frame_bytes_max,
        }
    }

    /// The next whole frame without its prefix, if it is here.
    ///
    /// # Errors
    /// When a length is announced that no frame has: the connection must be closed.
    pub fn take_frame(&mut self) -> Result<Option<Bytes>, BadLength> {
        let Some(size) = self.announced()? else {
            return Ok(None);
        };
        if self.buffer.len() < frame::PREFIX + size {
            return Ok(None);
        }
        let mut whole = self.buffer.split_to(frame::PREFIX + size).freeze();
        if self.buffer.is_empty() && KEPT_MAX < self.buffer.capacity() {
            self.buffer = BytesMut::new();
        }
        Ok(Some(whole.split_off(frame::PREFIX)))
    }

    fn announced(&self) -> Result<Option<usize>, BadLength> {
        let Some(prefix) = self.buffer.first_chunk::<{ frame::PREFIX }>() else {
            return Ok(None);
        };
        frame::length(*prefix, self.frame_bytes_max).map(Some)
    }

    /// Reads what the socket has. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// The socket's.
    pub async fn fill(&mut self, stream: &TcpStream) -> io::Result<Read> {
        loop {
            if self.buffer.is_empty() {
                stream.readable().await?;
            }
            self.reserve();
            match stream.try_read_buf(&mut self.buffer) {
                Ok(0) => return Ok(Read::End),
                Ok(_) => return Ok(Read::Some),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
                Err(e) => return Err(e),
            }
        }
    }

    fn reserve(&mut self) {
        let held = self.buffer.len();
        let wanted = match self.announced() {
            Ok(Some(size)) => (frame::PREFIX + size).saturating_sub(held),
            _ => FIRST_READ,
        };
        let most = if held < BELIEVED_AFTER {
            BELIEVED_AFTER
        } else {
            RESERVED_AT_ONCE_MAX.max(held)
        };
        let step = wanted.clamp(1, most);
        if self.buffer.capacity() - held < step.min(FIRST_READ) || self.buffer.capacity() - held < step {
            self.buffer.reserve(step.max(FIRST_READ));
        }
    }
}

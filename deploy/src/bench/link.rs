//! One blocking connection of the load generator: requests out on one thread, answers in on another.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use wire::{ApiVersion, CorrelationId, Part, Request, frame};

use crate::address::Address;

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A broker that says nothing for so long is not measured any more.
const SILENCE: Duration = Duration::from_secs(30);

/// Where requests go out.
#[derive(Debug)]
pub struct Requests(TcpStream);

/// Where answers come in, in order.
#[derive(Debug)]
pub struct Answers {
    stream: TcpStream,
    /// The memory of the last answer, used again.
    buffer: Vec<u8>,
}

/// Connects.
///
/// # Errors
/// The machine's.
pub fn connect(address: &Address) -> io::Result<(Requests, Answers)> {
    let stream = TcpStream::connect((address.host.as_str(), address.port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let requests = Requests(stream.try_clone()?);
    Ok((
        requests,
        Answers {
            stream,
            buffer: Vec::new(),
        },
    ))
}

impl Requests {
    /// Sends a request; the records in it are not copied.
    ///
    /// # Errors
    /// The machine's, and when the request cannot be written in this version.
    pub fn send<R: Request>(&mut self, version: ApiVersion, number: i32, request: &R) -> io::Result<()> {
        let encoded = frame::request(version, CorrelationId(number), Some("millrace-bench"), request);
        let parts = encoded.map_err(io::Error::other)?.into_parts();
        let bytes = parts.iter().filter_map(|part| match part {
            Part::Bytes(bytes) => Some(IoSlice::new(bytes)),
            Part::Slot { .. } => None,
        });
        let mut slices: Vec<IoSlice<'_>> = bytes.collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            let written = self.0.write_vectored(left)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    /// Nothing more will be sent or read: whoever waits for an answer stops.
    pub fn close(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Answers {
    /// The next answer, to a request of type `R`. Give it back with [`Answers::reuse`] where it is large.
    ///
    /// # Errors
    /// The machine's, and when the bytes are no such answer.
    pub fn next<R: Request>(&mut self, version: ApiVersion) -> io::Result<(R::Response, Bytes)> {
        let mut prefix = [0; frame::PREFIX];
        self.stream.read_exact(&mut prefix)?;
        let size = frame::length(prefix, ANSWER_BYTES_MAX).map_err(io::Error::other)?;
        let mut body = std::mem::take(&mut self.buffer);
        body.clear();
        let read = (&mut self.stream).take(size as u64).read_to_end(&mut body)?;
        if read < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let frame = Bytes::from(body);
        let (_, answer) = frame::parse_response::<R>(version, frame.clone()).map_err(io::Error::other)?;
        Ok((answer, frame))
    }

    /// The memory of an answer of which nothing is held any more.
    pub fn reuse(&mut self, frame: Bytes) {
        if frame.is_unique() {
            self.buffer = frame.into();
        }
    }
}

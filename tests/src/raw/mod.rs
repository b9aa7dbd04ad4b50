//! A second, small reading of the Kafka protocol, for questions and for requests that no client would send.
//!
//! It speaks the last versions before the compact encoding, by hand, and shares no code with the broker: a
//! mistake there cannot hide here. It must never be used where a real client can do the same.

pub mod admin;
pub mod batch;
pub mod bytes;
pub mod groups;
pub mod requests;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use bytes::{Reader, Writer};

/// How long an answer may take unless said otherwise: longer than anything takes on a machine whose disk is shared, so that
/// only a fault is cut off.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Largest answer that is read, bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// What came back for bytes that were sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// One frame, without its length.
    Frame(Vec<u8>),
    /// The peer closed the connection.
    Closed,
    /// Nothing within the time.
    Silence,
}

/// One connection to one broker.
pub struct Connection {
    stream: TcpStream,
    correlation: i32,
}

impl Connection {
    /// Connects to `host:port`.
    pub fn open(address: &str) -> Result<Connection> {
        let address: SocketAddr = address
            .parse()
            .with_context(|| format!("{address} is no address"))?;
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(3))?;
        stream.set_nodelay(true)?;
        let connection = Connection {
            stream,
            correlation: 0,
        };
        connection.answers_within(ANSWER_WITHIN)?;
        Ok(connection)
    }

    /// Sets how long an answer may take.
    pub fn answers_within(&self, limit: Duration) -> Result<()> {
        Ok(self.stream.set_read_timeout(Some(limit))?)
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a request with header version 1, and does not wait. Gives its correlation id.
    pub fn send(&mut self, api: i16, version: i16, body: &[u8]) -> Result<i32> {
        self.correlation += 1;
        let mut header = Writer::new();
        header.i16(api).i16(version).i32(self.correlation).string("tests");
        let size = i32::try_from(header.bytes().len() + body.len())?;
        let mut frame = size.to_be_bytes().to_vec();
        frame.extend_from_slice(header.bytes());
        frame.extend_from_slice(body);
        self.send_bytes(&frame)?;
        Ok(self.correlation)
    }

    /// The next frame, or why there is none.
    pub fn answer(&mut self) -> Result<Answer> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(Answer::Silence);
            }
            Err(_) => return Ok(Answer::Closed),
        }
        let length = usize::try_from(i32::from_be_bytes(length))?;
        ensure!(length <= ANSWER_BYTES_MAX, "an answer of {length} bytes");
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(Answer::Frame(frame))
    }

    /// Sends a request and gives the body of its answer (header version 0).
    pub fn ask(&mut self, api: i16, version: i16, body: &[u8]) -> Result<Vec<u8>> {
        let sent = self.send(api, version, body)?;
        match self.answer()? {
            Answer::Frame(frame) => {
                let mut reader = Reader::new(&frame);
                let correlation = reader.i32()?;
                ensure!(correlation == sent, "answer {correlation} to request {sent}");
                Ok(reader.rest().to_vec())
            }
            other => bail!("no answer to API {api} version {version}: {other:?}"),
        }
    }
}

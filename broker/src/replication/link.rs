//! A connection to another broker: one request at a time, by the Kafka protocol.
//!
//! Must not: retry, or remember an address that was resolved.

use std::io;
use std::time::Duration;

use broker_core::fetcher::Told;
use tokio::net::TcpStream;
use wire::{ApiVersion, CorrelationId, Request, frame};

use crate::net::inbox::{Inbox, Read};
use crate::net::outbox;
use crate::net::response::Response;

/// What this broker calls itself.
const CLIENT_ID: &str = "millrace-replica";
/// Frames between brokers have no limit but the protocol's: one batch may be larger than what was asked for.
const FRAME_BYTES_MAX: usize = i32::MAX as usize;
/// How long a dial may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Where a broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// An open connection.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    inbox: Inbox,
    address: Address,
    next: i32,
    /// What its peer was told to fetch over it.
    pub told: Told,
}

impl Link {
    /// Dials.
    ///
    /// # Errors
    /// The socket's; `TimedOut` when nobody answers.
    pub async fn open(address: Address) -> io::Result<Link> {
        let dial = TcpStream::connect((address.host.as_str(), address.port));
        let stream = tokio::time::timeout(DIAL_TIMEOUT, dial)
            .await
            .map_err(|_| io::ErrorKind::TimedOut)??;
        stream.set_nodelay(true)?;
        Ok(Link {
            stream,
            inbox: Inbox::new(FRAME_BYTES_MAX),
            address,
            next: 0,
            told: Told::default(),
        })
    }

    /// Where it leads.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request and waits for its response. After an error the connection is good for nothing.
    ///
    /// # Errors
    /// The socket's; `TimedOut`; `InvalidData` when the peer does not speak the protocol.
    pub async fn call<R: Request>(
        &mut self,
        version: ApiVersion,
        request: &R,
        patience: Duration,
    ) -> io::Result<R::Response> {
        let answered = tokio::time::timeout(patience, self.exchange(version, request)).await;
        answered.map_err(|_| io::ErrorKind::TimedOut)?
    }

    async fn exchange<R: Request>(&mut self, version: ApiVersion, request: &R) -> io::Result<R::Response> {
        let correlation = CorrelationId(self.next);
        self.next = self.next.wrapping_add(1);
        let encoded = frame::request(version, correlation, Some(CLIENT_ID), request).map_err(invalid)?;
        outbox::send(&self.stream, &Response::plain(encoded), None).await?;
        loop {
            if let Some(frame) = self.inbox.take_frame().map_err(invalid)? {
                let (answered, response) = frame::parse_response::<R>(version, frame).map_err(invalid)?;
                if answered != correlation {
                    return Err(invalid("an answer to another request"));
                }
                return Ok(response);
            }
            if self.inbox.fill(&self.stream).await? == Read::End {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

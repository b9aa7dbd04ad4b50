//! Listeners: bound early, so that a taken port is found before anything else is opened; listening only once the
//! broker serves, so that clients are refused and turn to another one meanwhile (R1.10).
//!
//! Must not: read a byte of a connection.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use metadata::config::BrokerListener;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tracing::{debug, warn};

use super::connection;
use crate::handlers::Client;
use crate::node::Node;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long accepting pauses when the process has no descriptor left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// A bound socket that does not listen yet.
#[derive(Debug)]
pub struct Bound {
    /// The listener's name.
    pub name: Arc<str>,
    /// Where it is bound.
    pub address: SocketAddr,
    socket: Socket,
}

/// Binds a listener's port.
///
/// # Errors
/// The system's: the port is taken, the name means nothing, the address is not this machine's.
pub fn bind(listener: &BrokerListener) -> io::Result<Bound> {
    let host = listener.bind.host.as_deref().unwrap_or("::");
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, listener.bind.port).to_socket_addrs()? {
        match bound_socket(address) {
            Ok(socket) => return named(listener, socket),
            Err(error) => last = error,
        }
    }
    if listener.bind.host.is_none() {
        // A machine without IPv6.
        let socket = bound_socket(SocketAddr::from(([0, 0, 0, 0], listener.bind.port)))?;
        return named(listener, socket);
    }
    Err(last)
}

fn named(listener: &BrokerListener, socket: Socket) -> io::Result<Bound> {
    let address = socket
        .local_addr()?
        .as_socket()
        .ok_or(io::ErrorKind::Unsupported)?;
    Ok(Bound {
        name: listener.bind.name.as_str().into(),
        address,
        socket,
    })
}

fn bound_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == IpAddr::from([0_u8; 16]) {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// How many connections there are, in all and by address.
#[derive(Debug, Default)]
pub struct Counts {
    by_address: Mutex<(usize, HashMap<IpAddr, usize>)>,
    /// Told when the last connection has ended.
    none_left: Notify,
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `max.connections`.
    pub all: usize,
    /// `max.connections.per.ip`.
    pub by_address: usize,
}

impl Counts {
    /// Connections that are open.
    pub fn count(&self) -> usize {
        self.by_address.lock().0
    }

    /// Waits until there is none.
    pub async fn all_ended(&self) {
        while 0 < self.count() {
            self.none_left.notified().await;
        }
    }

    fn admit(self: &Arc<Self>, address: IpAddr, limits: Limits) -> Option<Admitted> {
        let mut counts = self.by_address.lock();
        let (all, by_address) = &mut *counts;
        let here = by_address.get(&address).copied().unwrap_or(0);
        if limits.all <= *all || limits.by_address <= here {
            return None;
        }
        *all += 1;
        by_address.insert(address, here + 1);
        Some(Admitted {
            counts: Arc::clone(self),
            address,
        })
    }
}

/// A place among the connections, given back when dropped.
struct Admitted {
    counts: Arc<Counts>,
    address: IpAddr,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.counts.by_address.lock();
        let (all, by_address) = &mut *counts;
        *all -= 1;
        if *all == 0 {
            // Kept for whoever begins to wait just now.
            self.counts.none_left.notify_one();
        }
        if let Some(here) = by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

impl Bound {
    /// Starts to listen.
    ///
    /// # Errors
    /// The system's; `AddrInUse` when another process listens there.
    pub fn listen(self) -> io::Result<(Arc<str>, TcpListener)> {
        self.socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(StdListener::from(self.socket))?;
        Ok((self.name, listener))
    }
}

/// Accepts connections until the node stops.
pub async fn accept(
    name: Arc<str>,
    listener: TcpListener,
    node: Arc<Node>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        match accepted {
            Ok((stream, peer)) => begin(stream, peer.ip(), &name, &node, &stopping),
            Err(error) => {
                warn!(%error, listener = %name, "cannot accept a connection");
                tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            }
        }
    }
}

fn begin(
    stream: TcpStream,
    host: IpAddr,
    name: &Arc<str>,
    node: &Arc<Node>,
    stopping: &watch::Receiver<bool>,
) {
    let Some(admitted) = node.connections.admit(host, node.connection_limits()) else {
        debug!(%host, listener = %name, "too many connections; one is closed at once");
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, %host, "cannot set a connection up");
        return;
    }
    node.metrics.connections.inc();
    let client = Client {
        listener: Arc::clone(name),
        host,
    };
    let (node, stopping) = (Arc::clone(node), stopping.clone());
    tokio::spawn(async move {
        match connection::serve(stream, node, client, stopping).await {
            Ok(ended) => debug!(%host, ?ended, "connection ended"),
            Err(error) => debug!(%host, %error, "connection broke"),
        }
        drop(admitted);
    });
}

//! Cuts in user space: a forwarder in front of a listener, and the set of links that are cut.
//!
//! A connection belongs to the node whose process made it, so one forwarder per listener serves every link.
//! While a link is cut its bytes are held, as by a network that drops packets: nothing is closed, new
//! connections hang, and what is held arrives after the join. It must never look into the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use anyhow::Result;

use super::NodeId;
use crate::process::owner_of_connection;

#[derive(Default)]
struct State {
    cut: BTreeSet<(NodeId, NodeId)>,
    processes: BTreeMap<NodeId, u32>,
    over: bool,
}

/// Which links are cut, shared by all forwarders of a cluster.
#[derive(Default)]
pub struct Links {
    state: Mutex<State>,
    changed: Condvar,
}

fn link(one: NodeId, other: NodeId) -> (NodeId, NodeId) {
    (one.min(other), one.max(other))
}

impl Links {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Holds everything between the two nodes, in both directions.
    pub fn cut(&self, one: NodeId, other: NodeId) {
        self.state().cut.insert(link(one, other));
    }

    /// Lets everything between the two nodes pass again.
    pub fn join(&self, one: NodeId, other: NodeId) {
        self.state().cut.remove(&link(one, other));
        self.changed.notify_all();
    }

    /// Node `node` now runs as process `pid`.
    pub fn runs_as(&self, node: NodeId, pid: u32) {
        self.state().processes.insert(node, pid);
    }

    /// Ends every forwarder.
    pub fn end(&self) {
        self.state().over = true;
        self.changed.notify_all();
    }

    /// Waits while the link is cut. False when everything is over.
    fn passes(&self, from: Option<NodeId>, to: NodeId) -> bool {
        let mut state = self.state();
        while !state.over && from.is_some_and(|from| state.cut.contains(&link(from, to))) {
            state = self.changed.wait(state).expect("no holder of this lock panics");
        }
        !state.over
    }

    fn is_over(&self) -> bool {
        self.state().over
    }

    fn maker_of(&self, stream: &TcpStream, port: u16) -> Option<NodeId> {
        let local = stream.peer_addr().ok()?.port();
        let processes = self.state().processes.clone();
        let pids: Vec<u32> = processes.values().copied().collect();
        let owner = owner_of_connection(local, port, &pids)?;
        processes
            .into_iter()
            .find(|(_, pid)| *pid == owner)
            .map(|(node, _)| node)
    }
}

/// Forwards everything that arrives on `port` to `target`, which belongs to node `to`.
pub fn forward(links: &Arc<Links>, port: u16, to: NodeId, target: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(false)?;
    let links = Arc::clone(links);
    thread::Builder::new()
        .name(format!("forward to {to}"))
        .spawn(move || {
            for stream in listener.incoming() {
                if links.is_over() {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let links = Arc::clone(&links);
                thread::spawn(move || {
                    let from = links.maker_of(&stream, port);
                    if links.passes(from, to) {
                        // A refused target closes the connection that asked for it.
                        if let Ok(onward) = TcpStream::connect(("127.0.0.1", target)) {
                            join_streams(&links, stream, onward, from, to);
                        }
                    }
                });
            }
        })?;
    Ok(())
}

fn join_streams(links: &Arc<Links>, one: TcpStream, other: TcpStream, from: Option<NodeId>, to: NodeId) {
    let _ = one.set_nodelay(true);
    let _ = other.set_nodelay(true);
    let (Ok(one_back), Ok(other_back)) = (one.try_clone(), other.try_clone()) else {
        return;
    };
    let back = Arc::clone(links);
    thread::spawn(move || pump(&back, other_back, one_back, from, to));
    pump(links, one, other, from, to);
}

fn pump(links: &Links, mut source: TcpStream, mut sink: TcpStream, from: Option<NodeId>, to: NodeId) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = source.read(&mut buffer).unwrap_or(0);
        if !links.passes(from, to) {
            let _ = source.shutdown(Shutdown::Both);
            let _ = sink.shutdown(Shutdown::Both);
            return;
        }
        if read == 0 || sink.write_all(&buffer[..read]).is_err() {
            let _ = sink.shutdown(Shutdown::Write);
            let _ = source.shutdown(Shutdown::Read);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::super::ports;
    use super::*;
    use std::time::Duration;

    /// A listener that sends back what it gets.
    fn echo() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut back = stream.try_clone().unwrap();
                thread::spawn(move || std::io::copy(&mut &stream, &mut back));
            }
        });
        port
    }

    #[test]
    fn a_cut_link_holds_bytes_and_a_join_delivers_them() {
        let links = Arc::new(Links::default());
        let (client, server) = (NodeId(1), NodeId(2));
        links.runs_as(client, std::process::id());
        let port = ports::free().unwrap();
        forward(&links, port, server, echo()).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut answer = [0; 1];

        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut answer).unwrap();
        links.cut(client, server);
        stream.write_all(b"b").unwrap();
        assert!(
            stream.read_exact(&mut answer).is_err(),
            "a byte passed a cut link"
        );

        links.join(server, client);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"b");
        links.end();
    }
}

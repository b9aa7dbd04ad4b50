//! Free ports on loopback. They are taken below the range that the kernel hands to outgoing connections, so
//! that no client can sit on the port of a node that is down for a moment.
//!
//! Test processes run side by side. Each owns blocks of ports, and a block belongs to the process that listens
//! on its first port. The others are only bound to see whether they are free, never listened on: a child that
//! is being started inherits what is open at that moment, and would keep a listener alive until it executes.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use anyhow::{Result, bail};
use parking_lot::Mutex;
use socket2::{Domain, Socket, Type};

const FIRST: u16 = 12_000;
const BLOCK: u16 = 200;
const BLOCKS: u16 = 90;

struct Block {
    next: u16,
    end: u16,
    /// Owns the block for as long as this process lives.
    _owner: TcpListener,
}

/// The blocks of this process; ports are given out from the newest.
static OWNED: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// A port that nobody listens on, and that no test process gives out again while this one lives.
pub fn free() -> Result<u16> {
    row(1)
}

/// The first of `count` such ports in a row.
pub fn row(count: u16) -> Result<u16> {
    let mut owned = OWNED.lock();
    loop {
        if let Some(first) = owned.last_mut().and_then(|block| take(block, count)) {
            return Ok(first);
        }
        owned.push(claim()?);
    }
}

fn take(block: &mut Block, count: u16) -> Option<u16> {
    while block.next + count <= block.end {
        let first = block.next;
        match (first..first + count).rev().find(|port| !is_free(*port)) {
            None => {
                block.next += count;
                return Some(first);
            }
            Some(taken) => block.next = taken + 1,
        }
    }
    None
}

fn claim() -> Result<Block> {
    let start = std::process::id() % u32::from(BLOCKS);
    for step in 0..u32::from(BLOCKS) {
        let index = u16::try_from((start + step) % u32::from(BLOCKS))?;
        let first = FIRST + index * BLOCK;
        if let Ok(owner) = TcpListener::bind((Ipv4Addr::LOCALHOST, first)) {
            return Ok(Block {
                next: first + 1,
                end: first + BLOCK,
                _owner: owner,
            });
        }
    }
    bail!("all {BLOCKS} blocks of ports from {FIRST} on are taken")
}

/// Whether nobody listens on the port: a bound socket that does not listen disturbs no one who will.
fn is_free(port: u16) -> bool {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    Socket::new(Domain::IPV4, Type::STREAM, None)
        .is_ok_and(|socket| socket.set_reuse_address(true).is_ok() && socket.bind(&address.into()).is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// Once, a forwarder found its port taken: a child that another test was starting held the probe's listener.
    #[test]
    fn a_free_port_can_be_listened_on_while_other_threads_start_processes() {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        assert!(Command::new("true").status().unwrap().success());
                    }
                });
            }
            let taken: Vec<u16> = (0..400)
                .filter_map(|_| {
                    let port = free().unwrap();
                    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).err().map(|_| port)
                })
                .collect();
            over.store(true, Ordering::Relaxed);
            assert_eq!(taken, [] as [u16; 0]);
        });
    }

    #[test]
    fn a_row_is_free_and_given_out_once() {
        let first = row(5).unwrap();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 4)).unwrap();
        assert!(!is_free(held.local_addr().unwrap().port()));
        let second = row(5).unwrap();
        assert!(second >= first + 5 || second + 5 <= first, "{first} and {second}");
    }
}

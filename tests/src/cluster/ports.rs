//! Free ports on loopback. They are taken below the range that the kernel hands to outgoing connections, so
//! that no client can sit on the port of a node that is down for a moment.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

const FIRST: u32 = 12_000;
const COUNT: u32 = 18_000;

/// A port that nobody listens on, and that this process has not given out before.
pub fn free() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test processes that run side by side start far from each other.
    let start = std::process::id().wrapping_mul(331) % COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + (start + step) % COUNT)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port")
}

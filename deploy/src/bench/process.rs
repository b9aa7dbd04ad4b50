//! What processes use: CPU time and memory, of processes on this machine or as metrics tell it.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, all_processes};

use crate::address::Address;

/// How long a metrics page may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was used up to now, by all that is watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// CPU time, in user and kernel, in seconds.
    pub cpu_seconds: f64,
    /// Memory at this moment, in bytes.
    pub rss_bytes: u64,
}

/// Whose use is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// Processes of this machine.
    Processes(Vec<i32>),
    /// Pages in the Prometheus format.
    Metrics(Vec<Address>),
}

impl Watched {
    /// The processes of this machine that listen at these addresses; none where they are elsewhere.
    pub fn listening(brokers: &[Address]) -> Self {
        let ports: Vec<u16> = brokers
            .iter()
            .filter(|one| is_here(one))
            .map(|one| one.port)
            .collect();
        let tables = [procfs::net::tcp(), procfs::net::tcp6()];
        let sockets: Vec<u64> = tables
            .into_iter()
            .filter_map(Result::ok)
            .flatten()
            .filter(|entry| entry.state == TcpState::Listen && ports.contains(&entry.local_address.port()))
            .map(|entry| entry.inode)
            .collect();
        let holds = |process: &Process| {
            let descriptors = process.fd().into_iter().flatten().flatten();
            let mut targets = descriptors.map(|descriptor| descriptor.target);
            targets.any(|target| matches!(target, FDTarget::Socket(inode) if sockets.contains(&inode)))
        };
        let all = all_processes().into_iter().flatten().flatten();
        let found = all
            .filter(|process| !sockets.is_empty() && holds(process))
            .map(|process| process.pid);
        Self::Processes(found.collect())
    }

    /// What they have used; none where that cannot be known, or nobody is watched.
    pub fn usage(&self) -> Option<Usage> {
        let each: Option<Vec<Usage>> = match self {
            Self::Processes(pids) => pids.iter().map(|pid| of_process(*pid)).collect(),
            Self::Metrics(pages) => pages.iter().map(of_page).collect(),
        };
        let each = each.filter(|each| !each.is_empty())?;
        Some(Usage {
            cpu_seconds: each.iter().map(|one| one.cpu_seconds).sum(),
            rss_bytes: each.iter().map(|one| one.rss_bytes).sum(),
        })
    }
}

/// What this process has used.
pub fn own() -> Option<Usage> {
    of_process(i32::try_from(std::process::id()).ok()?)
}

fn is_here(address: &Address) -> bool {
    let resolved = (address.host.as_str(), address.port).to_socket_addrs();
    // An address is this machine's if a socket can be bound to it.
    let mine = |ip: std::net::IpAddr| std::net::UdpSocket::bind((ip, 0)).is_ok();
    resolved.into_iter().flatten().any(|one| mine(one.ip()))
}

fn of_process(pid: i32) -> Option<Usage> {
    let process = Process::new(pid).ok()?;
    let stat = process.stat().ok()?;
    Some(Usage {
        cpu_seconds: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
        rss_bytes: stat.rss * procfs::page_size(),
    })
}

fn of_page(address: &Address) -> Option<Usage> {
    let mut stream = TcpStream::connect((address.host.as_str(), address.port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.take(64 << 20).read_to_string(&mut text).ok()?;
    of_text(&text)
}

/// What a page in the Prometheus format says under the names that every client library uses.
fn of_text(text: &str) -> Option<Usage> {
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some(Usage {
        cpu_seconds: value("process_cpu_seconds_total")?,
        rss_bytes: value("process_resident_memory_bytes")? as u64,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_process_is_found_by_where_it_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let watched = Watched::listening(&[Address {
            host: "127.0.0.1".to_owned(),
            port,
        }]);
        assert_eq!(
            watched,
            Watched::Processes(vec![i32::try_from(std::process::id()).unwrap()])
        );
        assert!(0 < watched.usage().unwrap().rss_bytes);
    }

    #[test]
    fn nobody_is_no_usage() {
        assert_eq!(Watched::Processes(vec![]).usage(), None);
    }

    #[test]
    fn a_page_of_metrics_is_read_by_its_names() {
        let page = "# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total 12.5\n\
                    process_resident_memory_bytes 1.048576e6\n";
        assert_eq!(
            of_text(page),
            Some(Usage {
                cpu_seconds: 12.5,
                rss_bytes: 1 << 20
            })
        );
        assert_eq!(of_text("up 1\n"), None);
    }
}

//! Who the controllers are: `controller.quorum.voters` and `controller.quorum.bootstrap.servers`.

use std::fmt;

use super::error::{ConfigError, Problem};
use super::node::NodeConfig;
use crate::ids::ControllerId;

/// The number of a node, be it a broker or a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A controller of the quorum and where its peers and the brokers find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter {
    /// Its number.
    pub id: ControllerId,
    /// A name or address; it is resolved at every dial.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Where a broker may ask for the controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerAddress {
    /// The controller there, where it is known beforehand.
    pub id: Option<ControllerId>,
    /// A name or address; it is resolved at every dial.
    pub host: String,
    /// Its port.
    pub port: u16,
}

pub(super) const VOTERS: &str = "controller.quorum.voters";
pub(super) const SERVERS: &str = "controller.quorum.bootstrap.servers";

/// The voters that are given, by id; errors for entries that are none, and for numbers given twice.
pub(super) fn voters(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Vec<Voter> {
    let mut found: Vec<Voter> = Vec::new();
    for entry in config.list(VOTERS) {
        let Some(voter) = read_voter(&entry) else {
            errors.push(ConfigError::new(
                VOTERS,
                Some(&entry),
                Problem::WrongType,
                "id@host:port, separated by commas",
            ));
            continue;
        };
        if is_unspecified(&voter.host) {
            errors.push(ConfigError::conflict(
                VOTERS,
                &entry,
                "an address that the other nodes can reach",
            ));
        }
        if found.iter().any(|known| known.id == voter.id) {
            errors.push(ConfigError::conflict(VOTERS, &entry, "each number only once"));
        } else if found
            .iter()
            .any(|known| known.host == voter.host && known.port == voter.port)
        {
            errors.push(ConfigError::conflict(VOTERS, &entry, "each address only once"));
        }
        found.push(voter);
    }
    found.sort_by_key(|voter| voter.id);
    found
}

/// Where the controllers are for a broker: the voters, or the bootstrap servers where there are none.
pub(super) fn controllers(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Vec<ControllerAddress> {
    let voters = voters(config, errors);
    if voters.iter().any(|voter| voter.id.0 == config.node_id().0) {
        let given = config.given_text(VOTERS).unwrap_or_default();
        errors.push(ConfigError::conflict(
            VOTERS,
            given,
            "voters other than this node, which is a broker",
        ));
    }
    if !voters.is_empty() {
        let address = |voter: Voter| ControllerAddress {
            id: Some(voter.id),
            host: voter.host,
            port: voter.port,
        };
        return voters.into_iter().map(address).collect();
    }
    let mut found = Vec::new();
    for entry in config.list(SERVERS) {
        match host_and_port(&entry) {
            Some((host, port)) => found.push(ControllerAddress { id: None, host, port }),
            None => errors.push(ConfigError::new(
                SERVERS,
                Some(&entry),
                Problem::WrongType,
                "host:port, separated by commas",
            )),
        }
    }
    if found.is_empty()
        && !errors
            .iter()
            .any(|error| error.key == VOTERS || error.key == SERVERS)
    {
        errors.push(ConfigError::missing(
            VOTERS,
            "the controllers must be given as id@host:port, separated by commas",
        ));
    }
    found
}

fn read_voter(entry: &str) -> Option<Voter> {
    let (id, address) = entry.split_once('@')?;
    let id: i32 = id.parse().ok().filter(|id| 0 <= *id)?;
    let (host, port) = host_and_port(address)?;
    Some(Voter {
        id: ControllerId(id),
        host,
        port,
    })
}

/// A host, without the brackets of an IPv6 address, and a port other than 0.
fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = without_brackets(host)?;
    let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// The host that is written in an address; `None` where it cannot be one.
pub(super) fn without_brackets(host: &str) -> Option<&str> {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']')?;
        return (inner.contains(':') && inner.bytes().all(is_host_byte)).then_some(inner);
    }
    host.bytes()
        .all(|byte| is_host_byte(byte) && byte != b':')
        .then_some(host)
}

const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'%' | b'.' | b'_' | b':')
}

/// Whether a host means "every address", to which nobody can connect.
pub(super) fn is_unspecified(host: &str) -> bool {
    host == "0.0.0.0" || host == "::"
}

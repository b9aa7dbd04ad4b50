//! Listeners: where a node binds, what it tells others to dial, and which protocol a listener speaks.
//! The checks are Kafka's at start, and name the key to mend (BC-055).

use std::collections::BTreeMap;

use super::error::{ConfigError, Problem};
use super::node::NodeConfig;
use super::voters::{is_unspecified, without_brackets};

/// Where a listener binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The name of the listener, in capitals.
    pub name: String,
    /// The host; `None` is every address.
    pub host: Option<String>,
    /// The port; 0 lets the system choose one, as for any socket.
    pub port: u16,
}

/// What others are told to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedAddress {
    /// The host; `None` is the name of this machine.
    pub host: Option<String>,
    /// The port; `None` is the port that was bound.
    pub port: Option<u16>,
}

/// A listener of a broker. All speak plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerListener {
    /// Where it binds, and its name.
    pub bind: Endpoint,
    /// What clients and brokers are told; `None` where `advertised.listeners` leaves it out.
    pub advertised: Option<AdvertisedAddress>,
}

const LISTENERS: &str = "listeners";
const ADVERTISED: &str = "advertised.listeners";
const PROTOCOLS: &str = "listener.security.protocol.map";
const CONTROLLER_NAMES: &str = "controller.listener.names";
const INTER_BROKER: &str = "inter.broker.listener.name";
const INTER_BROKER_PROTOCOL: &str = "security.inter.broker.protocol";
const SHAPE: &str = "NAME://host:port, separated by commas";

/// The listeners of a broker and the name of the one that brokers use.
pub(super) fn broker_listeners(
    config: &NodeConfig,
    errors: &mut Vec<ConfigError>,
) -> (Vec<BrokerListener>, String) {
    let bound = endpoints(config, LISTENERS, errors);
    check_ports(&bound, errors);
    check_protocols(config, &bound, errors);
    let of_controllers = controller_names(config);
    for endpoint in bound
        .iter()
        .filter(|endpoint| of_controllers.contains(&endpoint.name))
    {
        let allowed = "names that are not in listeners, since this node is a broker";
        errors.push(ConfigError::conflict(CONTROLLER_NAMES, &endpoint.name, allowed));
    }
    let listeners = advertise(config, bound, errors);
    let between = inter_broker_name(config, errors);
    let told = |listener: &BrokerListener| listener.advertised.is_some() && listener.bind.name == between;
    if !listeners.is_empty() && !listeners.iter().any(told) {
        let allowed = "the name of one of the advertised listeners";
        errors.push(ConfigError::conflict(INTER_BROKER, &between, allowed));
    }
    (listeners, between)
}

/// The listeners of a controller: those that `controller.listener.names` names.
pub(super) fn controller_listeners(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Vec<Endpoint> {
    let names = controller_names(config);
    if names.is_empty() {
        let allowed = "the names of the controller's listeners must be given";
        errors.push(ConfigError::missing(CONTROLLER_NAMES, allowed));
        return Vec::new();
    }
    if config.given_text(LISTENERS).is_none() {
        errors.push(ConfigError::missing(
            LISTENERS,
            format!("{}://host:port must be given", names[0]),
        ));
        return Vec::new();
    }
    let bound = endpoints(config, LISTENERS, errors);
    check_ports(&bound, errors);
    check_protocols(config, &bound, errors);
    for endpoint in bound.iter().filter(|endpoint| !names.contains(&endpoint.name)) {
        let allowed = "only names of controller.listener.names, since this node is a controller";
        errors.push(ConfigError::conflict(LISTENERS, &endpoint.name, allowed));
    }
    bound
}

fn controller_names(config: &NodeConfig) -> Vec<String> {
    config
        .list(CONTROLLER_NAMES)
        .iter()
        .map(|name| name.to_ascii_uppercase())
        .collect()
}

/// The endpoints of a key, errors for entries that are none and for names given twice.
fn endpoints(config: &NodeConfig, key: &str, errors: &mut Vec<ConfigError>) -> Vec<Endpoint> {
    let mut found: Vec<Endpoint> = Vec::new();
    for entry in config.list(key) {
        match read_endpoint(&entry) {
            None => errors.push(ConfigError::new(key, Some(&entry), Problem::WrongType, SHAPE)),
            Some(endpoint) if found.iter().any(|known| known.name == endpoint.name) => {
                errors.push(ConfigError::conflict(key, &entry, "each name only once"));
            }
            Some(endpoint) => found.push(endpoint),
        }
    }
    found
}

fn read_endpoint(entry: &str) -> Option<Endpoint> {
    let (name, address) = entry.split_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    let host = without_brackets(host)?;
    let plain = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    plain.then_some(())?;
    Some(Endpoint {
        name: name.to_ascii_uppercase(),
        host: (!host.is_empty()).then(|| host.to_owned()),
        port: port.parse().ok()?,
    })
}

/// Two listeners share a port only as the IPv4 and the IPv6 address of it.
fn check_ports(bound: &[Endpoint], errors: &mut Vec<ConfigError>) {
    for (index, later) in bound
        .iter()
        .enumerate()
        .filter(|(_, endpoint)| endpoint.port != 0)
    {
        let clashes = |earlier: &&Endpoint| earlier.port == later.port && !is_pair(earlier, later);
        if bound[..index].iter().any(|earlier| clashes(&earlier)) {
            let shown = format!(
                "{}://{}:{}",
                later.name,
                later.host.as_deref().unwrap_or_default(),
                later.port
            );
            errors.push(ConfigError::conflict(
                LISTENERS,
                &shown,
                "a port of its own for each listener",
            ));
        }
    }
}

fn is_pair(left: &Endpoint, right: &Endpoint) -> bool {
    let is_v6 = |endpoint: &Endpoint| endpoint.host.as_deref().is_some_and(|host| host.contains(':'));
    let is_v4 = |endpoint: &Endpoint| {
        let dotted = |host: &str| host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        endpoint.host.as_deref().is_some_and(dotted)
    };
    (is_v4(left) && is_v6(right)) || (is_v6(left) && is_v4(right))
}

/// Every listener in use has a protocol, and it is PLAINTEXT.
fn check_protocols(config: &NodeConfig, bound: &[Endpoint], errors: &mut Vec<ConfigError>) {
    let protocols = protocols(config, errors);
    for endpoint in bound {
        let shown = &endpoint.name;
        match protocols.get(&endpoint.name).map(String::as_str) {
            Some("PLAINTEXT") => {}
            Some(protocol) => {
                let allowed = format!(
                    "its listener speaks {protocol}, which Millrace does not give yet; only PLAINTEXT is allowed"
                );
                errors.push(ConfigError::new(
                    LISTENERS,
                    Some(shown),
                    Problem::Protection,
                    allowed,
                ));
            }
            None => {
                let allowed = format!("{PROTOCOLS} must say which protocol {shown} speaks");
                errors.push(ConfigError::conflict(LISTENERS, shown, allowed));
            }
        }
    }
}

/// Listener name to protocol. As in Kafka, a controller's listener needs no entry while the map is not given.
fn protocols(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> BTreeMap<String, String> {
    const KNOWN: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
    let text = config.text(PROTOCOLS).unwrap_or_default();
    let mut found = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        match entry
            .rsplit_once(':')
            .map(|(name, protocol)| (name.trim(), protocol.trim().to_ascii_uppercase()))
        {
            Some((name, protocol)) if !name.is_empty() && KNOWN.contains(&protocol.as_str()) => {
                found.insert(name.to_ascii_uppercase(), protocol);
            }
            _ => {
                let allowed = format!(
                    "NAME:PROTOCOL, separated by commas; protocols are {}",
                    KNOWN.join(", ")
                );
                errors.push(ConfigError::new(
                    PROTOCOLS,
                    Some(entry),
                    Problem::OutOfRange,
                    allowed,
                ));
            }
        }
    }
    if config.given_text(PROTOCOLS).is_none() {
        for name in controller_names(config) {
            found.entry(name).or_insert_with(|| "PLAINTEXT".to_owned());
        }
    }
    found
}

/// What is told of each listener: `advertised.listeners`, or where it binds.
fn advertise(
    config: &NodeConfig,
    bound: Vec<Endpoint>,
    errors: &mut Vec<ConfigError>,
) -> Vec<BrokerListener> {
    let given = config.given_text(ADVERTISED).is_some();
    let told = if given {
        endpoints(config, ADVERTISED, errors)
    } else {
        bound.clone()
    };
    for endpoint in &told {
        if endpoint.host.as_deref().is_some_and(is_unspecified) {
            let shown = format!(
                "{}://{}:{}",
                endpoint.name,
                endpoint.host.as_deref().unwrap_or_default(),
                endpoint.port
            );
            errors.push(ConfigError::conflict(
                ADVERTISED,
                &shown,
                "an address that clients can reach, for each listener",
            ));
        }
        if !bound.iter().any(|listener| listener.name == endpoint.name) {
            errors.push(ConfigError::conflict(
                ADVERTISED,
                &endpoint.name,
                "only names that are in listeners",
            ));
        }
    }
    let advertised = |name: &str| {
        told.iter()
            .find(|endpoint| endpoint.name == name)
            .map(|endpoint| AdvertisedAddress {
                host: endpoint.host.clone(),
                port: (endpoint.port != 0).then_some(endpoint.port),
            })
    };
    bound
        .into_iter()
        .map(|bind| BrokerListener {
            advertised: advertised(&bind.name),
            bind,
        })
        .collect()
}

fn inter_broker_name(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> String {
    let named = config.text(INTER_BROKER);
    if let (Some(name), Some(_)) = (&named, config.given_text(INTER_BROKER_PROTOCOL)) {
        let allowed = format!("only one of this and {INTER_BROKER_PROTOCOL}");
        errors.push(ConfigError::conflict(INTER_BROKER, name, allowed));
    }
    named.map_or_else(|| "PLAINTEXT".to_owned(), |name| name.to_ascii_uppercase())
}

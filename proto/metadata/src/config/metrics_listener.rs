//! Where a node is watched: `metrics.listener`.

use super::error::{ConfigError, Problem};
use super::node::NodeConfig;
use super::voters::without_brackets;

/// Where metrics and probes are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsListener {
    /// A name or address of this machine; `0.0.0.0` or `::` for every address.
    pub host: String,
    /// The port; 0 lets the system choose one, as for any socket.
    pub port: u16,
}

const KEY: &str = "metrics.listener";

/// Where metrics are served, if they are: whoever wants them seen must say where, for whoever can reach them may read
/// them.
pub(super) fn metrics_listener(
    config: &NodeConfig,
    errors: &mut Vec<ConfigError>,
) -> Option<MetricsListener> {
    let given = config.text(KEY)?;
    let read = read(&given);
    if read.is_none() {
        let allowed = "host:port, such as 127.0.0.1:9404";
        errors.push(ConfigError::new(KEY, Some(&given), Problem::WrongType, allowed));
    }
    read
}

fn read(given: &str) -> Option<MetricsListener> {
    let (host, port) = given.rsplit_once(':')?;
    let host = without_brackets(host).filter(|host| !host.is_empty())?;
    Some(MetricsListener {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use crate::config::{BrokerSettings, ControllerSettings};

    fn config(role: &str, listener: Option<&str>) -> NodeConfig {
        let file = match role {
            "broker" => {
                "process.roles=broker\nnode.id=1\nlog.dirs=/d\nlisteners=PLAINTEXT://127.0.0.1:9092\n\
                 controller.quorum.voters=101@127.0.0.1:9093\n"
            }
            _ => {
                "process.roles=controller\nnode.id=101\nlog.dirs=/d\nlisteners=CONTROLLER://127.0.0.1:9093\n\
                 controller.listener.names=CONTROLLER\ncontroller.quorum.voters=101@127.0.0.1:9093\n"
            }
        };
        let sets: Vec<_> = listener
            .map(|value| (KEY.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        NodeConfig::resolve(Some(file), &[], &sets).unwrap()
    }

    fn at(host: &str, port: u16) -> Option<MetricsListener> {
        let host = host.to_owned();
        Some(MetricsListener { host, port })
    }

    #[test]
    fn metrics_are_served_where_the_key_says_and_nowhere_without_it() {
        let broker = |given| {
            BrokerSettings::from_config(&config("broker", given))
                .unwrap()
                .metrics
        };
        let controller = |given| {
            let settings = ControllerSettings::from_config(&config("controller", given));
            settings.unwrap().metrics
        };
        assert_eq!((broker(None), controller(None)), (None, None));
        assert_eq!(broker(Some("127.0.0.1:9404")), at("127.0.0.1", 9404));
        assert_eq!(controller(Some("[::1]:0")), at("::1", 0));
    }

    #[test]
    fn a_listener_that_is_no_address_is_refused() {
        for wrong in ["9404", "127.0.0.1", ":9404", "127.0.0.1:70000"] {
            let errors = BrokerSettings::from_config(&config("broker", Some(wrong))).unwrap_err();
            let expected = format!("metrics.listener={wrong}: wrong type; host:port, such as 127.0.0.1:9404");
            assert_eq!(
                errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
                [expected]
            );
        }
    }
}

//! Endpoints and feature ranges of a registration.

use metadata::record::{Endpoint, LevelRange, SecurityProtocol};

use super::Malformed;
use crate::v1;

impl From<&Endpoint> for v1::BrokerEndpoint {
    fn from(endpoint: &Endpoint) -> Self {
        Self {
            listener: endpoint.listener.clone(),
            host: endpoint.host.clone(),
            port: u32::from(endpoint.port),
            security: match endpoint.security {
                SecurityProtocol::Plaintext => 0,
                SecurityProtocol::Ssl => 1,
                SecurityProtocol::SaslPlaintext => 2,
                SecurityProtocol::SaslSsl => 3,
            },
        }
    }
}

impl TryFrom<v1::BrokerEndpoint> for Endpoint {
    type Error = Malformed;

    fn try_from(message: v1::BrokerEndpoint) -> Result<Self, Malformed> {
        let port = u16::try_from(message.port)
            .map_err(|_| Malformed::new("port", format!("{} is no port", message.port)))?;
        let security = match message.security {
            0 => SecurityProtocol::Plaintext,
            1 => SecurityProtocol::Ssl,
            2 => SecurityProtocol::SaslPlaintext,
            3 => SecurityProtocol::SaslSsl,
            other => {
                return Err(Malformed::new(
                    "security",
                    format!("{other} is no security protocol"),
                ));
            }
        };
        Ok(Self {
            listener: message.listener,
            host: message.host,
            port,
            security,
        })
    }
}

/// A feature's name with the levels that a node can run with.
impl TryFrom<v1::FeatureRange> for (String, LevelRange) {
    type Error = Malformed;

    fn try_from(message: v1::FeatureRange) -> Result<Self, Malformed> {
        let level = |given: i32| {
            i16::try_from(given)
                .map_err(|_| Malformed::new("feature", format!("{given} is no feature level")))
        };
        let (min, max) = (level(message.min)?, level(message.max)?);
        Ok((message.name, LevelRange { min, max }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn an_endpoint_survives_the_wire() {
        let endpoint = Endpoint {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            security: SecurityProtocol::SaslSsl,
        };
        assert_eq!(
            Endpoint::try_from(v1::BrokerEndpoint::from(&endpoint)).unwrap(),
            endpoint
        );
    }

    #[test]
    fn a_port_beyond_the_range_is_malformed() {
        let message = v1::BrokerEndpoint {
            port: 65_536,
            ..Default::default()
        };
        assert_eq!(Endpoint::try_from(message).unwrap_err().field, "port");
    }
}

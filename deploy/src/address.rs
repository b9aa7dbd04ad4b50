//! `host:port`, as it is written on the command line.

use std::fmt;
use std::str::FromStr;

/// Where a process listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not HOST:PORT");
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(bad)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let unclear = bare.is_none() && host.contains(':');
        let port: u16 = port.parse().ok().filter(|port| *port != 0).ok_or_else(bad)?;
        if host.is_empty() || unclear {
            return Err(bad());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_is_written() {
        for text in ["127.0.0.1:9092", "broker-1.example:1", "[::1]:65535"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_dialled_is_no_address() {
        for text in [
            "",
            "broker",
            ":9092",
            "broker:",
            "broker:0",
            "broker:99999",
            "::1:9092",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}

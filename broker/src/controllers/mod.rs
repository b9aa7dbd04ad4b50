//! The broker's side of what it says to controllers: where they are, the session, the metadata stream, forwarded
//! commands.
//!
//! Must not: remember an address that was resolved. Names are resolved again at every dial (BC-048).

pub mod admin;
pub mod cluster;
pub mod follow;
pub mod session;
mod silence;
pub mod status;

use std::collections::HashMap;
use std::time::Duration;

use broker_core::time::Moment;
use metadata::config::ControllerAddress;
use metadata::ids::ControllerId;
use millrace_proto::v1;
use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};
use tracing::{info, warn};

use self::silence::{Silence, Untold};

/// How long a dial may take. A peer that drops packets must not hold up the search for another controller.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How often an idle connection is asked whether it is still there.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// How long the answer to that may take.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest message accepted: twice what a batch may have, as the quorum does.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Largest reply to a command accepted, as the controllers have it: they say something about each of the things named.
const REPLY_BYTES_MAX: usize = 32 * MESSAGE_BYTES_MAX;

/// The controllers as far as this broker knows them.
#[derive(Debug)]
pub struct Controllers {
    /// `host:port` of each, as configured; names stay names.
    configured: Vec<String>,
    state: Mutex<State>,
    silence: Mutex<Silence>,
}

#[derive(Debug, Default)]
struct State {
    channels: HashMap<String, Channel>,
    /// As controllers told of each other.
    addresses: HashMap<ControllerId, String>,
    /// Who said last to be active, or was said to be.
    active: Option<String>,
    /// Where to go on when nobody is believed to be active.
    next: usize,
}

impl Controllers {
    /// The controllers of a configuration.
    pub fn new(addresses: &[ControllerAddress]) -> Controllers {
        let written = |address: &ControllerAddress| match address.host.contains(':') {
            true => format!("[{}]:{}", address.host, address.port),
            false => format!("{}:{}", address.host, address.port),
        };
        Controllers {
            configured: addresses.iter().map(written).collect(),
            state: Mutex::default(),
            silence: Mutex::default(),
        }
    }

    /// The address to ask next: the one believed to be active, else each in turn.
    pub fn candidate(&self) -> String {
        let mut state = self.state.lock();
        if let Some(active) = &state.active {
            return active.clone();
        }
        self.in_turn(&mut state)
    }

    /// Some controller, each in turn: for what any of them can answer.
    pub fn any(&self) -> String {
        self.in_turn(&mut self.state.lock())
    }

    fn in_turn(&self, state: &mut State) -> String {
        let chosen = state.next % self.configured.len();
        state.next = state.next.wrapping_add(1);
        self.configured[chosen].clone()
    }

    /// The address to open a session at: that of a named controller where it is known, else as [`Self::candidate`].
    pub fn for_session(&self, prefer: Option<ControllerId>) -> String {
        let known = prefer.and_then(|id| self.state.lock().addresses.get(&id).cloned());
        known.unwrap_or_else(|| self.candidate())
    }

    /// Notes who is active.
    pub fn learn(&self, active: &v1::ControllerAddress) {
        if !active.address.is_empty() {
            let mut state = self.state.lock();
            state
                .addresses
                .insert(ControllerId(active.id), active.address.clone());
            state.active = Some(active.address.clone());
        }
    }

    /// Notes that this one is not active, or does not answer; `hint` is whom it named.
    pub fn unlearn(&self, address: &str, hint: Option<&v1::ControllerAddress>) {
        let mut state = self.state.lock();
        match hint {
            Some(hint) if !hint.address.is_empty() && hint.address != address => {
                state
                    .addresses
                    .insert(ControllerId(hint.id), hint.address.clone());
                state.active = Some(hint.address.clone());
            }
            _ if state.active.as_deref() == Some(address) => state.active = None,
            _ => {}
        }
    }

    /// This one does not answer, or is of no use. That nobody is gets told.
    pub fn unanswered(&self, address: &str, why: &str, now: Moment) {
        let untold = self.silence.lock().goes_on(address, why.to_owned(), now);
        if let Some(Untold { tried, lasts }) = untold {
            warn!(%tried, lasts_s = lasts.as_secs(),
                "no controller answers; it is tried on. Look whether the controllers run, whether a majority of them reach each \
                 other, and whether controller.quorum.voters or controller.quorum.bootstrap.servers names them");
        }
    }

    /// One answers.
    pub fn answered(&self) {
        if self.silence.lock().ends() {
            info!("a controller answers");
        }
    }

    /// A connection to an address; made when it is first used, and made again when it broke.
    pub fn channel(&self, address: &str) -> Result<Channel, tonic::transport::Error> {
        let mut state = self.state.lock();
        if let Some(channel) = state.channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = Endpoint::from_shared(format!("http://{address}"))?
            .connect_timeout(DIAL_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .connect_lazy();
        state.channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }
}

/// Why a controller does not answer, in words: the cause of a broken connection lies deep within.
pub fn why(status: &tonic::Status) -> String {
    let mut innermost: Option<&dyn std::error::Error> = std::error::Error::source(status);
    while let Some(deeper) = innermost.and_then(std::error::Error::source) {
        innermost = Some(deeper);
    }
    let message = status.message();
    match innermost.map(ToString::to_string) {
        Some(cause) if !message.contains(&cause) => format!("{message}: {cause}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controllers() -> Controllers {
        let address = |port| ControllerAddress {
            id: None,
            host: "c".into(),
            port,
        };
        Controllers::new(&[address(1), address(2)])
    }

    fn named(address: &str) -> v1::ControllerAddress {
        v1::ControllerAddress {
            id: 7,
            address: address.into(),
        }
    }

    #[test]
    fn the_active_one_is_asked_until_it_says_no() {
        let controllers = controllers();
        assert_eq!(
            [
                controllers.candidate(),
                controllers.candidate(),
                controllers.candidate()
            ],
            ["c:1", "c:2", "c:1"]
        );
        controllers.learn(&named("c:2"));
        assert_eq!([controllers.candidate(), controllers.candidate()], ["c:2", "c:2"]);
        controllers.unlearn("c:2", Some(&named("c:1")));
        assert_eq!(controllers.candidate(), "c:1");
        controllers.unlearn("c:1", None);
        assert_eq!([controllers.candidate(), controllers.candidate()], ["c:2", "c:1"]);
    }

    #[test]
    fn a_late_no_from_another_changes_nothing() {
        let controllers = controllers();
        controllers.learn(&named("c:2"));
        controllers.unlearn("c:1", None);
        assert_eq!(controllers.candidate(), "c:2");
    }
}

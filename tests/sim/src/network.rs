//! Links between nodes: how long a message takes, and whether it arrives at all.
//!
//! Must not: know messages. A cut is one-way; two cuts make a full one.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::chance::Chance;
use crate::message::NodeId;

/// How links behave while no fault is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Least delay.
    pub delay_min: Duration,
    /// Usual largest delay.
    pub delay_max: Duration,
    /// Of a thousand messages so many take much longer, and so arrive out of order.
    pub slow_per_mille: u64,
    /// Of a thousand questions or answers so many are lost.
    pub lost_per_mille: u64,
    /// Of a thousand questions so many arrive twice.
    pub repeated_per_mille: u64,
}

impl Weather {
    /// Nothing is lost, late or repeated.
    pub const FAIR: Self = Self {
        delay_min: Duration::from_micros(100),
        delay_max: Duration::from_millis(1),
        slow_per_mille: 0,
        lost_per_mille: 0,
        repeated_per_mille: 0,
    };
}

/// All links.
#[derive(Debug)]
pub struct Network {
    chance: Chance,
    /// The present behaviour.
    pub weather: Weather,
    cut: BTreeSet<(NodeId, NodeId)>,
}

impl Network {
    /// Links that work.
    #[must_use]
    pub fn new(chance: Chance, weather: Weather) -> Self {
        Self {
            chance,
            weather,
            cut: BTreeSet::new(),
        }
    }

    /// Nothing goes from the one to the other from now on.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cut.insert((from, to));
    }

    /// Everything goes from the one to the other again.
    pub fn mend(&mut self, from: NodeId, to: NodeId) {
        self.cut.remove(&(from, to));
    }

    /// Everything goes everywhere again.
    pub fn mend_all(&mut self) {
        self.cut.clear();
    }

    /// Whether a message from the one can reach the other.
    #[must_use]
    pub fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// Whether both can talk: what a connection needs.
    #[must_use]
    pub fn connects(&self, one: NodeId, other: NodeId) -> bool {
        self.reaches(one, other) && self.reaches(other, one)
    }

    /// How long a message takes.
    pub fn delay(&mut self) -> Duration {
        let weather = self.weather;
        if self.chance.per_mille(weather.slow_per_mille) {
            return self.chance.span(weather.delay_max * 5, weather.delay_max * 60);
        }
        self.chance.span(weather.delay_min, weather.delay_max)
    }

    /// The moments, from now, at which copies of a message arrive: none if it is lost.
    pub fn copies(&mut self, from: NodeId, to: NodeId) -> Vec<Duration> {
        if !self.reaches(from, to) || self.chance.per_mille(self.weather.lost_per_mille) {
            return Vec::new();
        }
        let mut copies = vec![self.delay()];
        if self.chance.per_mille(self.weather.repeated_per_mille) {
            copies.push(self.delay() * 3);
        }
        copies
    }
}

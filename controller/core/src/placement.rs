//! Which brokers get the replicas of new partitions: striped over racks, leaders spread over live brokers
//! (R2.20–R2.25). Load and disk use do not count.
//!
//! Chance comes from a seed, so one command places the same way whenever it is decided again.

use std::collections::BTreeMap;

use metadata::ids::BrokerId;
use metadata::image::Image;

use crate::chance::Draws;

/// Where replicas may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    racks: BTreeMap<Option<String>, RackMembers>,
    unfenced: usize,
    fenced: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RackMembers {
    unfenced: Vec<BrokerId>,
    fenced: Vec<BrokerId>,
}

fn only(candidates: usize) -> String {
    match candidates {
        1 => "is only 1 broker".to_owned(),
        many => format!("are only {many} brokers"),
    }
}

/// Why no placement exists (R2.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlacement {
    /// Zero or fewer replicas were asked for.
    #[error("it must be at least 1")]
    NotPositive,
    /// Nobody could lead.
    #[error("no broker is live")]
    NoneUnfenced,
    /// More replicas than brokers.
    #[error("there {} that can take replicas", only(*.candidates))]
    TooMany {
        /// How many there are, fenced ones included.
        candidates: usize,
    },
}

impl Candidates {
    /// The brokers of an image that may take replicas: all that are not shutting down, the fenced ones as a last
    /// resort (R2.20).
    #[must_use]
    pub fn of(image: &Image) -> Self {
        let mut candidates = Self::default();
        let staying = image
            .brokers
            .iter()
            .filter(|(_, broker)| !broker.in_controlled_shutdown);
        for (id, broker) in staying {
            let rack = candidates.racks.entry(broker.rack.clone()).or_default();
            if broker.fenced {
                rack.fenced.push(*id);
                candidates.fenced += 1;
            } else {
                rack.unfenced.push(*id);
                candidates.unfenced += 1;
            }
        }
        candidates
    }

    /// Replicas for `partitions` partitions, the preferred leader of each first.
    ///
    /// # Errors
    /// When the replication factor cannot be met.
    pub fn place(
        &self,
        partitions: usize,
        replication_factor: usize,
        draws: &mut Draws,
    ) -> Result<Vec<Vec<BrokerId>>, NoPlacement> {
        let candidates = self.unfenced + self.fenced;
        if replication_factor == 0 {
            return Err(NoPlacement::NotPositive);
        }
        if self.unfenced == 0 {
            return Err(NoPlacement::NoneUnfenced);
        }
        if replication_factor > candidates {
            return Err(NoPlacement::TooMany { candidates });
        }
        let mut stripes = Stripes::over(self, draws);
        Ok((0..partitions)
            .map(|_| stripes.next_partition(replication_factor, draws))
            .collect())
    }
}

/// Walks the racks, one step further for each partition.
struct Stripes {
    racks: Vec<Rack>,
    /// Where the next partition starts.
    first: usize,
    /// Partitions since the last reshuffle.
    round: usize,
    unfenced: usize,
}

struct Rack {
    unfenced: Ring,
    fenced: Ring,
}

/// Brokers of one rack in a circle. Each partition starts one further and meets each broker at most once.
struct Ring {
    brokers: Vec<BrokerId>,
    start: usize,
    taken: usize,
}

impl Ring {
    fn over(brokers: &[BrokerId], draws: &mut Draws) -> Self {
        let start = if brokers.is_empty() {
            0
        } else {
            draws.below(brokers.len())
        };
        Self {
            brokers: brokers.to_vec(),
            start,
            taken: 0,
        }
    }

    fn begin_partition(&mut self) {
        self.taken = 0;
        self.start = if self.brokers.is_empty() {
            0
        } else {
            (self.start + 1) % self.brokers.len()
        };
    }

    fn take(&mut self) -> Option<BrokerId> {
        if self.taken == self.brokers.len() {
            return None;
        }
        let broker = self.brokers[(self.start + self.taken) % self.brokers.len()];
        self.taken += 1;
        Some(broker)
    }
}

impl Stripes {
    fn over(candidates: &Candidates, draws: &mut Draws) -> Self {
        let racks: Vec<Rack> = candidates
            .racks
            .values()
            .map(|members| Rack {
                unfenced: Ring::over(&members.unfenced, draws),
                fenced: Ring::over(&members.fenced, draws),
            })
            .collect();
        Self {
            first: draws.below(racks.len()),
            racks,
            round: 0,
            unfenced: candidates.unfenced,
        }
    }

    fn next_partition(&mut self, replication_factor: usize, draws: &mut Draws) -> Vec<BrokerId> {
        // After as many partitions as there are live brokers the same stripes would come again (R2.24).
        if self.round == self.unfenced && self.unfenced > 1 {
            self.reshuffle(draws);
        }
        for rack in &mut self.racks {
            rack.unfenced.begin_partition();
            rack.fenced.begin_partition();
        }
        let (leader_rack, leader) = self.leader();
        let mut replicas = vec![leader];
        // The leader's rack has had its turn: it is passed over once (R2.23).
        let mut leader_rack_waits = true;
        let mut at = self.first;
        while replicas.len() < replication_factor {
            if leader_rack_waits && at == leader_rack {
                leader_rack_waits = false;
            } else {
                let rack = &mut self.racks[at];
                replicas.extend(rack.unfenced.take().or_else(|| rack.fenced.take()));
            }
            at = (at + 1) % self.racks.len();
        }
        self.first = (self.first + 1) % self.racks.len();
        self.round += 1;
        replicas
    }

    fn leader(&mut self) -> (usize, BrokerId) {
        let count = self.racks.len();
        (0..count)
            .map(|step| (self.first + step) % count)
            .find_map(|at| self.racks[at].unfenced.take().map(|leader| (at, leader)))
            .expect("some rack has a live broker")
    }

    fn reshuffle(&mut self, draws: &mut Draws) {
        draws.shuffle(&mut self.racks);
        for rack in &mut self.racks {
            draws.shuffle(&mut rack.unfenced.brokers);
            draws.shuffle(&mut rack.fenced.brokers);
        }
        self.round = 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use proptest::prelude::*;

    fn candidates(brokers: &[(i32, Option<&str>, bool)]) -> Candidates {
        let mut candidates = Candidates::default();
        for (id, rack, fenced) in brokers {
            let members = candidates.racks.entry(rack.map(str::to_owned)).or_default();
            if *fenced {
                members.fenced.push(BrokerId(*id));
                candidates.fenced += 1;
            } else {
                members.unfenced.push(BrokerId(*id));
                candidates.unfenced += 1;
            }
        }
        candidates
    }

    #[test]
    fn more_replicas_than_brokers_cannot_be_placed() {
        let three = candidates(&[(1, None, false), (2, None, false), (3, None, true)]);
        let place = |factor| three.place(1, factor, &mut Draws::from_seed(0));
        assert_eq!(place(4), Err(NoPlacement::TooMany { candidates: 3 }));
        assert_eq!(place(0), Err(NoPlacement::NotPositive));
        assert_eq!(place(3).unwrap().len(), 1);
    }

    #[test]
    fn nothing_is_placed_where_nobody_could_lead() {
        let fenced = candidates(&[(1, None, true), (2, None, true)]);
        assert_eq!(
            fenced.place(1, 1, &mut Draws::from_seed(0)),
            Err(NoPlacement::NoneUnfenced)
        );
    }

    proptest! {
        #[test]
        fn placements_keep_their_promises(
            seed in any::<u128>(),
            brokers in proptest::collection::vec((0_usize..4, any::<bool>()), 1..12),
            partitions in 1_usize..40,
            factor in 1_usize..6,
        ) {
            let racks = ["a", "b", "c", "d"];
            let listed: Vec<(i32, Option<&str>, bool)> = brokers
                .iter()
                .enumerate()
                .map(|(id, (rack, fenced))| (i32::try_from(id).unwrap(), Some(racks[*rack]), *fenced))
                .collect();
            let candidates = candidates(&listed);
            let placed = candidates.place(partitions, factor, &mut Draws::from_seed(seed));
            let again = candidates.place(partitions, factor, &mut Draws::from_seed(seed));
            prop_assert_eq!(&placed, &again, "a seed places the same way again");
            let Ok(placed) = placed else {
                prop_assert!(candidates.unfenced == 0 || factor > listed.len());
                return Ok(());
            };
            prop_assert_eq!(placed.len(), partitions);
            let rack_of = |id: &BrokerId| listed[usize::try_from(id.0).unwrap()].1.unwrap();
            let is_fenced = |id: &BrokerId| listed[usize::try_from(id.0).unwrap()].2;
            for replicas in &placed {
                prop_assert_eq!(replicas.len(), factor);
                let distinct: std::collections::BTreeSet<_> = replicas.iter().collect();
                prop_assert_eq!(distinct.len(), factor, "no broker twice");
                prop_assert!(!is_fenced(&replicas[0]), "the preferred leader is live");
                if factor <= candidates.racks.len() {
                    let used: std::collections::BTreeSet<_> = replicas.iter().map(rack_of).collect();
                    prop_assert_eq!(used.len(), factor, "racks are distinct while they last");
                }
            }
        }

        #[test]
        fn leaders_are_spread_evenly_over_one_rack(seed in any::<u128>(), brokers in 1_i32..8, rounds in 1_usize..6) {
            let listed: Vec<(i32, Option<&str>, bool)> = (0..brokers).map(|id| (id, None, false)).collect();
            let count = usize::try_from(brokers).unwrap();
            let placed = candidates(&listed).place(count * rounds, 1, &mut Draws::from_seed(seed)).unwrap();
            for id in 0..brokers {
                let led = placed.iter().filter(|replicas| replicas[0] == BrokerId(id)).count();
                prop_assert_eq!(led, rounds);
            }
        }
    }
}

//! One change to one partition: who stays in sync, who is eligible, who leads (R3.10–R3.17, R3.30–R3.32, R3.62).
//!
//! Every change of a partition is computed here, whatever caused it. Must not know why a broker comes or goes.

use metadata::ids::{BrokerId, DirectoryId, PartitionId};
use metadata::image::{Image, Partition};
use metadata::record::{LeaderChange, LeaderRecovery, PartitionChanged};

use crate::mutants::{self, Mutant};
use crate::rules::{ElectionRules, Unclean};

/// Which leader is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// Any, the present one first.
    Any,
    /// The preferred replica, if it can.
    Preferred,
}

/// Brokers that an operation sees differently than the image does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Movement {
    /// Counts as active, although it is still fenced.
    pub arriving: Option<BrokerId>,
    /// Counts as gone, although it is still active.
    pub leaving: Option<BrokerId>,
    /// Restarted without a clean stop: what it had is not trusted.
    pub unclean: Option<BrokerId>,
}

/// A partition on its way into another state.
#[derive(Clone, Debug)]
pub struct PartitionChange<'a> {
    id: PartitionId,
    before: &'a Partition,
    image: &'a Image,
    rules: ElectionRules,
    eligible_served: bool,
    election: Election,
    movement: Movement,
    replicas: Vec<BrokerId>,
    directories: Vec<DirectoryId>,
    emptied: Option<BrokerId>,
    in_sync: Vec<BrokerId>,
    eligible: Vec<BrokerId>,
    adding: Vec<BrokerId>,
    removing: Vec<BrokerId>,
    recovery: LeaderRecovery,
}

/// Who was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elected {
    /// With all committed data.
    Clean(BrokerId),
    /// Perhaps without.
    Uncleanly(BrokerId),
    Nobody,
}

impl<'a> PartitionChange<'a> {
    /// A change of nothing yet.
    #[must_use]
    pub fn of(id: PartitionId, before: &'a Partition, image: &'a Image, rules: ElectionRules) -> Self {
        Self {
            id,
            before,
            image,
            rules,
            eligible_served: crate::rules::eligible_replicas_served(image),
            election: Election::Any,
            movement: Movement::default(),
            replicas: before.replicas.clone(),
            directories: before.directories.clone(),
            emptied: None,
            in_sync: before.in_sync.clone(),
            eligible: before.eligible.clone(),
            adding: before.adding.clone(),
            removing: before.removing.clone(),
            recovery: before.recovery,
        }
    }

    /// Sees brokers as the operation does; those that go are taken out of the in-sync set.
    #[must_use]
    pub fn moving(mut self, movement: Movement) -> Self {
        self.movement = movement;
        let gone = [movement.leaving, movement.unclean];
        self.in_sync.retain(|id| !gone.contains(&Some(*id)));
        self
    }

    /// A replica begins empty in another directory.
    #[must_use]
    pub fn emptied_into(mut self, broker: BrokerId, directory: DirectoryId) -> Self {
        let at = self.before.replicas.iter().position(|replica| *replica == broker);
        if let Some(place) = at.and_then(|at| self.directories.get_mut(at)) {
            *place = directory;
            self.emptied = Some(broker);
        }
        self
    }

    /// The in-sync set that is wished for.
    #[must_use]
    pub fn with_in_sync(mut self, in_sync: Vec<BrokerId>) -> Self {
        self.in_sync = in_sync;
        self
    }

    /// What the leader says of its recovery.
    #[must_use]
    pub fn with_recovery(mut self, recovery: LeaderRecovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Looks for another kind of leader.
    #[must_use]
    pub fn electing(mut self, election: Election) -> Self {
        self.election = election;
        self
    }

    /// The record that makes the change; nothing when nothing changes.
    #[must_use]
    pub fn record(mut self) -> Option<PartitionChanged> {
        self.complete_reassignment();
        self.recompute_eligible();
        let elected = self.elect();
        let leader = match elected {
            Elected::Clean(broker) | Elected::Uncleanly(broker) => Some(broker),
            Elected::Nobody => None,
        };
        let mut record = PartitionChanged::of(self.id);
        self.seat(elected);
        if leader != self.before.leader || self.drops_a_replica() {
            // A leader of fewer replicas gets a new epoch even when it stays, so that the dropped one is fenced off
            // (R3.3).
            record.leader = Some(leader.map_or(LeaderChange::Nobody, LeaderChange::To));
        }
        if !self.eligible_served {
            self.eligible.clear();
        }
        record.eligible = (self.eligible != self.before.eligible).then(|| self.eligible.clone());
        // Without eligible replicas the last in-sync one stays listed: dropping it would forget who has the data
        // (R3.17).
        let may_be_written = !self.in_sync.is_empty() || self.eligible_served;
        if may_be_written && self.in_sync != self.before.in_sync {
            record.in_sync = Some(self.in_sync.clone());
        }
        record.last_known_leader = self.last_known_leader(leader);
        self.write_assignment(&mut record);
        record.recovery = (self.recovery != self.before.recovery).then_some(self.recovery);
        (!record.is_empty()).then_some(record)
    }

    /// R3.62: a reassignment ends when those that stay are in sync, so far as that matters.
    fn complete_reassignment(&mut self) {
        if self.adding.is_empty() && self.removing.is_empty() {
            return;
        }
        let stays = |id: &BrokerId| !self.removing.contains(id);
        let in_sync: Vec<BrokerId> = self.in_sync.iter().copied().filter(stays).collect();
        let replicas: Vec<BrokerId> = self.replicas.iter().copied().filter(stays).collect();
        let has = |ids: &[BrokerId]| ids.iter().all(|id| in_sync.contains(id));
        let shrinks = self.adding.len() < self.removing.len();
        if in_sync.is_empty() || replicas.is_empty() || !has(&self.adding) || (shrinks && !has(&replicas)) {
            return;
        }
        self.in_sync = in_sync;
        self.replicas = replicas;
        self.adding.clear();
        self.removing.clear();
    }

    /// R3.30, held within the replicas.
    fn recompute_eligible(&mut self) {
        if !self.eligible_served {
            return;
        }
        if self.has_enough_in_sync() {
            self.eligible.clear();
            return;
        }
        let had_everything =
            |id: &BrokerId| self.before.eligible.contains(id) || self.before.in_sync.contains(id);
        let still = |id: &BrokerId| !self.in_sync.contains(id) && self.movement.unclean != Some(*id);
        let replicas = self.replicas.iter().copied();
        self.eligible = replicas.filter(|id| had_everything(id) && still(id)).collect();
    }

    /// Whether more may be committed than the eligible replicas hold.
    fn has_enough_in_sync(&self) -> bool {
        self.in_sync.len() >= self.rules.min_in_sync.min(self.replicas.len())
    }

    /// R3.11, R3.12.
    fn is_acceptable(&self, id: BrokerId) -> bool {
        let Movement {
            arriving,
            leaving,
            unclean,
        } = self.movement;
        if leaving == Some(id) || unclean == Some(id) {
            return false;
        }
        let Some(broker) = self.image.brokers.get(&id) else {
            return false;
        };
        (arriving == Some(id) || broker.is_active()) && self.image.replica_is_online(self.before, id)
    }

    fn is_valid(&self, id: BrokerId) -> bool {
        let trusted = self.in_sync.contains(&id)
            || (self.in_sync.is_empty() && self.eligible.contains(&id))
            || mutants::is_selected(Mutant::ElectedOutsideInSync);
        trusted && self.is_acceptable(id)
    }

    /// R3.13–R3.15 and the table above them.
    fn elect(&self) -> Elected {
        let current = self.before.leader.filter(|id| self.is_valid(*id));
        let preferred = self.replicas.first().copied().filter(|id| self.is_valid(*id));
        let any = self.replicas.iter().copied().find(|id| self.is_valid(*id));
        let clean = match self.election {
            Election::Any => current.or(any),
            Election::Preferred => preferred.or(current).or(any),
        };
        if let Some(leader) = clean {
            return Elected::Clean(leader);
        }
        if let Some(leader) = self.electable_last_known() {
            return Elected::Uncleanly(leader);
        }
        let unclean = match (self.election, self.rules.unclean) {
            (Election::Any, Unclean::Allowed) => {
                self.replicas.iter().copied().find(|id| self.is_acceptable(*id))
            }
            _ => None,
        };
        unclean.map_or(Elected::Nobody, Elected::Uncleanly)
    }

    fn electable_last_known(&self) -> Option<BrokerId> {
        if !self.eligible_served || !self.in_sync.is_empty() || !self.eligible.is_empty() {
            return None;
        }
        let known = self.before.last_known_leader;
        known.filter(|id| self.replicas.contains(id) && self.is_acceptable(*id))
    }

    /// What an election means for the in-sync and eligible sets.
    fn seat(&mut self, elected: Elected) {
        match elected {
            Elected::Clean(leader) if !self.in_sync.contains(&leader) => {
                self.in_sync = vec![leader];
                self.eligible.retain(|id| *id != leader);
                // The minimum may be lower than it was when they became eligible.
                if self.has_enough_in_sync() {
                    self.eligible.clear();
                }
            }
            Elected::Uncleanly(leader) => {
                self.in_sync = vec![leader];
                self.eligible.clear();
                self.recovery = LeaderRecovery::Recovering;
            }
            Elected::Clean(_) | Elected::Nobody => {}
        }
    }

    fn drops_a_replica(&self) -> bool {
        self.before.replicas.iter().any(|id| !self.replicas.contains(id))
    }

    /// R3.16; `None` is "as before". One that lost everything is no last known leader while another replica may
    /// have something: to elect it would empty that one as well.
    fn last_known_leader(&self, leader: Option<BrokerId>) -> Option<Option<BrokerId>> {
        let before = self.before.last_known_leader;
        let is_empty = |id: BrokerId| self.emptied == Some(id) && self.replicas.len() > 1;
        match (leader, before) {
            (Some(_), Some(_)) => Some(None),
            (None, Some(known)) => is_empty(known).then_some(None),
            (None, None) if self.eligible_served => {
                let led = self.before.leader.filter(|id| !is_empty(*id));
                led.map(Some)
            }
            _ => None,
        }
    }

    fn write_assignment(&self, record: &mut PartitionChanged) {
        let directory_of = |id: &BrokerId| {
            let at = self.before.replicas.iter().position(|replica| replica == id);
            at.map_or(DirectoryId::UNASSIGNED, |at| self.directories[at])
        };
        let directories: Vec<DirectoryId> = self.replicas.iter().map(directory_of).collect();
        record.directories = (directories != self.before.directories).then_some(directories);
        if self.replicas != self.before.replicas {
            record.replicas = Some(self.replicas.clone());
        }
        record.adding = (self.adding != self.before.adding).then(|| self.adding.clone());
        record.removing = (self.removing != self.before.removing).then(|| self.removing.clone());
    }
}

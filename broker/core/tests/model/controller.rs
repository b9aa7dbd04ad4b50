//! The controller's part: who leads, who is in sync, and which proposals are taken (R3.51). Elections are clean.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_core::replica::{
    Assignment, IsrAnswer, IsrRefusal, MinInSync, PartitionState, Proposal, Registration, Standing,
};
use metadata::ids::{
    BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, PartitionId, PartitionIndex, TopicId,
};
use metadata::image::Partition;
use metadata::record::LeaderRecovery;
use metadata::uuid::Uuid;

pub const PARTITION: PartitionId = PartitionId {
    topic: TopicId(Uuid(500)),
    index: PartitionIndex(0),
};

pub struct Controller {
    pub state: Partition,
    pub min_in_sync: usize,
    registrations: BTreeMap<BrokerId, Registration>,
    next_broker_epoch: BrokerEpoch,
}

impl Controller {
    pub fn new(min_in_sync: usize) -> Self {
        let brokers: Vec<BrokerId> = (0..3).map(BrokerId).collect();
        let active = |id: &BrokerId| {
            (
                *id,
                Registration {
                    epoch: BrokerEpoch(i64::from(id.0)),
                    standing: Standing::Active,
                },
            )
        };
        Self {
            state: Partition {
                replicas: brokers.clone(),
                directories: vec![DirectoryId::UNASSIGNED; 3],
                in_sync: brokers.clone(),
                eligible: Vec::new(),
                last_known_leader: None,
                adding: Vec::new(),
                removing: Vec::new(),
                leader: Some(BrokerId(0)),
                recovery: LeaderRecovery::Recovered,
                leader_epoch: LeaderEpoch(0),
                epoch: PartitionEpoch(0),
            },
            min_in_sync,
            registrations: brokers.iter().map(active).collect(),
            next_broker_epoch: BrokerEpoch(10),
        }
    }

    pub fn assignment(&self, me: BrokerId) -> Assignment {
        Assignment {
            partition: PARTITION,
            me,
            state: Arc::new(self.state.clone()),
            min_in_sync: MinInSync(self.min_in_sync),
            registrations: self.registrations.clone(),
        }
    }

    fn is_active(&self, broker: BrokerId) -> bool {
        self.registrations[&broker].standing == Standing::Active
    }

    fn lead(&mut self, leader: Option<BrokerId>) {
        self.state.leader = leader;
        self.state.leader_epoch = self.state.leader_epoch.next();
        self.state.epoch = self.state.epoch.next();
    }

    pub fn elect(&mut self, nth: usize) {
        let members: Vec<BrokerId> = self
            .state
            .in_sync
            .iter()
            .copied()
            .filter(|member| self.is_active(*member))
            .collect();
        if let Some(member) = members.get(nth)
            && self.state.leader != Some(*member)
        {
            self.lead(Some(*member));
        }
    }

    /// The last member stays on the list, so that it is known who has everything (R3.17).
    pub fn fence(&mut self, broker: BrokerId) {
        self.registrations.get_mut(&broker).unwrap().standing = Standing::Fenced;
        if self.state.in_sync.contains(&broker) && 1 < self.state.in_sync.len() {
            self.state.in_sync.retain(|member| *member != broker);
            self.state.epoch = self.state.epoch.next();
        }
        if self.state.leader == Some(broker) {
            let next = self
                .state
                .in_sync
                .iter()
                .copied()
                .find(|member| self.is_active(*member));
            self.lead(next);
        }
    }

    pub fn register(&mut self, broker: BrokerId) {
        self.next_broker_epoch = self.next_broker_epoch.next();
        self.registrations.insert(
            broker,
            Registration {
                epoch: self.next_broker_epoch,
                standing: Standing::Active,
            },
        );
        if self.state.leader.is_none() && self.state.in_sync.contains(&broker) {
            self.lead(Some(broker));
        }
    }

    /// What the sender of a proposal is told.
    pub fn alter(&mut self, sender: BrokerId, proposal: Proposal) -> IsrAnswer {
        let outcome = self.judge(sender, &proposal);
        let Proposal {
            leader_epoch,
            partition_epoch,
            ..
        } = proposal;
        IsrAnswer {
            leader_epoch,
            partition_epoch,
            outcome,
        }
    }

    fn judge(&mut self, sender: BrokerId, proposal: &Proposal) -> Result<PartitionState, IsrRefusal> {
        let state = &mut self.state;
        if proposal.leader_epoch < state.leader_epoch {
            return Err(IsrRefusal::FencedLeaderEpoch);
        }
        if state.leader != Some(sender) {
            return Err(IsrRefusal::Invalid);
        }
        if proposal.partition_epoch < state.epoch {
            return Err(IsrRefusal::StalePartitionEpoch);
        }
        let fits = |broker: BrokerId, epoch: Option<BrokerEpoch>| {
            let registered = self.registrations[&broker];
            registered.standing == Standing::Active && epoch.is_none_or(|given| given == registered.epoch)
        };
        if !proposal
            .in_sync
            .iter()
            .all(|member| fits(member.broker, member.epoch))
        {
            return Err(IsrRefusal::Ineligible);
        }
        state.in_sync = proposal.in_sync.iter().map(|member| member.broker).collect();
        state.epoch = state.epoch.next();
        Ok(PartitionState {
            leader: state.leader,
            leader_epoch: state.leader_epoch,
            in_sync: state.in_sync.clone(),
            epoch: state.epoch,
        })
    }
}

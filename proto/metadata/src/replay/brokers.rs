//! Registrations and what changes them.

use std::sync::Arc;

use super::Contradiction;
use crate::delta::Touched;
use crate::ids::{BrokerEpoch, BrokerId, IncarnationId};
use crate::image::{Broker, Image};
use crate::record::{BrokerRegistered, BrokerRegistrationChanged};

impl Image {
    pub(super) fn registered(
        &self,
        broker: BrokerId,
        given: BrokerEpoch,
    ) -> Result<&Arc<Broker>, Contradiction> {
        let registration = self
            .brokers
            .get(&broker)
            .ok_or(Contradiction::UnknownBroker(broker))?;
        if registration.epoch != given {
            return Err(Contradiction::OtherBrokerEpoch {
                broker,
                held: registration.epoch,
                given,
            });
        }
        Ok(registration)
    }

    pub(super) fn broker_registered(
        &mut self,
        it: &BrokerRegistered,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        let held: Option<(BrokerEpoch, IncarnationId)> = self
            .brokers
            .get(&it.broker)
            .map(|broker| (broker.epoch, broker.incarnation));
        let in_order = match held {
            // The same incarnation keeps its epoch (R1.5); another one gets a higher (R1.4).
            Some((epoch, incarnation)) if incarnation == it.incarnation => it.epoch == epoch,
            Some((epoch, _)) => it.epoch > epoch,
            None => true,
        };
        if !in_order || it.epoch.0 > self.next_offset.0 {
            return Err(Contradiction::BrokerEpochOutOfOrder {
                broker: it.broker,
                held: held.map(|(epoch, _)| epoch),
                given: it.epoch,
            });
        }
        let broker = Broker {
            epoch: it.epoch,
            registered_at: it.registered_at.unwrap_or(self.next_offset),
            incarnation: it.incarnation,
            endpoints: it.endpoints.clone(),
            features: it.features.clone(),
            rack: it.rack.clone(),
            directories: it.directories.clone(),
            fenced: it.fenced,
            in_controlled_shutdown: it.in_controlled_shutdown,
        };
        self.brokers.insert(it.broker, Arc::new(broker));
        touched.brokers.insert(it.broker);
        Ok(())
    }

    pub(super) fn registration_changed(
        &mut self,
        it: &BrokerRegistrationChanged,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        let mut broker = Broker::clone(self.registered(it.broker, it.epoch)?);
        broker.fenced = it.fenced.unwrap_or(broker.fenced);
        broker.in_controlled_shutdown = it.in_controlled_shutdown.unwrap_or(broker.in_controlled_shutdown);
        if let Some(directories) = &it.directories {
            broker.directories.clone_from(directories);
        }
        self.brokers.insert(it.broker, Arc::new(broker));
        touched.brokers.insert(it.broker);
        Ok(())
    }
}

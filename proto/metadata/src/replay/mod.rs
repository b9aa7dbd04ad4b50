//! How records change the image. Every node replays the same records with the same result.
//!
//! A record that contradicts the image is an error that says what it contradicts, and the image stays as it was:
//! never skip one, never guess (R0.9). Must not decide anything.

mod brokers;
mod contradiction;
mod topics;

use std::sync::Arc;

use crate::batch::MetadataBatch;
use crate::delta::Touched;
use crate::feature;
use crate::ids::{MetadataOffset, Term};
use crate::image::Image;
use crate::record::{ConfigResource, Record};

pub use contradiction::{Contradiction, ReplayError};

/// What became of a batch. Every node comes to the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// Its records are in the image.
    Applied,
    /// It was decided on another state than this one; it consumes no offsets.
    Skipped(Skip),
}

/// Why a batch does not follow from the state before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Its leader was deposed before the batch came into the log.
    OtherTerm {
        /// Term of the entry that carries it.
        entry: Term,
        /// Term it was decided in.
        decided: Term,
    },
    /// A batch before it never came into the log, or came in twice.
    OtherOffset {
        /// The image's next offset.
        held: MetadataOffset,
        /// Where the batch begins.
        given: MetadataOffset,
    },
}

impl Image {
    /// Applies a committed batch that an entry of `entry_term` carried: all of its records, or none when it does not
    /// follow from this state. Every node must skip the same batches, so nothing but the image and the arguments counts.
    ///
    /// # Errors
    /// When a record contradicts the image, which then stays as it was before the batch.
    pub fn apply(&mut self, batch: &MetadataBatch, entry_term: Term) -> Result<Application, ReplayError> {
        self.apply_gathering(batch, entry_term, &mut Touched::default())
    }

    /// As [`Image::apply`], and notes what changed in `touched`.
    ///
    /// # Errors
    /// As [`Image::apply`].
    pub fn apply_gathering(
        &mut self,
        batch: &MetadataBatch,
        entry_term: Term,
        touched: &mut Touched,
    ) -> Result<Application, ReplayError> {
        if let Some(skip) = self.breaks_the_chain(batch, entry_term) {
            return Ok(Application::Skipped(skip));
        }
        let mut next = self.clone();
        for record in &batch.records {
            next.replay_gathering(record, touched)?;
        }
        next.last_term = batch.decided_in_term;
        *self = next;
        Ok(Application::Applied)
    }

    fn breaks_the_chain(&self, batch: &MetadataBatch, entry_term: Term) -> Option<Skip> {
        #[cfg(feature = "mutants")]
        if crate::mutants::skipped_chain_check() {
            return None;
        }
        if batch.decided_in_term != entry_term {
            return Some(Skip::OtherTerm {
                entry: entry_term,
                decided: batch.decided_in_term,
            });
        }
        if batch.base_offset != self.next_offset {
            return Some(Skip::OtherOffset {
                held: self.next_offset,
                given: batch.base_offset,
            });
        }
        None
    }

    /// Replays one record at the image's next offset.
    ///
    /// # Errors
    /// When the record contradicts the image, which then stays as it was.
    pub fn replay(&mut self, record: &Record) -> Result<(), ReplayError> {
        self.replay_gathering(record, &mut Touched::default())
    }

    /// Replays records one after the other.
    ///
    /// # Errors
    /// At the first record that contradicts the image; those before it stay replayed.
    pub fn replay_all<'a>(
        &mut self,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<(), ReplayError> {
        records.into_iter().try_for_each(|record| self.replay(record))
    }

    fn replay_gathering(&mut self, record: &Record, touched: &mut Touched) -> Result<(), ReplayError> {
        self.change(record, touched)?;
        self.next_offset = self.next_offset.next();
        Ok(())
    }

    /// Carries out a record without moving the offset, as a dump is loaded.
    pub(crate) fn change(&mut self, record: &Record, touched: &mut Touched) -> Result<(), ReplayError> {
        let offset = self.next_offset;
        self.change_or_contradict(record, touched)
            .map_err(|contradiction| ReplayError {
                offset,
                record: Box::new(record.clone()),
                contradiction,
            })
    }

    fn change_or_contradict(&mut self, record: &Record, touched: &mut Touched) -> Result<(), Contradiction> {
        match record {
            Record::NoOp => Ok(()),
            Record::BrokerRegistered(it) => self.broker_registered(it, touched),
            Record::BrokerRegistrationChanged(it) => self.registration_changed(it, touched),
            Record::BrokerUnregistered { broker, epoch } => {
                self.registered(*broker, *epoch)?;
                self.brokers.remove(broker);
                touched.brokers.insert(*broker);
                Ok(())
            }
            Record::TopicCreated { topic, name } => self.topic_created(*topic, name, touched),
            Record::TopicDeleted { topic } => self.topic_deleted(*topic, touched),
            Record::PartitionCreated(it) => self.partition_created(it, touched),
            Record::PartitionChanged(it) => self.partition_changed(it, touched),
            Record::ConfigChanged { resource, key, value } => {
                self.config_changed(resource, key, value.as_ref(), touched)
            }
            Record::FeatureLevelSet { name, level } => self.feature_level_set(name, *level, touched),
            Record::ProducerIdsAllocated { next, .. } => {
                if *next <= self.next_producer_id {
                    return Err(Contradiction::ProducerIdsOutOfOrder {
                        held: self.next_producer_id,
                        given: *next,
                    });
                }
                self.next_producer_id = *next;
                touched.producer_ids = true;
                Ok(())
            }
            Record::EligibleReplicasCleared { topic } => self.eligible_cleared(*topic, touched),
        }
    }

    fn config_changed(
        &mut self,
        resource: &ConfigResource,
        key: &str,
        value: Option<&String>,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        if let ConfigResource::Topic(name) = resource
            && !self.topic_names.contains_key(name)
        {
            return Err(Contradiction::UnknownTopicName(name.clone()));
        }
        let mut values = self
            .configs
            .get(resource)
            .map(|values| values.as_ref().clone())
            .unwrap_or_default();
        match value {
            Some(value) => values.insert(key.to_owned(), value.clone()),
            None => values.remove(key),
        };
        if values.is_empty() {
            self.configs.remove(resource);
        } else {
            self.configs.insert(resource.clone(), Arc::new(values));
        }
        touched.configs.insert(resource.clone());
        Ok(())
    }

    fn feature_level_set(
        &mut self,
        name: &str,
        level: i16,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        if !feature::is_supported(name, level) {
            return Err(Contradiction::UnsupportedFeature {
                name: name.to_owned(),
                level,
            });
        }
        if level == 0 {
            self.features.remove(name);
        } else {
            self.features.insert(name.to_owned(), level);
        }
        touched.features.insert(name.to_owned());
        Ok(())
    }
}

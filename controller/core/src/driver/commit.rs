//! What the log says: entries applied, proposals that came to be or to nothing, answers that are certain now.

use std::sync::Arc;

use bytes::Bytes;
use metadata::batch::MetadataBatch;
use metadata::delta::{Delta, Touched};
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;
use metadata::replay::Application;

use super::event::{Effect, Entry, LogPosition, Publication, PublishedBatch, Quarantine};
use super::leadership::Stage;
use super::{Driver, Proposal, Waiting};
use crate::mutants::{self, Mutant};
use crate::refusal::Refusal;

impl Driver {
    pub(super) fn applied(
        &mut self,
        position: LogPosition,
        term: Term,
        entry: Entry,
        effects: &mut Vec<Effect>,
    ) {
        if self.quarantine.is_some() {
            return;
        }
        let batch = match entry {
            Entry::Blank => None,
            Entry::Batch(bytes) => match self.commit(position, term, &bytes) {
                Ok(batch) => Some(batch),
                Err(quarantine) => {
                    self.enter_quarantine(quarantine, effects);
                    return;
                }
            },
        };
        self.position = position;
        self.applied_term = Some(term);
        self.role.entry_applied(term);
        let outcome = batch
            .as_ref()
            .map(|batch| (batch.bytes.clone(), batch.application));
        effects.push(Effect::Publish(Publication {
            position,
            image: Arc::clone(&self.committed),
            batch,
        }));
        if let Some((bytes, application)) = outcome {
            self.outcome(term, &bytes, application, effects);
        }
        self.answer_waiting(effects);
    }

    fn commit(
        &mut self,
        position: LogPosition,
        term: Term,
        bytes: &Bytes,
    ) -> Result<PublishedBatch, Quarantine> {
        let batch = MetadataBatch::decode(bytes).map_err(|error| Quarantine::Decode { position, error })?;
        let before = Arc::clone(&self.committed);
        let mut touched = Touched::default();
        let mut after = before.as_ref().clone();
        let application = after.apply_gathering(&batch, term, &mut touched)?;
        let delta = Delta::gathered(&touched, &before, &after);
        if application == Application::Applied {
            self.retries.applied(&batch.provenance.request_id, &before);
            self.committed = Arc::new(after);
        }
        Ok(PublishedBatch {
            bytes: bytes.clone(),
            batch: Arc::new(batch),
            application,
            delta: Arc::new(delta),
        })
    }

    /// Finds the proposal that this entry is. One that is not the oldest without an outcome, one that was skipped, and
    /// a batch that this node did not propose in its own term all say the same: `decided` is not what the log will
    /// agree on.
    fn outcome(&mut self, term: Term, bytes: &Bytes, application: Application, effects: &mut Vec<Effect>) {
        if !self.role.leads(term) {
            // Nothing is on its way here that `decided` would have to remember.
            if self.pending.is_empty() {
                self.decided = self.committed.as_ref().clone();
            }
            return;
        }
        let by_index = mutants::is_selected(Mutant::ParkedReplyReleasedByIndex);
        let is_told = |proposal: &Proposal| by_index || proposal.bytes == *bytes;
        let at = self.pending.iter().position(is_told);
        if at != Some(0) || application != Application::Applied {
            self.role.settle_first();
            self.abandon_waiting_past(MetadataOffset(0), effects);
        }
        let Some(proposal) = at.and_then(|at| self.pending.remove(at)) else {
            return;
        };
        self.share_structure();
        if let Some((id, reply)) = proposal.answer {
            let result = match application {
                Application::Applied => Ok(reply),
                Application::Skipped(_) if by_index => Ok(reply),
                Application::Skipped(_) => Err(Refusal::NotActive),
            };
            effects.push(Effect::Reply {
                id,
                result,
                visible_at: proposal.end,
            });
        }
    }

    /// The quorum did not take a proposal. Those after it were decided on it and will be skipped.
    pub(super) fn refused(&mut self, term: Term, base_offset: MetadataOffset, effects: &mut Vec<Effect>) {
        if !self.role.leads(term) {
            // Nothing is on its way here that `decided` would have to remember.
            if self.pending.is_empty() {
                self.decided = self.committed.as_ref().clone();
            }
            return;
        }
        let at = self
            .pending
            .iter()
            .position(|proposal| proposal.base_offset == base_offset);
        let Some(proposal) = at.and_then(|at| self.pending.remove(at)) else {
            return;
        };
        self.role.settle_first();
        if mutants::is_selected(Mutant::RefusedBatchProposedAgain) {
            effects.push(Effect::Propose {
                term,
                base_offset,
                batch: proposal.bytes.clone(),
            });
            self.pending.push_back(proposal);
            return;
        }
        if let Some((id, _)) = proposal.answer {
            effects.push(self.reply(id, Err(Refusal::NotActive)));
        }
        self.abandon_waiting_past(base_offset, effects);
    }

    /// What these have read includes a batch that never came to be.
    fn abandon_waiting_past(&mut self, base_offset: MetadataOffset, effects: &mut Vec<Effect>) {
        let unfounded = self
            .waiting
            .iter()
            .position(|waiting| waiting.until > base_offset);
        for waiting in self.waiting.split_off(unfounded.unwrap_or(self.waiting.len())) {
            effects.push(self.reply(waiting.id, Err(Refusal::NotActive)));
        }
    }

    /// Both images say the same once nothing is on its way: they become one, so that what changed is held once.
    fn share_structure(&mut self) {
        if self.pending.is_empty() && self.role.stage() == Some(Stage::Active) {
            assert!(
                self.decided.next_offset <= self.committed.next_offset,
                "what was decided is committed when nothing is on its way"
            );
            self.decided = self.committed.as_ref().clone();
        }
    }

    fn answer_waiting(&mut self, effects: &mut Vec<Effect>) {
        let committed_end = self.committed.next_offset;
        while self
            .waiting
            .front()
            .is_some_and(|waiting| waiting.until <= committed_end)
        {
            let Some(Waiting { id, result, .. }) = self.waiting.pop_front() else {
                break;
            };
            effects.push(self.reply(id, result));
        }
    }

    pub(super) fn installed(&mut self, position: LogPosition, image: Image, effects: &mut Vec<Effect>) {
        // A leader is never sent a snapshot: it holds everything that was ever agreed on.
        self.lost(effects);
        self.quarantine = None;
        self.retries.forget();
        self.position = position;
        self.decided = image.clone();
        self.committed = Arc::new(image);
        effects.push(Effect::Publish(Publication {
            position,
            image: Arc::clone(&self.committed),
            batch: None,
        }));
    }

    fn enter_quarantine(&mut self, quarantine: Quarantine, effects: &mut Vec<Effect>) {
        self.lost(effects);
        self.quarantine = Some(quarantine.to_string());
        effects.push(Effect::Quarantined(quarantine));
    }
}

//! From commands to proposals: decided on everything proposed so far, replayed at once, sent in order.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use metadata::batch::{MetadataBatch, Provenance};
use metadata::codec::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX};
use metadata::feature::{MIN_IN_SYNC_REPLICAS, bootstrap_records};
use metadata::image::Image;
use metadata::record::Record;

use super::event::{CommandId, Effect, FenceCause};
use super::retries::stands_or_falls_together;
use super::{Asked, Driver, Proposal, Waiting};
use crate::command::{Command, Reply};
use crate::decision::{Decision, ELECTIONS_MAX, Unity, View, decide};
use crate::refusal::Refusal;
use crate::time::Now;

/// The actor of what the controller decides by itself.
const CONTROLLER: &str = "controller";

impl Driver {
    /// Decides a command and proposes what comes of it.
    pub(super) fn decide(&mut self, now: Now, asked: Asked, effects: &mut Vec<Effect>) {
        self.observe(&asked);
        if self.answer_again(now, &asked, effects) {
            return;
        }
        let provenance = Provenance {
            wall_time_ms: now.wall_time_ms,
            ..asked.provenance.clone()
        };
        let result = match self.decide_safely(&self.decided, now, &asked.command) {
            Ok(result) => result,
            Err(message) => Err(self.decision_failed(&asked.command, message, effects)),
        };
        match result {
            Ok(decision) => {
                let answer = Some(asked.id);
                if let Err(refusal) = self.propose(now, &decision, &provenance, answer, effects) {
                    let refusal = match refusal {
                        Refusal::DecisionFailed(message) => {
                            self.decision_failed(&asked.command, message, effects)
                        }
                        other => other,
                    };
                    self.answer_when_certain(asked.id, Err(refusal), effects);
                } else {
                    self.associate(&asked, &decision);
                }
            }
            Err(refusal) => self.answer_when_certain(asked.id, Err(refusal), effects),
        }
    }

    /// Answers a request that is in the log, or on its way there, as it was answered the first time; false for any other.
    fn answer_again(&mut self, now: Now, asked: &Asked, effects: &mut Vec<Effect>) -> bool {
        let name = asked.provenance.request_id.as_str();
        if name.is_empty() || !stands_or_falls_together(&asked.command) {
            return false;
        }
        let on_its_way = self
            .pending
            .iter()
            .filter_map(|proposal| proposal.request.as_ref());
        let mut on_its_way = on_its_way
            .filter(|(held, _)| held == name)
            .map(|(_, before)| before);
        let before = self.retries.before(name).map(AsRef::as_ref);
        let Some(before) = before.or_else(|| on_its_way.next()).cloned() else {
            return false;
        };
        let result = match self.decide_safely(&before, now, &asked.command) {
            Ok(result) => result.map(|decision| decision.reply),
            Err(message) => Err(self.decision_failed(&asked.command, message, effects)),
        };
        self.answer_when_certain(asked.id, result, effects);
        true
    }

    /// Life signs count on arrival, whatever is decided about them (R1.20).
    fn observe(&mut self, asked: &Asked) {
        let Command::Heartbeat(heartbeat) = asked.command.as_ref() else {
            return;
        };
        let registration = self.decided.brokers.get(&heartbeat.broker);
        if registration.is_none_or(|broker| broker.epoch != heartbeat.epoch) {
            return;
        }
        let (broker, epoch) = (heartbeat.broker, heartbeat.epoch);
        self.liveness
            .observe(broker, epoch, heartbeat.applied_end, asked.arrived);
        if let Some(stream) = asked.stream {
            self.liveness.heard_on(stream, broker, epoch, asked.arrived);
        }
    }

    /// A stream on which a broker registered is that broker's from then on.
    fn associate(&mut self, asked: &Asked, decision: &Decision) {
        let Command::RegisterBroker(command) = asked.command.as_ref() else {
            return;
        };
        if let (Some(stream), Reply::Registered { epoch }) = (asked.stream, &decision.reply) {
            self.liveness
                .heard_on(stream, command.broker, *epoch, asked.arrived);
        }
    }

    /// A decision that panics has changed nothing, since deciding only reads: it is refused, and nothing else is
    /// harmed.
    fn decide_safely(
        &self,
        image: &Image,
        now: Now,
        command: &Command,
    ) -> Result<Result<Decision, Refusal>, String> {
        let view = View {
            image,
            liveness: &self.liveness,
            settings: &self.settings,
            now: now.at,
        };
        caught(|| decide(&view, command))
    }

    fn decision_failed(&self, command: &Command, message: String, effects: &mut Vec<Effect>) -> Refusal {
        effects.push(Effect::DecisionFailed {
            command: Box::new(command.clone()),
            message: message.clone(),
        });
        Refusal::DecisionFailed(message)
    }

    /// An answer that wrote nothing may have read what is not committed yet: it waits for that (R0.2).
    fn answer_when_certain(
        &mut self,
        id: CommandId,
        result: Result<Reply, Refusal>,
        effects: &mut Vec<Effect>,
    ) {
        if self.pending.is_empty() {
            effects.push(self.reply(id, result));
        } else {
            let until = self.decided.next_offset;
            self.waiting.push_back(Waiting { until, id, result });
        }
    }

    /// Proposes a decision: nothing is kept of it when it cannot be.
    fn propose(
        &mut self,
        now: Now,
        decision: &Decision,
        provenance: &Provenance,
        answer: Option<CommandId>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let Some(term) = self.role.active_in() else {
            return Err(Refusal::NotActive);
        };
        let template = MetadataBatch {
            decided_in_term: term,
            base_offset: self.decided.next_offset,
            provenance: provenance.clone(),
            records: Vec::new(),
        };
        let mut after = self.decided.clone();
        let batches = batches(&template, decision, &mut after)?;
        let before = std::mem::replace(&mut self.decided, after);
        let request_id = &provenance.request_id;
        let request = (!request_id.is_empty()).then(|| (request_id.clone(), before));
        self.note(now, decision);
        if batches.is_empty() {
            if let Some(id) = answer {
                self.answer_when_certain(id, Ok(decision.reply.clone()), effects);
            }
            return Ok(());
        }
        let last = batches.len() - 1;
        for (at, (batch, bytes)) in batches.into_iter().enumerate() {
            let base_offset = batch.base_offset;
            effects.push(Effect::Propose {
                term,
                base_offset,
                batch: bytes.clone(),
            });
            self.pending.push_back(Proposal {
                base_offset,
                end: batch.end_offset(),
                bytes,
                answer: answer
                    .filter(|_| at == last)
                    .map(|id| (id, decision.reply.clone())),
                request: request.clone(),
            });
        }
        self.last_proposal = now.at;
        Ok(())
    }

    /// What a decision means for soft state.
    fn note(&mut self, now: Now, decision: &Decision) {
        if let Some((broker, epoch)) = decision.shutting_down {
            self.liveness
                .enter_shutdown(broker, epoch, self.decided.next_offset);
        }
        for record in &decision.records {
            match record {
                // A process that is fenced or replaced holds its id no longer; a live one is heard again.
                Record::BrokerRegistrationChanged(change) if change.fenced == Some(true) => {
                    self.liveness.end(change.broker);
                }
                Record::BrokerUnregistered { broker, .. } => self.liveness.end(*broker),
                Record::BrokerRegistered(it) if it.registered_at.is_none() => self.liveness.end(it.broker),
                _ => {}
            }
        }
        if !decision.records.is_empty() {
            self.liveness.ensure_sessions(&self.decided, now.at);
        }
    }

    fn provenance(now: Now) -> Provenance {
        Provenance {
            actor: CONTROLLER.to_owned(),
            wall_time_ms: now.wall_time_ms,
            ..Provenance::default()
        }
    }

    /// Proposes what nobody asked for.
    fn propose_own(&mut self, now: Now, records: Vec<Record>, effects: &mut Vec<Effect>) {
        let decision = Decision {
            records,
            ..Decision::of(Reply::Done)
        };
        self.propose(now, &decision, &Self::provenance(now), None, effects)
            .expect("a few records of our own that always replay fit into a batch");
    }

    pub(super) fn propose_idle(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.propose_own(now, vec![Record::NoOp], effects);
    }

    pub(super) fn propose_bootstrap(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let minimum = self.settings.node.integer(MIN_IN_SYNC_REPLICAS);
        let minimum = u32::try_from(minimum).expect("the catalogue keeps it positive and small");
        self.propose_own(now, bootstrap_records(minimum), effects);
    }

    /// Gives leadership back to preferred replicas when it is time for that, and goes on at the next tick when there was
    /// more to do than one run may (R3.72).
    pub(super) fn rebalance(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_due = |interval| now.at.since(self.last_rebalance) >= interval;
        if !self.settings.rebalance_interval.is_some_and(is_due) {
            return;
        }
        let command = Command::ElectPreferredLeaders;
        let decided = self
            .decide_safely(&self.decided, now, &command)
            .and_then(|result| {
                let decision = result.map_err(|refusal| refusal.to_string())?;
                self.propose(now, &decision, &Self::provenance(now), None, effects)
                    .map_err(|refusal| refusal.to_string())?;
                Ok(decision.records.len())
            });
        match decided {
            Ok(ELECTIONS_MAX) => {}
            Ok(_) => self.last_rebalance = now.at,
            Err(message) => {
                self.last_rebalance = now.at;
                self.decision_failed(&command, message, effects);
            }
        }
    }

    /// Fences every broker that is not heard any more, each on what fencing the ones before has left.
    pub(super) fn fence_silent(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for lapse in self.liveness.sweep(&self.decided, &self.settings, now.at) {
            let (broker, epoch) = (lapse.broker, lapse.epoch);
            let command = match lapse.cause {
                FenceCause::SessionLapsed => Command::SessionLapsed { broker, epoch },
                FenceCause::StreamBroken => Command::StreamBroken { broker, epoch },
                FenceCause::TookLeave => Command::TookLeave { broker, epoch },
            };
            let decided = self
                .decide_safely(&self.decided, now, &command)
                .and_then(|result| {
                    let decision = result.map_err(|refusal| refusal.to_string())?;
                    self.propose(now, &decision, &Self::provenance(now), None, effects)
                        .map_err(|refusal| refusal.to_string())
                });
            match decided {
                Ok(()) => effects.push(Effect::Silent {
                    broker,
                    epoch,
                    silent: lapse.silent,
                    cause: lapse.cause,
                }),
                Err(message) => {
                    self.decision_failed(&command, message, effects);
                }
            }
        }
    }
}

/// What a computation gives, or the words that it panicked with.
fn caught<T>(compute: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(compute)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without words".to_owned())
    })
}

/// The batches of a decision, each replayed on `after` as it is made.
fn batches(
    template: &MetadataBatch,
    decision: &Decision,
    after: &mut Image,
) -> Result<Vec<(MetadataBatch, Bytes)>, Refusal> {
    let mut made = Vec::new();
    let mut rest = decision.records.as_slice();
    while !rest.is_empty() {
        let (batch, bytes) = next_batch(template, rest, after, decision.unity)?;
        rest = &rest[batch.records.len()..];
        after.replay_all(&batch.records).map_err(|error| {
            // What does not replay here would stop every node: it must never come into the log.
            Refusal::DecisionFailed(error.to_string())
        })?;
        made.push((batch, bytes));
    }
    Ok(made)
}

/// As many of the records as fit into one batch, which must be all of them when they stand or fall together.
fn next_batch(
    template: &MetadataBatch,
    records: &[Record],
    after: &Image,
    unity: Unity,
) -> Result<(MetadataBatch, Bytes), Refusal> {
    let mut count = records.len();
    if count > BATCH_RECORDS_MAX {
        within_one_batch(records, unity)?;
        count = BATCH_RECORDS_MAX;
    }
    loop {
        let batch = MetadataBatch {
            base_offset: after.next_offset,
            records: records[..count].to_vec(),
            ..template.clone()
        };
        let bytes = batch.encode();
        if bytes.len() <= BATCH_BYTES_MAX {
            return Ok((batch, bytes));
        }
        if count == 1 {
            return Err(too_large(records));
        }
        within_one_batch(records, unity)?;
        count /= 2;
    }
}

/// What stands or falls together cannot be cut.
fn within_one_batch(records: &[Record], unity: Unity) -> Result<(), Refusal> {
    match unity {
        Unity::Atomic => Err(too_large(records)),
        Unity::Splittable => Ok(()),
    }
}

fn too_large(records: &[Record]) -> Refusal {
    Refusal::PolicyViolation(format!(
        "{} records: one request writes at most {BATCH_RECORDS_MAX}, and {BATCH_BYTES_MAX} bytes",
        records.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_with_its_words() {
        assert_eq!(caught(|| 1), Ok(1));
        let numbers: [u8; 0] = [];
        let failed: Result<u8, String> = caught(|| *numbers.first().expect("there is a number"));
        assert_eq!(failed, Err("there is a number".to_owned()));
    }
}

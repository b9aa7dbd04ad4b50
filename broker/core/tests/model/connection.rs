//! A client and its handlers around the pipeline of one connection, and the rules of its order, kept a second time and
//! as dumbly as possible.

use std::collections::BTreeMap;

use broker_core::pipeline::{Effect, Ending, Event, Kind, Limits, Overlap, Pipeline, RequestId};
use proptest::prelude::*;

/// One thing that happens on the connection, if it can.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The client has sent a request of so many bytes; it is read if the pipeline wants one.
    Arrive(Kind, usize),
    /// The n-th running Produce has appended.
    Append(usize),
    /// The n-th running request ends.
    End(usize, Ending),
    /// The oldest answer on its way is written out.
    Write,
}

pub fn script(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![3 => Just(Kind::Produce), 1 => Just(Kind::Barrier)];
    let ending = prop_oneof![9 => Just(Ending::Answer), 2 => Just(Ending::Silence), 1 => Just(Ending::Close)];
    let one = prop_oneof![
        4 => (kind, 1..40usize).prop_map(|(kind, bytes)| Step::Arrive(kind, bytes)),
        4 => (0..4usize).prop_map(Step::Append),
        4 => (0..4usize, ending).prop_map(|(nth, ending)| Step::End(nth, ending)),
        4 => Just(Step::Write),
    ];
    prop::collection::vec(one, 1..count)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Appended,
    Ended(Ending),
    Writing,
    Done,
}

/// Runs a script under both orders; the rule that broke, if one did.
pub fn check(script: &[Step]) -> Result<(), String> {
    run(
        script,
        Overlap::Produce(Limits {
            requests: 4,
            bytes: 100,
        }),
    )?;
    run(script, Overlap::None)
}

struct Connection {
    pipeline: Pipeline,
    overlap: Overlap,
    requests: BTreeMap<RequestId, (Kind, State)>,
    closed: bool,
}

fn run(script: &[Step], overlap: Overlap) -> Result<(), String> {
    let pipeline = Pipeline::new(overlap);
    let mut connection = Connection {
        pipeline,
        overlap,
        requests: BTreeMap::new(),
        closed: false,
    };
    for step in script {
        connection.step(*step)?;
    }
    connection.finish()
}

impl Connection {
    fn step(&mut self, step: Step) -> Result<(), String> {
        let event = match step {
            Step::Arrive(kind, bytes) => {
                if !self.pipeline.wants_request() {
                    return Ok(());
                }
                self.requests
                    .insert(self.pipeline.next_request(), (kind, State::Waiting));
                Event::Arrived { kind, bytes }
            }
            Step::Append(nth) => {
                let Some(id) = self.nth(nth, |kind, state| {
                    kind == Kind::Produce && state == State::Running
                }) else {
                    return Ok(());
                };
                self.set(id, State::Appended);
                Event::Appended(id)
            }
            Step::End(nth, ending) => {
                let running = |_, state| matches!(state, State::Running | State::Appended);
                let Some(id) = self.nth(nth, running) else {
                    return Ok(());
                };
                self.set(id, State::Ended(ending));
                Event::Ended(id, ending)
            }
            Step::Write => {
                let Some(id) = self.nth(0, |_, state| state == State::Writing) else {
                    return Ok(());
                };
                self.set(id, State::Done);
                Event::Sent(id)
            }
        };
        for effect in self.pipeline.step(event) {
            self.effect(effect)?;
        }
        Ok(())
    }

    fn nth(&self, nth: usize, fits: impl Fn(Kind, State) -> bool) -> Option<RequestId> {
        let fitting = self
            .requests
            .iter()
            .filter(|(_, (kind, state))| fits(*kind, *state));
        fitting.map(|(id, _)| *id).nth(nth)
    }

    fn set(&mut self, id: RequestId, state: State) {
        self.requests.get_mut(&id).unwrap().1 = state;
    }

    fn effect(&mut self, effect: Effect) -> Result<(), String> {
        if self.closed {
            return Err("nothing follows a close".to_owned());
        }
        match effect {
            Effect::Start(id) => {
                self.may_start(id)?;
                self.set(id, State::Running);
            }
            Effect::Send(id) => {
                if self.requests[&id].1 != State::Ended(Ending::Answer) {
                    return Err(format!("only what has an answer is sent: {id:?}"));
                }
                let unsent = |state: &State| {
                    !matches!(
                        state,
                        State::Writing | State::Done | State::Ended(Ending::Silence)
                    )
                };
                if self.requests.range(..id).any(|(_, (_, state))| unsent(state)) {
                    return Err(format!("answers leave in request order: {id:?}"));
                }
                self.set(id, State::Writing);
            }
            Effect::Close => {
                let closing = self.nth(0, |_, state| state == State::Ended(Ending::Close));
                let closing = closing.ok_or("only a request closes a connection")?;
                let unsent = |state: &State| !matches!(state, State::Done | State::Ended(Ending::Silence));
                if self
                    .requests
                    .range(..closing)
                    .any(|(_, (_, state))| unsent(state))
                {
                    return Err("earlier answers are out before a close".to_owned());
                }
                self.closed = true;
            }
        }
        Ok(())
    }

    fn may_start(&self, id: RequestId) -> Result<(), String> {
        let kind = self.requests[&id].0;
        for (earlier, (earlier_kind, state)) in self.requests.range(..id) {
            let out = matches!(state, State::Done | State::Ended(Ending::Silence));
            let overlaps = matches!(self.overlap, Overlap::Produce(_))
                && kind == Kind::Produce
                && *earlier_kind == Kind::Produce;
            if !overlaps && !out {
                return Err(format!("a barrier stands alone: {id:?} beside {earlier:?}"));
            }
            if matches!(state, State::Waiting | State::Running) {
                return Err(format!(
                    "no batch overtakes another: {id:?} before {earlier:?} is appended"
                ));
            }
        }
        Ok(())
    }

    /// Whatever is left comes to its end.
    fn finish(mut self) -> Result<(), String> {
        for _ in 0..3 * self.requests.len() {
            self.step(Step::End(0, Ending::Answer))?;
            self.step(Step::Write)?;
        }
        let open = self.nth(0, |_, state| {
            !matches!(state, State::Done | State::Ended(Ending::Silence))
        });
        match open {
            Some(id) if !self.closed => Err(format!("every request comes to its end: {id:?} did not")),
            _ => Ok(()),
        }
    }
}

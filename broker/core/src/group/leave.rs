//! LeaveGroup (G-23).

use super::names::{InstanceId, MemberId, ReplyId};
use super::request::{Leave, Refusal, Reply};
use super::state::{Group, State};
use super::work::Work;

impl Group {
    /// Takes members out, then lets the others rebalance once.
    pub(super) fn leave(&mut self, work: &mut Work<'_>, to: ReplyId, leave: &Leave) {
        let results: Vec<Result<(), Refusal>> = leave
            .members
            .iter()
            .map(|(member, instance)| self.let_go(work, member, instance.as_ref()))
            .collect();
        if self.state != State::Empty && results.iter().any(Result::is_ok) {
            self.rebalance(work);
        }
        work.reply_when_written(to, Reply::Leave(Ok(results)));
    }

    fn let_go(
        &mut self,
        work: &mut Work<'_>,
        member: &MemberId,
        instance: Option<&InstanceId>,
    ) -> Result<(), Refusal> {
        let member = match instance {
            // An administrator knows a static member's own name alone.
            Some(instance) if member.is_empty() => self
                .instances
                .get(instance)
                .cloned()
                .ok_or(Refusal::UnknownMember)?,
            None if self.pending.contains(member) => member.clone(),
            _ => self.member(member, instance)?.id.clone(),
        };
        self.remove(work, &member, Refusal::UnknownMember);
        Ok(())
    }
}

//! Groups as administrators see them (G-54, G-57, G-58).

use super::names::ReplyId;
use super::record::Record;
use super::request::{Described, DescribedMember, Listed, Refusal, Reply};
use super::state::{Group, Member, State};
use super::work::{Then, Work};

impl Group {
    /// What it is. Members' own words and the protocol are shown while it is stable.
    pub(super) fn described(&self) -> Described {
        let stable = self.protocol.as_ref().filter(|_| self.state == State::Stable);
        let member = |member: &Member| DescribedMember {
            member: member.id.clone(),
            instance: member.instance.clone(),
            client: member.client.clone(),
            metadata: stable
                .map(|protocol| member.metadata(protocol))
                .unwrap_or_default(),
            assignment: member.assignment.clone(),
        };
        Described {
            state: self.state,
            protocol_type: self.protocol_type.clone(),
            protocol: stable.cloned().unwrap_or_default(),
            members: self.members.values().map(member).collect(),
        }
    }

    /// Its line in a list.
    pub(super) fn listed(&self) -> Listed {
        Listed {
            group: self.id.clone(),
            protocol_type: self.protocol_type.clone(),
            state: self.state,
        }
    }

    /// Writes that the group is no more, offsets first.
    pub(super) fn delete(&mut self, work: &mut Work<'_>, to: ReplyId) {
        if self.state != State::Empty {
            work.reply(to, Reply::Delete(Err(Refusal::NonEmptyGroup)));
            return;
        }
        let offset = |(topic, partition): &(super::names::TopicName, i32)| Record::Offset {
            group: self.id.clone(),
            topic: topic.clone(),
            partition: *partition,
            value: None,
        };
        let mut tombstones: Vec<Record> = self.offsets.keys().map(offset).collect();
        tombstones.push(Record::Group {
            group: self.id.clone(),
            value: None,
        });
        work.append(tombstones, Then::Rest);
        work.reply_when_written(to, Reply::Delete(Ok(())));
    }
}

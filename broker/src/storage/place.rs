//! Whether a log lies where the controller thinks (R3.80). A directory that fails takes from a partition what the
//! controller knows to lie there, and nothing else: where it does not know, the partition keeps a leader that cannot
//! serve.
//!
//! Must not: move a log. An operator did, or the metadata is older than the rule.

use std::path::Path;

use metadata::ids::DirectoryId;
use partition_log::TopicPartition;
use tracing::warn;

/// Where a log was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In the directory that is assigned, or in the only one.
    Assigned,
    /// In another one than the assigned.
    Elsewhere {
        /// The assigned one.
        assigned: &'a Path,
    },
    /// In one of several, of which none is assigned.
    Unknown,
}

impl<'a> Place<'a> {
    /// `path` is that of the assigned directory, if it is one of the `count` that this broker has.
    pub fn of(
        lies_in: DirectoryId,
        assigned: DirectoryId,
        path: Option<&'a Path>,
        count: usize,
    ) -> Place<'a> {
        match path {
            _ if assigned == lies_in => Place::Assigned,
            Some(assigned) => Place::Elsewhere { assigned },
            None if count == 1 => Place::Assigned,
            None => Place::Unknown,
        }
    }

    /// Says what an operator has to do, if there is something.
    pub fn tell(self, partition: &TopicPartition, lies_in: &Path) {
        let directory = lies_in.display();
        match self {
            Place::Assigned => {}
            Place::Elsewhere { assigned } => warn!(%partition, %directory, assigned = %assigned.display(),
                "a log lies in another directory than the assigned one: its partition is not led elsewhere when \
                this one fails, and no stop of this broker counts as an orderly one. Stop it, move the log to the assigned \
                directory, and start it again"),
            Place::Unknown => warn!(%partition, %directory,
                "the controller does not know in which directory this log lies: its partition is not led elsewhere when \
                that one fails, and no stop of this broker counts as an orderly one. It is known of a topic that is made \
                anew: copy the records into one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use metadata::uuid::Uuid;

    use super::*;

    const HERE: DirectoryId = DirectoryId(Uuid(500));
    const THERE: DirectoryId = DirectoryId(Uuid(501));

    #[test]
    fn a_log_lies_well_where_it_is_assigned_and_where_there_is_no_choice() {
        let here = Path::new("/here");
        assert_eq!(Place::of(HERE, HERE, Some(here), 1), Place::Assigned);
        assert_eq!(Place::of(HERE, HERE, Some(here), 3), Place::Assigned);
        assert_eq!(Place::of(HERE, DirectoryId::UNASSIGNED, None, 1), Place::Assigned);
    }

    #[test]
    fn a_log_in_another_directory_and_one_that_is_not_known_anywhere_are_told() {
        let there = Path::new("/there");
        let elsewhere = Place::Elsewhere { assigned: there };
        assert_eq!(Place::of(HERE, THERE, Some(there), 3), elsewhere);
        assert_eq!(Place::of(HERE, DirectoryId::UNASSIGNED, None, 3), Place::Unknown);
    }
}

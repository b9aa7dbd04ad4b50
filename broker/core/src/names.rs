//! Whose log each name is. A topic and the next one of its name may lie in different lanes, and the later one may come
//! before the earlier is known to be gone: the name goes to the later one at once, and what the earlier one still wants of
//! its log concerns nobody.
//!
//! Must not: touch a directory. The shell renames and removes, in the order in which it asks here.

use std::collections::BTreeMap;

use metadata::ids::TopicId;

/// The names of the logs that this process has opened, and the topics that have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names<N: Ord>(BTreeMap<N, TopicId>);

impl<N: Ord> Default for Names<N> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What is to be done about a log that lies under a name before a topic's log is opened under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// It is this topic's: it is taken over.
    Own,
    /// The power was lost before anything was written into it: it is removed, and another one is made.
    Bare,
    /// It is another topic's, or does not say whose: it is set aside and kept (L-22, BC-086, BC-087).
    Other,
}

/// What a log that was found under a name is to the topic that wants the name: `found` is the topic that it says it
/// belongs to.
#[must_use]
pub fn lies_there(found: Option<TopicId>, is_empty: bool, wanted: TopicId) -> Lies {
    match found {
        Some(topic) if topic == wanted => Lies::Own,
        None if is_empty => Lies::Bare,
        _ => Lies::Other,
    }
}

impl<N: Ord> Names<N> {
    /// Whether another topic's log is open under the name. Its lane has not heard yet that the topic is gone: its files are
    /// to be deleted before the name is used.
    #[must_use]
    pub fn is_taken_from(&self, name: &N, by: TopicId) -> bool {
        self.0.get(name).is_some_and(|owner| *owner != by)
    }

    /// Whether any topic's log was opened under the name.
    #[must_use]
    pub fn is_used(&self, name: &N) -> bool {
        self.0.contains_key(name)
    }

    /// A topic's log was opened, or made, under the name.
    pub fn opened(&mut self, name: N, topic: TopicId) {
        self.0.insert(name, topic);
    }

    /// A topic's log is to be deleted. Whether the files under the name are its own; else they are a later topic's.
    #[must_use]
    pub fn give_up(&mut self, name: &N, topic: TopicId) -> bool {
        let is_own = !self.is_taken_from(name, topic);
        if is_own {
            self.0.remove(name);
        }
        is_own
    }

    /// Whether the name is still this topic's: no later one has taken it.
    #[must_use]
    pub fn has(&self, name: &N, topic: TopicId) -> bool {
        !self.is_taken_from(name, topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::uuid::Uuid;

    const EARLIER: TopicId = TopicId(Uuid(1));
    const LATER: TopicId = TopicId(Uuid(2));

    #[test]
    fn the_later_topic_keeps_its_log_when_the_earlier_one_goes() {
        let mut names = Names::default();
        names.opened("t-0", EARLIER);
        assert!(names.has(&"t-0", EARLIER));
        assert!(names.is_taken_from(&"t-0", LATER));

        names.opened("t-0", LATER);

        assert!(!names.has(&"t-0", EARLIER));
        assert!(!names.give_up(&"t-0", EARLIER));
        assert!(names.has(&"t-0", LATER));
        assert!(names.give_up(&"t-0", LATER));
        assert!(!names.is_taken_from(&"t-0", EARLIER), "the name is free");
    }

    #[test]
    fn a_log_that_was_found_is_taken_over_removed_or_kept() {
        assert_eq!(lies_there(Some(LATER), true, LATER), Lies::Own);
        assert_eq!(lies_there(Some(EARLIER), true, LATER), Lies::Other);
        assert_eq!(lies_there(None, true, LATER), Lies::Bare);
        assert_eq!(lies_there(None, false, LATER), Lies::Other);
    }
}

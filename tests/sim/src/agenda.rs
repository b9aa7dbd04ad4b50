//! What is to happen when: a heap in virtual time. What is due at the same moment happens in the order in which it was
//! put down.
//!
//! Must not: know what the entries mean.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Things to come, the earliest first.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Duration,
    number: u64,
    what: T,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            next: 0,
        }
    }
}

impl<T> Agenda<T> {
    /// Puts something down for a moment of the world.
    pub fn put(&mut self, at: Duration, what: T) {
        self.heap.push(Reverse(Entry {
            at,
            number: self.next,
            what,
        }));
        self.next += 1;
    }

    /// When the next thing is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next thing that is due by `now`, with its moment.
    pub fn take_due(&mut self, now: Duration) -> Option<(Duration, T)> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_at_one_moment_happens_in_the_order_of_putting_down() {
        let mut agenda = Agenda::default();
        let at = Duration::from_millis;
        agenda.put(at(2), "c");
        agenda.put(at(1), "a");
        agenda.put(at(1), "b");

        let due: Vec<_> = std::iter::from_fn(|| agenda.take_due(at(1)))
            .map(|(_, what)| what)
            .collect();
        assert_eq!(due, ["a", "b"]);
        assert_eq!(agenda.next_at(), Some(at(2)));
    }
}

//! When records are due, and which batches are ready: an open loop. What is late stays due when it was, so that a
//! cluster that stalls is charged for every record that waited. Decides, and looks at no clock.

use super::batch::Stamp;

/// The records of one broker, one after the other.
#[derive(Debug, Clone)]
pub struct Schedule {
    began: u64,
    /// Between two records, in ns.
    step: f64,
    /// How long a record waits for its batch to fill, in ns.
    linger: u64,
    batch_records: u64,
    next: u64,
}

impl Schedule {
    /// `rate` records a second from `began` on, in ns on the generator's clock.
    pub fn new(began: u64, rate: f64, linger: u64, batch_records: usize) -> Self {
        assert!(0.0 < rate, "a rate is more than nothing");
        Self {
            began,
            step: 1e9 / rate,
            linger,
            batch_records: batch_records as u64,
            next: 0,
        }
    }

    fn due(&self, record: u64) -> u64 {
        self.began + (record as f64 * self.step) as u64
    }

    /// Takes the next batch, if it is full or has waited long enough.
    pub fn take(&mut self, now: u64) -> Option<(usize, Stamp)> {
        let first = self.due(self.next);
        if now < first {
            return None;
        }
        let came = ((now - self.began) as f64 / self.step) as u64 + 1;
        let waiting = came.saturating_sub(self.next).max(1);
        if waiting < self.batch_records && now < first + self.linger {
            return None;
        }
        let count = waiting.min(self.batch_records);
        self.next += count;
        Some((
            count as usize,
            Stamp {
                first,
                step: self.step as u64,
            },
        ))
    }

    /// When there is a batch to take.
    pub fn ready_at(&self) -> u64 {
        let full = self.due(self.next + self.batch_records - 1);
        full.min(self.due(self.next) + self.linger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_batch_goes_when_it_is_full() {
        let mut schedule = Schedule::new(0, 1000.0, 50 * MS, 3);
        assert_eq!(schedule.ready_at(), 2 * MS);
        assert_eq!(schedule.take(MS), None);
        assert_eq!(schedule.take(2 * MS), Some((3, Stamp { first: 0, step: MS })));
        assert_eq!(schedule.take(2 * MS), None);
    }

    #[test]
    fn a_batch_that_does_not_fill_goes_when_its_first_record_has_waited() {
        let mut schedule = Schedule::new(0, 1000.0, 5 * MS, 100);
        assert_eq!(schedule.ready_at(), 5 * MS);
        assert_eq!(schedule.take(5 * MS), Some((6, Stamp { first: 0, step: MS })));
        assert_eq!(schedule.ready_at(), 11 * MS);
    }

    #[test]
    fn what_a_stall_held_up_is_due_when_it_was() {
        let mut schedule = Schedule::new(0, 1000.0, 0, 10);
        assert_eq!(schedule.take(0), Some((1, Stamp { first: 0, step: MS })));
        let mut taken = Vec::new();
        while let Some((count, stamp)) = schedule.take(25 * MS) {
            taken.push((count, stamp.first / MS));
        }
        assert_eq!(taken, [(10, 1), (10, 11), (5, 21)]);
    }
}

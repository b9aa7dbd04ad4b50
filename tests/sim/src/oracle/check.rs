//! The judgement. One function per promise; each finds all breaches of one class and keeps the smallest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::history::{History, Outcome, Partition, Read, Reader};

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// An acknowledged record is not there any more.
    Lost,
    /// A record stands at two offsets though its producer is idempotent.
    Duplicate,
    /// A record was read at another offset than the one it was acknowledged with.
    Moved,
    /// Two records were seen at one offset of one partition.
    Divergent,
    /// Records of one producer stand in another order than they were sent.
    Reordered,
    /// An idempotent producer's record was skipped though a later one is there.
    Gap,
    /// Offsets between records that nothing fills.
    Hole,
    /// A record that nobody sent, or with bytes that nobody sent.
    Phantom,
    /// A record that was refused for good was read.
    RefusedYetRead,
    /// A reader was given an offset that it had already passed.
    WentBack,
    /// A record that somebody read is not in the final log: the log was cut below what was committed.
    RolledBack,
    /// A reader was given a later record though one before it was not given yet.
    Skipped,
    /// A record is there, and a reader that read on to the end never got it.
    Unseen,
    /// The records of one batch do not stand one behind the other, or not all of them are there.
    TornBatch,
    /// A later send was acknowledged with a lower offset.
    AcknowledgedOutOfOrder,
    /// Nothing was acknowledged, or nobody read everything: such a history proves nothing.
    ProvesNothing,
}

/// Breaches of one class: how many, and the smallest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Which promise.
    pub class: Class,
    /// How often it was broken.
    pub count: usize,
    /// The breach with the lowest partition and offset, in words.
    pub witness: String,
}

/// What the oracle says about a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Sends that were acknowledged.
    pub acknowledged: usize,
    /// Sends of which nobody knows the end.
    pub unknown: usize,
    /// Records in the final log.
    pub in_the_log: usize,
    /// What was broken, one entry a class.
    pub anomalies: Vec<Anomaly>,
}

impl Verdict {
    /// Whether every promise was kept.
    pub fn holds(&self) -> bool {
        self.anomalies.is_empty()
    }

    /// The classes that were found, sorted.
    pub fn classes(&self) -> Vec<Class> {
        self.anomalies.iter().map(|anomaly| anomaly.class).collect()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict {
            acknowledged,
            unknown,
            in_the_log,
            anomalies,
        } = self;
        write!(
            f,
            "{acknowledged} acknowledged, {unknown} unknown, {in_the_log} in the log"
        )?;
        for Anomaly {
            class,
            count,
            witness,
        } in anomalies
        {
            write!(f, "\n{class:?} × {count}: {witness}")?;
        }
        Ok(())
    }
}

/// Collects breaches; the witness of a class is the one at the lowest place.
#[derive(Default)]
struct Breaches(BTreeMap<Class, (usize, (Partition, i64), String)>);

impl Breaches {
    fn add(&mut self, class: Class, partition: Partition, offset: i64, witness: String) {
        let place = (partition, offset);
        let entry = self.0.entry(class).or_insert_with(|| (0, place, witness.clone()));
        entry.0 += 1;
        if place < entry.1 {
            (entry.1, entry.2) = (place, witness);
        }
    }
}

/// A history with the indexes that the checks share.
struct Facts<'a> {
    history: &'a History,
    /// Index of each send by what it says.
    sent: BTreeMap<(Partition, &'a [u8]), usize>,
    /// What complete readers saw, by place.
    log: BTreeMap<(Partition, i64), &'a [u8]>,
    /// Where complete readers saw each payload.
    places: BTreeMap<(Partition, &'a [u8]), BTreeSet<i64>>,
}

impl<'a> Facts<'a> {
    fn of(history: &'a History) -> Facts<'a> {
        let sends = history.sends.iter().enumerate();
        let sent = sends
            .map(|(index, send)| ((send.partition, send.payload.as_slice()), index))
            .collect();
        let mut log = BTreeMap::new();
        let mut places: BTreeMap<_, BTreeSet<i64>> = BTreeMap::new();
        for read in history
            .reads
            .iter()
            .filter(|read| history.complete.contains(&read.reader))
        {
            log.insert((read.partition, read.offset), read.payload.as_slice());
            places
                .entry((read.partition, read.payload.as_slice()))
                .or_default()
                .insert(read.offset);
        }
        Facts {
            history,
            sent,
            log,
            places,
        }
    }
}

/// Payloads are long; a witness shows how they begin.
fn short(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(&payload[..payload.len().min(32)]);
    if payload.len() > 32 {
        format!("`{text}…`")
    } else {
        format!("`{text}`")
    }
}

/// Whether every promise was kept in `history`.
pub fn check(history: &History) -> Verdict {
    let facts = Facts::of(history);
    let mut breaches = Breaches::default();
    acknowledged_is_there(&facts, &mut breaches);
    each_record_stands_once(&facts, &mut breaches);
    one_record_an_offset(&facts, &mut breaches);
    producers_keep_their_order(&facts, &mut breaches);
    offsets_are_dense(&facts, &mut breaches);
    only_what_was_sent(&facts, &mut breaches);
    readers_go_forward(&facts, &mut breaches);
    what_was_read_stays(&facts, &mut breaches);
    readers_skip_nothing(&facts, &mut breaches);
    readers_see_everything(&facts, &mut breaches);
    batches_stay_whole(&facts, &mut breaches);
    acknowledgements_are_in_order(&facts, &mut breaches);
    let count =
        |wanted: fn(&Outcome) -> bool| history.sends.iter().filter(|send| wanted(&send.outcome)).count();
    let acknowledged = count(|outcome| matches!(outcome, Outcome::Acknowledged(_) | Outcome::Confirmed));
    if acknowledged == 0 || history.complete.is_empty() {
        let readers = history.complete.len();
        let witness = format!("{acknowledged} acknowledged, {readers} complete readers");
        breaches.add(Class::ProvesNothing, Partition(0), 0, witness);
    }
    let anomalies = breaches.0.into_iter();
    Verdict {
        acknowledged,
        unknown: count(|outcome| matches!(outcome, Outcome::Unknown)),
        in_the_log: facts.log.len(),
        anomalies: anomalies
            .map(|(class, (count, _, witness))| Anomaly {
                class,
                count,
                witness,
            })
            .collect(),
    }
}

fn acknowledged_is_there(facts: &Facts<'_>, breaches: &mut Breaches) {
    if facts.history.complete.is_empty() {
        return;
    }
    for send in &facts.history.sends {
        let told = match send.outcome {
            Outcome::Acknowledged(offset) => Some(offset),
            Outcome::Confirmed => None,
            Outcome::Refused | Outcome::Unknown => continue,
        };
        let what = short(&send.payload);
        let at = told.map_or("?".to_owned(), |offset| offset.to_string());
        let acknowledged = format!("{what} acknowledged at {:?}@{at}", send.partition);
        let offset = told.unwrap_or(-1);
        match facts.places.get(&(send.partition, send.payload.as_slice())) {
            None => {
                let witness = format!("{acknowledged}, never read");
                breaches.add(Class::Lost, send.partition, offset, witness);
            }
            Some(offsets) if told.is_some_and(|offset| !offsets.contains(&offset)) => {
                let witness = format!("{acknowledged}, read at {offsets:?}");
                breaches.add(Class::Moved, send.partition, offset, witness);
            }
            Some(_) => {}
        }
    }
}

fn each_record_stands_once(facts: &Facts<'_>, breaches: &mut Breaches) {
    for ((partition, payload), offsets) in facts.places.iter().filter(|(_, offsets)| offsets.len() > 1) {
        let send = facts
            .sent
            .get(&(*partition, payload))
            .map(|index| &facts.history.sends[*index]);
        if send.is_some_and(|send| !facts.history.plain_producers.contains(&send.producer)) {
            let first = offsets.first().copied().unwrap_or_default();
            let witness = format!("{} stands at {partition:?}@{offsets:?}", short(payload));
            breaches.add(Class::Duplicate, *partition, first, witness);
        }
    }
}

fn one_record_an_offset(facts: &Facts<'_>, breaches: &mut Breaches) {
    let mut seen: BTreeMap<(Partition, i64), &Read> = BTreeMap::new();
    for read in &facts.history.reads {
        let first = seen.entry((read.partition, read.offset)).or_insert(read);
        if first.payload != read.payload {
            let (one, other) = (short(&first.payload), short(&read.payload));
            let place = format!("{:?}@{}", read.partition, read.offset);
            let witness = format!(
                "{place}: {:?} read {one}, {:?} read {other}",
                first.reader, read.reader
            );
            breaches.add(Class::Divergent, read.partition, read.offset, witness);
        }
    }
}

fn producers_keep_their_order(facts: &Facts<'_>, breaches: &mut Breaches) {
    // For each producer and partition: the offset of the newest record seen so far, and what was skipped.
    let mut newest: BTreeMap<(u32, Partition), i64> = BTreeMap::new();
    let mut skipped: BTreeMap<(u32, Partition), usize> = BTreeMap::new();
    for (index, send) in facts.history.sends.iter().enumerate() {
        if facts.history.plain_producers.contains(&send.producer) {
            continue;
        }
        let line = (send.producer, send.partition);
        let place = facts.places.get(&(send.partition, send.payload.as_slice()));
        let Some(offset) = place.and_then(|offsets| offsets.first().copied()) else {
            // An acknowledged one that is missing is lost already, and a refused one was never owed.
            if send.outcome == Outcome::Unknown {
                skipped.entry(line).or_insert(index);
            }
            continue;
        };
        if let Some(before) = skipped.remove(&line) {
            let (missing, later) = (short(&facts.history.sends[before].payload), short(&send.payload));
            let witness = format!(
                "{missing} is missing, {later} of the same producer is at {:?}@{offset}",
                line.1
            );
            breaches.add(Class::Gap, send.partition, offset, witness);
        }
        if newest.get(&line).is_some_and(|before| *before > offset) {
            let witness = format!(
                "{} was sent later and stands earlier, at {:?}@{offset}",
                short(&send.payload),
                line.1
            );
            breaches.add(Class::Reordered, send.partition, offset, witness);
        }
        let newest = newest.entry(line).or_insert(offset);
        *newest = offset.max(*newest);
    }
}

fn offsets_are_dense(facts: &Facts<'_>, breaches: &mut Breaches) {
    let mut before: Option<(Partition, i64)> = None;
    for (partition, offset) in facts.log.keys().copied() {
        let wanted = match before {
            Some((same, last)) if same == partition => last + 1,
            _ => 0,
        };
        if offset != wanted {
            let witness = format!("{partition:?} goes from {} to {offset}", wanted - 1);
            breaches.add(Class::Hole, partition, wanted, witness);
        }
        before = Some((partition, offset));
    }
}

fn only_what_was_sent(facts: &Facts<'_>, breaches: &mut Breaches) {
    for read in &facts.history.reads {
        let place = format!("{} at {:?}@{}", short(&read.payload), read.partition, read.offset);
        match facts.sent.get(&(read.partition, read.payload.as_slice())) {
            None => breaches.add(
                Class::Phantom,
                read.partition,
                read.offset,
                format!("nobody sent {place}"),
            ),
            Some(index) if facts.history.sends[*index].outcome == Outcome::Refused => {
                let witness = format!("{place} had been refused");
                breaches.add(Class::RefusedYetRead, read.partition, read.offset, witness);
            }
            Some(_) => {}
        }
    }
}

fn readers_go_forward(facts: &Facts<'_>, breaches: &mut Breaches) {
    let mut last: BTreeMap<(Reader, Partition), i64> = BTreeMap::new();
    for read in &facts.history.reads {
        let before = last.insert((read.reader, read.partition), read.offset);
        if let Some(before) = before.filter(|before| *before >= read.offset) {
            let place = format!("{:?} of {:?}", read.reader, read.partition);
            let witness = format!("{place} was given {} after {before}", read.offset);
            breaches.add(Class::WentBack, read.partition, read.offset, witness);
        }
    }
}

fn readers_skip_nothing(facts: &Facts<'_>, breaches: &mut Breaches) {
    let mut last: BTreeMap<(Reader, Partition), i64> = BTreeMap::new();
    for read in &facts.history.reads {
        let before = last.insert((read.reader, read.partition), read.offset);
        let Some(before) = before.filter(|before| *before < read.offset) else {
            continue;
        };
        let between = (read.partition, before + 1)..(read.partition, read.offset);
        if let Some(((partition, offset), payload)) = facts.log.range(between).next() {
            let witness = format!(
                "{:?} was given {} after {before} of {partition:?}, and not {} at {offset}",
                read.reader,
                read.offset,
                short(payload)
            );
            breaches.add(Class::Skipped, *partition, *offset, witness);
        }
    }
}

fn readers_see_everything(facts: &Facts<'_>, breaches: &mut Breaches) {
    for reader in &facts.history.settled {
        let reads = facts.history.reads.iter().filter(|read| read.reader == *reader);
        let seen: BTreeSet<(Partition, i64)> = reads.map(|read| (read.partition, read.offset)).collect();
        let unseen = facts.log.iter().filter(|(place, _)| !seen.contains(place));
        for ((partition, offset), payload) in unseen {
            let witness = format!(
                "{reader:?} never got {} at {partition:?}@{offset}",
                short(payload)
            );
            breaches.add(Class::Unseen, *partition, *offset, witness);
        }
    }
}

fn batches_stay_whole(facts: &Facts<'_>, breaches: &mut Breaches) {
    // For each batch: the offsets of its records, in the order of sending; none for one that is not there.
    let mut batches: BTreeMap<(u32, Partition, u64), Vec<Option<i64>>> = BTreeMap::new();
    for send in &facts.history.sends {
        let Some(batch) = send.batch else { continue };
        if facts.history.plain_producers.contains(&send.producer) {
            continue;
        }
        let place = facts.places.get(&(send.partition, send.payload.as_slice()));
        let offset = place.and_then(|offsets| offsets.first().copied());
        let batch = batches.entry((send.producer, send.partition, batch));
        batch.or_default().push(offset);
    }
    for ((producer, partition, _), offsets) in batches {
        let Some(first) = offsets.iter().flatten().min().copied() else {
            continue;
        };
        let is_whole = (first..)
            .zip(&offsets)
            .all(|(wanted, held)| *held == Some(wanted));
        if !is_whole {
            let witness = format!("a batch of producer {producer} stands at {partition:?}@{offsets:?}");
            breaches.add(Class::TornBatch, partition, first, witness);
        }
    }
}

fn what_was_read_stays(facts: &Facts<'_>, breaches: &mut Breaches) {
    if facts.history.complete.is_empty() {
        return;
    }
    for read in facts
        .history
        .reads
        .iter()
        .filter(|read| !facts.history.complete.contains(&read.reader))
    {
        if !facts.log.contains_key(&(read.partition, read.offset)) {
            let place = format!("{:?}@{}", read.partition, read.offset);
            let witness = format!(
                "{:?} read {} at {place}, now gone",
                read.reader,
                short(&read.payload)
            );
            breaches.add(Class::RolledBack, read.partition, read.offset, witness);
        }
    }
}

fn acknowledgements_are_in_order(facts: &Facts<'_>, breaches: &mut Breaches) {
    let mut last: BTreeMap<(u32, Partition), i64> = BTreeMap::new();
    for send in &facts.history.sends {
        let Outcome::Acknowledged(offset) = send.outcome else {
            continue;
        };
        if facts.history.plain_producers.contains(&send.producer) {
            continue;
        }
        let before = last.insert((send.producer, send.partition), offset);
        if let Some(before) = before.filter(|before| *before >= offset) {
            let what = short(&send.payload);
            let witness = format!(
                "{what} acknowledged at {:?}@{offset}, after {before}",
                send.partition
            );
            breaches.add(Class::AcknowledgedOutOfOrder, send.partition, offset, witness);
        }
    }
}

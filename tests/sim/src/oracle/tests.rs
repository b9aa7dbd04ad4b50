//! Every class of anomaly has a made-up history that the oracle must reject, each one step away from a history
//! that it accepts.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;

const WRITER: u32 = 1;
const FINAL: Reader = Reader(9);
const EARLY: Reader = Reader(1);

fn sent(payload: &str, outcome: Outcome) -> Send {
    Send {
        producer: WRITER,
        partition: Partition(0),
        payload: payload.into(),
        batch: None,
        outcome,
    }
}

fn read(reader: Reader, offset: i64, payload: &str) -> Read {
    Read {
        reader,
        partition: Partition(0),
        offset,
        payload: payload.into(),
    }
}

/// Three records, acknowledged and read: what a broker that keeps its promises leaves behind.
fn honest() -> History {
    let names = ["a", "b", "c"];
    History {
        sends: names
            .iter()
            .zip(0..)
            .map(|(name, offset)| sent(name, Outcome::Acknowledged(offset)))
            .collect(),
        reads: names
            .iter()
            .zip(0..)
            .map(|(name, offset)| read(FINAL, offset, name))
            .collect(),
        complete: [FINAL].into(),
        ..History::default()
    }
}

#[test]
fn an_honest_history_holds() {
    let verdict = check(&honest());
    assert!(verdict.holds(), "{verdict}");
    assert_eq!((verdict.acknowledged, verdict.in_the_log), (3, 3));
}

#[test]
fn a_record_whose_offset_was_not_told_may_stand_anywhere_and_must_stand() {
    let mut history = honest();
    history.sends[1].outcome = Outcome::Confirmed;
    let verdict = check(&history);
    assert!(verdict.holds(), "{verdict}");
    assert_eq!(verdict.acknowledged, 3);
    history.sends.push(sent("d", Outcome::Confirmed));
    assert_eq!(check(&history).classes(), [Class::Lost]);
}

#[test]
fn an_unknown_send_may_be_there_or_not() {
    let mut history = honest();
    history.sends.push(sent("d", Outcome::Unknown));
    assert!(check(&history).holds());
    history.reads.push(read(FINAL, 3, "d"));
    assert!(check(&history).holds());
}

#[test]
fn an_acknowledged_record_that_is_gone_is_lost() {
    let mut history = honest();
    history.reads.pop();
    let verdict = check(&history);
    assert_eq!(verdict.classes(), [Class::Lost]);
    assert!(verdict.anomalies[0].witness.contains("`c`"), "{verdict}");
}

#[test]
fn a_record_at_two_offsets_is_a_duplicate_unless_its_producer_is_plain() {
    let mut history = honest();
    history.reads.push(read(FINAL, 3, "c"));
    assert_eq!(check(&history).classes(), [Class::Duplicate]);
    history.plain_producers.insert(WRITER);
    assert!(check(&history).holds());
}

#[test]
fn a_record_at_another_offset_than_acknowledged_has_moved() {
    let mut history = honest();
    history.sends[2].outcome = Outcome::Acknowledged(7);
    assert_eq!(check(&history).classes(), [Class::Moved]);
}

#[test]
fn two_records_at_one_offset_diverge() {
    let mut history = honest();
    history.sends.push(sent("d", Outcome::Unknown));
    history.reads.insert(0, read(EARLY, 2, "d"));
    assert_eq!(check(&history).classes(), [Class::Divergent]);
}

#[test]
fn records_in_another_order_than_sent_are_reordered() {
    let mut history = honest();
    history
        .sends
        .iter_mut()
        .for_each(|send| send.outcome = Outcome::Unknown);
    history.sends[0].outcome = Outcome::Acknowledged(0);
    history.reads[1].payload = b"c".to_vec();
    history.reads[2].payload = b"b".to_vec();
    assert_eq!(check(&history).classes(), [Class::Reordered]);
}

#[test]
fn a_skipped_record_before_a_later_one_is_a_gap() {
    let mut history = honest();
    history.sends.insert(1, sent("between", Outcome::Unknown));
    assert_eq!(check(&history).classes(), [Class::Gap]);
    history.sends[1].outcome = Outcome::Refused;
    assert!(check(&history).holds(), "a refused record is no gap");
}

#[test]
fn offsets_that_nothing_fills_are_a_hole() {
    let mut history = honest();
    history.sends[2].outcome = Outcome::Acknowledged(3);
    history.reads[2].offset = 3;
    assert_eq!(check(&history).classes(), [Class::Hole]);
}

#[test]
fn a_log_that_does_not_begin_at_its_start_has_a_hole() {
    let mut history = honest();
    history.sends.remove(0);
    history.reads.remove(0);
    assert_eq!(check(&history).classes(), [Class::Hole]);
}

#[test]
fn a_record_that_nobody_sent_is_a_phantom() {
    let mut history = honest();
    history.reads.push(read(FINAL, 3, "x"));
    assert_eq!(check(&history).classes(), [Class::Phantom]);
}

#[test]
fn a_record_in_the_wrong_partition_is_a_phantom_there() {
    let mut history = honest();
    history.reads.push(Read {
        partition: Partition(1),
        ..read(FINAL, 0, "a")
    });
    assert_eq!(check(&history).classes(), [Class::Phantom]);
}

#[test]
fn a_refused_record_must_not_be_read() {
    let mut history = honest();
    history.sends.push(sent("d", Outcome::Refused));
    history.reads.push(read(FINAL, 3, "d"));
    assert_eq!(check(&history).classes(), [Class::RefusedYetRead]);
}

#[test]
fn a_reader_that_is_given_an_old_offset_went_back() {
    let mut history = honest();
    history.reads.extend([read(EARLY, 1, "b"), read(EARLY, 0, "a")]);
    assert_eq!(check(&history).classes(), [Class::WentBack]);
}

#[test]
fn a_record_that_was_read_and_is_gone_was_rolled_back() {
    let mut history = honest();
    history.sends.push(sent("d", Outcome::Unknown));
    history.reads.push(read(EARLY, 3, "d"));
    assert_eq!(check(&history).classes(), [Class::RolledBack]);
}

#[test]
fn a_reader_that_is_not_given_a_record_between_two_was_made_to_skip_it() {
    let mut history = honest();
    history.reads.extend([read(EARLY, 0, "a"), read(EARLY, 2, "c")]);
    assert_eq!(check(&history).classes(), [Class::Skipped]);
}

#[test]
fn a_record_that_a_settled_reader_never_got_is_unseen() {
    let mut history = honest();
    history.reads.extend([read(EARLY, 0, "a"), read(EARLY, 1, "b")]);
    assert!(check(&history).holds(), "it may be on its way");
    history.settled.insert(EARLY);
    assert_eq!(check(&history).classes(), [Class::Unseen]);
}

#[test]
fn a_batch_of_which_a_part_is_there_is_torn() {
    let mut history = honest();
    history.sends[2].batch = Some(1);
    history.sends.push(Send {
        batch: Some(1),
        ..sent("d", Outcome::Unknown)
    });
    assert_eq!(check(&history).classes(), [Class::TornBatch]);
    history.reads.push(read(FINAL, 3, "d"));
    assert!(check(&history).holds());
}

#[test]
fn a_lower_offset_for_a_later_send_is_out_of_order() {
    let mut history = honest();
    history.sends[1].outcome = Outcome::Acknowledged(2);
    history.sends[2].outcome = Outcome::Acknowledged(1);
    assert!(check(&history).classes().contains(&Class::AcknowledgedOutOfOrder));
}

#[test]
fn a_history_without_acknowledgements_or_without_a_complete_reader_proves_nothing() {
    assert_eq!(check(&History::default()).classes(), [Class::ProvesNothing]);
    let mut history = honest();
    history.complete.clear();
    assert_eq!(check(&history).classes(), [Class::ProvesNothing]);
}

#[test]
fn the_witness_is_the_one_at_the_lowest_place() {
    let mut history = honest();
    history.reads.truncate(1);
    let verdict = check(&history);
    assert_eq!(
        (verdict.anomalies[0].class, verdict.anomalies[0].count),
        (Class::Lost, 2)
    );
    assert!(verdict.anomalies[0].witness.starts_with("`b`"), "{verdict}");
}

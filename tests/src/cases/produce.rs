//! What a leader must refuse to store: BC-056 to BC-061, BC-063.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::expect;
use crate::cluster::{Cluster, NodeId};
use crate::raw::batch::{Batch, now_ms, stored};
use crate::raw::requests::{FetchLimits, NewTopic, code};
use crate::raw::{Answer, Connection};
use crate::{ask, wait};

/// Attribute bits of a batch.
const LOG_APPEND_TIME: i16 = 8;
const TRANSACTIONAL: i16 = 16;
const CONTROL: i16 = 32;

/// Where a batch holds its largest timestamp.
const MAX_TIMESTAMP: std::ops::Range<usize> = 35..43;

/// A fresh topic of two partitions and its leader.
fn topic(cluster: &Cluster, name: &str, configs: &[(&str, &str)]) -> Result<Connection> {
    let wanted = NewTopic::new(name, 2, 1).on(&[(0, &[1]), (1, &[1])]);
    let wanted = configs
        .iter()
        .fold(wanted, |topic, (key, value)| topic.with(key, value));
    ask::create(&cluster.bootstrap(), wanted)?;
    ask::leader(&cluster.bootstrap(), name, 0)
}

fn end(leader: &mut Connection, topic: &str) -> Result<i64> {
    let (error, _, offset) = leader.list_offset(topic, 0, -1)?;
    expect("ListOffsets", error, &[code::NONE])?;
    Ok(offset)
}

/// BC-056: a header that says n records over a body of m.
pub fn false_counts(cluster: &Cluster) -> Result<String> {
    let name = "bc-056";
    let mut leader = topic(cluster, name, &[])?;
    let honest = Batch::of(&[b"one", b"two", b"three"]);
    let lies = [
        (
            "count 5 over 3 records",
            Batch {
                count: 5,
                last_offset_delta: 4,
                ..honest.clone()
            },
        ),
        (
            "last offset delta 9",
            Batch {
                last_offset_delta: 9,
                ..honest.clone()
            },
        ),
        (
            "count 0",
            Batch {
                count: 0,
                ..honest.clone()
            },
        ),
        (
            "last offset delta -1",
            Batch {
                last_offset_delta: -1,
                ..honest.clone()
            },
        ),
    ];
    for (what, lie) in &lies {
        let got = leader.produce(name, 0, -1, &lie.bytes())?;
        expect(what, got.error, &[code::INVALID_RECORD])?;
        ensure!(end(&mut leader, name)? == 0, "{what}: the log end moved");
    }
    let mut shuffled = honest.clone();
    shuffled.records[1].offset_delta = 2;
    shuffled.records[2].offset_delta = 1;
    let got = leader.produce(name, 0, -1, &shuffled.bytes())?;
    expect(
        "offset deltas 0, 2, 1",
        got.error,
        &[code::INVALID_RECORD, code::NONE],
    )?;
    let before = end(&mut leader, name)?;
    let next = leader.produce(name, 0, -1, &honest.bytes())?;
    expect("the next honest batch", next.error, &[code::NONE])?;
    ensure!(
        next.base_offset == before,
        "it got offset {} after a log end of {before}",
        next.base_offset
    );
    Ok(format!(
        "{} false headers refused, next offset {before}",
        lies.len()
    ))
}

/// BC-057: things that only brokers may write.
pub fn broker_only(cluster: &Cluster) -> Result<String> {
    let name = "bc-057";
    let mut leader = topic(cluster, name, &[])?;
    let honest = Batch::of(&[b"one"]);
    let mut old = honest.bytes();
    old[16] = 1;
    let forged = [
        (
            "a control batch",
            Batch {
                attributes: CONTROL,
                ..honest.clone()
            }
            .bytes(),
        ),
        (
            "base offset 100",
            Batch {
                base_offset: 100,
                ..honest.clone()
            }
            .bytes(),
        ),
        (
            "a producer id without a sequence",
            honest.clone().from_producer(5, 0, -1).bytes(),
        ),
        ("two batches", [honest.bytes(), honest.bytes()].concat()),
        ("magic 1", old),
        ("no records", Vec::new()),
    ];
    for (what, bytes) in &forged {
        let good = honest.bytes();
        let both = leader.produce_many(-1, &[(name, 0, bytes), (name, 1, &good)])?;
        ensure!(both.len() == 2, "{what}: {} answers", both.len());
        expect(what, both[0].error, &[code::INVALID_RECORD])?;
        expect(
            &format!("the other partition, beside {what}"),
            both[1].error,
            &[code::NONE],
        )?;
    }
    let transactional = Batch {
        attributes: TRANSACTIONAL,
        ..honest.clone()
    }
    .from_producer(5, 0, 0)
    .bytes();
    let good = honest.bytes();
    let both = leader.produce_many(-1, &[(name, 0, &transactional), (name, 1, &good)])?;
    for answer in &both {
        let what = "the transactional bit without a transactional id";
        expect(
            what,
            answer.error,
            &[code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, code::INVALID_RECORD],
        )?;
    }
    ensure!(end(&mut leader, name)? == 0, "something forged was stored");
    Ok(format!(
        "{} forgeries refused, other partitions served",
        forged.len() + 1
    ))
}

/// BC-058: damaged bytes.
pub fn damage(cluster: &Cluster) -> Result<String> {
    let name = "bc-058";
    let mut leader = topic(cluster, name, &[])?;
    let honest = Batch::of(&[b"precious"]).bytes();
    let damaged = |change: fn(&mut Vec<u8>)| {
        let mut bytes = honest.clone();
        change(&mut bytes);
        bytes
    };
    let refused = [code::CORRUPT_MESSAGE, code::INVALID_RECORD];
    let flipped = damaged(|bytes| *bytes.iter_mut().rev().nth(3).expect("a batch is long") ^= 4);
    let long = damaged(|bytes| bytes[8..12].copy_from_slice(&4096_i32.to_be_bytes()));
    let short = damaged(|bytes| bytes[8..12].copy_from_slice(&10_i32.to_be_bytes()));
    for (what, bytes) in [
        ("a flipped bit", flipped),
        ("a length beyond", long),
        ("length 10", short),
    ] {
        expect(what, leader.produce(name, 0, -1, &bytes)?.error, &refused)?;
    }
    ensure!(end(&mut leader, name)? == 0, "something damaged was stored");
    let epoch = damaged(|bytes| bytes[12] ^= 0x40);
    expect(
        "another leader epoch",
        leader.produce(name, 0, -1, &epoch)?.error,
        &[code::NONE],
    )?;
    let read = stored(&leader.fetch(name, 0, 0, FetchLimits::default())?.records)?;
    ensure!(
        read.len() == 1 && read[0].value == b"precious",
        "it came back as {read:?}"
    );
    Ok("3 damages refused, the leader epoch overwritten".to_owned())
}

/// BC-059, as far as nothing is compacted yet: a record without a key in a compacted topic is named, and none is stored.
pub fn keyless(cluster: &Cluster) -> Result<String> {
    let name = "bc-059";
    let mut leader = topic(cluster, name, &[("cleanup.policy", "compact")])?;
    let mut five = Batch::of(&[b"0", b"1", b"2", b"3", b"4"]);
    for record in &mut five.records {
        record.key = Some(b"key".to_vec());
    }
    five.records[2].key = None;
    let got = leader.produce(name, 0, -1, &five.bytes())?;
    expect("a record without a key", got.error, &[code::INVALID_RECORD])?;
    let named: Vec<i32> = got.record_errors.iter().map(|(index, _)| *index).collect();
    ensure!(named == [2], "it names records {named:?} instead of record 2");
    ensure!(end(&mut leader, name)? == 0, "something was stored");
    five.records[2].key = Some(b"key".to_vec());
    let got = leader.produce(name, 0, -1, &five.bytes())?;
    expect("the same with five keys", got.error, &[code::NONE])?;
    Ok("record 2 of 5 named, nothing stored".to_owned())
}

/// BC-060, what one broker shows: acks values, and acks=0 that fails.
pub fn acks_values(cluster: &Cluster) -> Result<String> {
    let name = "bc-060";
    let mut leader = topic(cluster, name, &[])?;
    let honest = Batch::of(&[b"one"]).bytes();
    for acks in [2, -2] {
        let got = leader.produce(name, 0, acks, &honest)?;
        expect(&format!("acks={acks}"), got.error, &[code::INVALID_REQUIRED_ACKS])?;
    }
    let mut corrupt = honest.clone();
    *corrupt.last_mut().expect("a batch is long") ^= 1;
    for (what, topic, bytes) in [
        ("an unknown topic", "bc-060-none", &honest),
        ("a corrupt batch", name, &corrupt),
    ] {
        let mut connection = ask::leader(&cluster.bootstrap(), name, 0)?;
        connection.send_produce(topic, 0, 0, bytes)?;
        let got = connection.answer()?;
        ensure!(
            got == Answer::Closed,
            "acks=0 to {what}: {got:?} instead of a closed connection"
        );
    }
    leader.send_produce(name, 0, 0, &honest)?;
    leader.answers_within(Duration::from_millis(500))?;
    ensure!(leader.answer()? == Answer::Silence, "acks=0 was answered");
    wait::until_equal("the record sent with acks=0", Duration::from_secs(10), 1, || {
        end(&mut leader, name)
    })?;
    Ok("acks 2 and −2 refused; a failing acks=0 closes".to_owned())
}

/// BC-060, what a replicated partition shows: too few in sync, before and after the append.
pub fn too_few_in_sync(cluster: &mut Cluster) -> Result<String> {
    let name = "bc-060-few";
    let wanted = NewTopic::new(name, 1, 2)
        .on(&[(0, &[1, 2])])
        .with("min.insync.replicas", "2");
    ask::create(&cluster.bootstrap(), wanted)?;
    let honest = Batch::of(&[b"one"]).bytes();
    let mut leader = ask::leader(&cluster.bootstrap(), name, 0)?;
    expect(
        "both in sync",
        leader.produce(name, 0, -1, &honest)?.error,
        &[code::NONE],
    )?;
    let other = ask::partitions(&cluster.bootstrap(), name)?[0].replicas.clone();
    let led_by = ask::partitions(&cluster.bootstrap(), name)?[0].leader;
    let follower = other
        .into_iter()
        .find(|id| *id != led_by)
        .map(|id| NodeId(id.cast_unsigned()));
    let follower = follower.ok_or_else(|| anyhow::anyhow!("no follower"))?;

    cluster.stop(follower)?;
    let allowed = [
        code::NOT_ENOUGH_REPLICAS,
        code::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        code::REQUEST_TIMED_OUT,
    ];
    leader.answers_within(Duration::from_secs(40))?;
    let after = leader.produce(name, 0, -1, &honest)?.error;
    expect("the follower silent", after, &allowed)?;
    let led_by = NodeId(led_by.cast_unsigned());
    let address = cluster.address(led_by)?;
    wait::until("the silent follower out of sync", Duration::from_secs(60), || {
        let partition = &ask::partitions(&address, name)?[0];
        ensure!(partition.in_sync.len() == 1, "{partition:?}");
        Ok(())
    })?;
    let mut leader = Connection::open(&address)?;
    let before = leader.produce(name, 0, -1, &honest)?.error;
    expect("one in sync", before, &[code::NOT_ENOUGH_REPLICAS])?;
    cluster.cont(follower)?;
    ask::everything_in_sync(&cluster.bootstrap(), name, Duration::from_secs(60))?;
    expect(
        "both in sync again",
        leader.produce(name, 0, -1, &honest)?.error,
        &[code::NONE],
    )?;
    Ok(format!("after the append: error {after}; before it: {before}"))
}

/// BC-061: timestamps.
pub fn timestamps(cluster: &Cluster) -> Result<String> {
    let name = "bc-061";
    let mut leader = topic(cluster, name, &[])?;
    let mut late = Batch::of(&[b"one", b"two", b"three"]);
    late.records[1].timestamp_delta = 2 * 3600 * 1000;
    late.max_timestamp = late.base_timestamp + late.records[1].timestamp_delta;
    let got = leader.produce(name, 0, -1, &late.bytes())?;
    expect("two hours ahead", got.error, &[code::INVALID_TIMESTAMP])?;
    let named: Vec<i32> = got.record_errors.iter().map(|(index, _)| *index).collect();
    ensure!(named == [1], "it names records {named:?} instead of record 1");

    let mut low = Batch::of(&[b"one", b"two"]);
    low.records[1].timestamp_delta = 5_000;
    low.base_timestamp -= 60_000;
    low.max_timestamp = low.base_timestamp;
    let truth = low.base_timestamp + 5_000;
    if leader.produce(name, 0, -1, &low.bytes())?.error == code::NONE {
        let batch = leader.fetch(name, 0, 0, FetchLimits::default())?.records;
        let largest = i64::from_be_bytes(batch[MAX_TIMESTAMP].try_into()?);
        ensure!(
            largest == truth,
            "a false largest timestamp was stored: {largest} instead of {truth}"
        );
    }

    let stamped = "bc-061-stamped";
    let mut leader = topic(cluster, stamped, &[("message.timestamp.type", "LogAppendTime")])?;
    let old = Batch {
        base_timestamp: 1,
        max_timestamp: 1,
        ..Batch::of(&[b"one"])
    };
    let got = leader.produce(stamped, 0, -1, &old.bytes())?;
    expect("LogAppendTime", got.error, &[code::NONE])?;
    ensure!(
        (now_ms() - got.log_append_time).abs() < 60_000,
        "stamped {}",
        got.log_append_time
    );
    let fetched = leader.fetch(stamped, 0, 0, FetchLimits::default())?;
    let kind = i16::from_be_bytes([fetched.records[21], fetched.records[22]]);
    let read = stored(&fetched.records)?;
    ensure!(
        kind & LOG_APPEND_TIME != 0 && read[0].timestamp == got.log_append_time,
        "it carries {read:?}"
    );
    Ok("a late record named, LogAppendTime carried".to_owned())
}

/// BC-063: an idempotent producer that was idle longer than its id is remembered. The cluster must have
/// `producer.id.expiration.ms` set to `expiration`.
pub fn idle_producer(cluster: &Cluster, expiration: Duration) -> Result<String> {
    let name = "bc-063";
    let mut leader = topic(cluster, name, &[])?;
    let (id, epoch) = ask::producer_id(&cluster.address(cluster.brokers()[0])?)?;
    let from = |sequence: i32, values: &[&[u8]]| Batch::of(values).from_producer(id, epoch, sequence).bytes();
    let seven: [&[u8]; 7] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6"];
    expect(
        "sequences 0 to 6",
        leader.produce(name, 0, -1, &from(0, &seven))?.error,
        &[code::NONE],
    )?;
    wait::pass(expiration * 2 + Duration::from_secs(2));
    let eighth = from(7, &[b"7"]);
    let got = leader.produce(name, 0, -1, &eighth)?;
    expect("sequence 7 after the pause", got.error, &[code::NONE])?;
    let again = leader.produce(name, 0, -1, &eighth)?;
    expect(
        "its retry",
        again.error,
        &[code::NONE, code::DUPLICATE_SEQUENCE_NUMBER],
    )?;
    ensure!(end(&mut leader, name)? == 8, "the retry was stored");
    Ok("accepted after the pause, its retry stored once".to_owned())
}

/// Sequence numbers in order: a duplicate is answered with its first offset, a gap is refused.
pub fn sequences(cluster: &Cluster) -> Result<String> {
    let name = "sequences";
    let mut leader = topic(cluster, name, &[])?;
    let (id, epoch) = ask::producer_id(&cluster.address(cluster.brokers()[0])?)?;
    let one = |sequence: i32| Batch::of(&[b"x"]).from_producer(id, epoch, sequence).bytes();
    for sequence in 0..5 {
        let got = leader.produce(name, 0, -1, &one(sequence))?;
        ensure!(
            (got.error, got.base_offset) == (code::NONE, i64::from(sequence)),
            "{sequence}: {got:?}"
        );
    }
    let again = leader.produce(name, 0, -1, &one(3))?;
    ensure!(
        (again.error, again.base_offset) == (code::NONE, 3),
        "a repeated batch: {again:?}"
    );
    expect(
        "a gap",
        leader.produce(name, 0, -1, &one(7))?.error,
        &[code::OUT_OF_ORDER_SEQUENCE_NUMBER],
    )?;
    ensure!(
        end(&mut leader, name)? == 5,
        "something was stored twice or out of order"
    );
    Ok("a duplicate answered with its offset, a gap refused".to_owned())
}

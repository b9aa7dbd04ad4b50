//! Positions in a partition that clients go by: BC-068 to BC-071, BC-077.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::expect;
use crate::cluster::{Cluster, NodeId, broker};
use crate::raw::Connection;
use crate::raw::batch::Batch;
use crate::raw::requests::{FetchLimits, NewTopic, code};
use crate::{ask, wait};

const WITHIN: Duration = Duration::from_secs(60);
/// What ListOffsets calls the latest offset, the earliest, and that of the newest record.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const NEWEST: i64 = -3;

fn append(leader: &mut Connection, topic: &str, acks: i16, records: usize) -> Result<()> {
    let values = vec![&b"record"[..]; records];
    let got = leader.produce(topic, 0, acks, &Batch::of(&values).bytes())?;
    expect("a batch", got.error, &[code::NONE])
}

/// BC-068: an offset that exists and is not committed yet is no offset out of range.
pub fn between_watermark_and_end(cluster: &mut Cluster) -> Result<String> {
    let name = "bc-068";
    let wanted = NewTopic::new(name, 1, 3).on(&[(0, &[1, 2, 3])]);
    ask::create(&cluster.bootstrap(), wanted)?;
    let mut leader = ask::leader(&cluster.bootstrap(), name, 0)?;
    append(&mut leader, name, -1, 10)?;
    cluster.stop(broker(2))?;
    cluster.stop(broker(3))?;
    append(&mut leader, name, 1, 5)?;
    let fetch = |leader: &mut Connection, from| leader.fetch(name, 0, from, FetchLimits::default());
    for from in [10, 12, 15] {
        let got = fetch(&mut leader, from)?;
        expect("an offset within the log", got.error, &[code::NONE])?;
        ensure!(
            got.records.is_empty() && got.high_watermark == 10,
            "from {from}: {} bytes, watermark {}",
            got.records.len(),
            got.high_watermark
        );
    }
    let beyond = fetch(&mut leader, 16)?;
    expect(
        "an offset beyond the log",
        beyond.error,
        &[code::OFFSET_OUT_OF_RANGE],
    )?;
    cluster.cont(broker(2))?;
    cluster.cont(broker(3))?;
    wait::until_equal("the rest is committed", WITHIN, 15, || {
        Ok(fetch(&mut leader, 10)?.high_watermark)
    })?;
    ask::everything_in_sync(&cluster.bootstrap(), name, WITHIN)?;
    Ok("10, 12 and 15 of 10 committed and 5 others are nothing yet, 16 is out of range".to_owned())
}

/// Records and commits of BC-069.
const RECORDS: i64 = 1_000;
const COMMITTED: i64 = 900;
const GROUP: &str = "bc-069-group";
/// What a client asks again after.
const AGAIN: [i16; 7] = [
    code::LEADER_NOT_AVAILABLE,
    code::NOT_LEADER_OR_FOLLOWER,
    code::FENCED_LEADER_EPOCH,
    code::OFFSET_NOT_AVAILABLE,
    code::COORDINATOR_LOAD_IN_PROGRESS,
    code::COORDINATOR_NOT_AVAILABLE,
    code::NOT_COORDINATOR,
];

/// BC-069: while leaders and coordinators change, an offset is the right one or an error, never a zero. `kills` brokers
/// are killed one after the other.
pub fn no_false_zero(cluster: &mut Cluster, kills: usize) -> Result<String> {
    let (name, bootstrap) = ("bc-069", cluster.bootstrap());
    let wanted = NewTopic::new(name, 1, 3).with("min.insync.replicas", "2");
    ask::create(&bootstrap, wanted)?;
    let mut leader = ask::leader(&bootstrap, name, 0)?;
    for _ in 0..10 {
        append(&mut leader, name, -1, usize::try_from(RECORDS / 10)?)?;
    }
    wait::until("the commit", WITHIN, || {
        let (_, address) = ask::coordinator(&bootstrap, GROUP)?;
        let codes = Connection::open(&address)?.commit(GROUP, name, &[(0, COMMITTED)])?;
        ensure!(codes == [code::NONE], "{codes:?}");
        Ok(())
    })?;
    let over = Arc::new(AtomicBool::new(false));
    let addresses = cluster.brokers().into_iter().map(|id| cluster.address(id));
    let watches: Vec<JoinHandle<Result<[usize; 2]>>> = addresses
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .map(|address| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || watch(&address, name, &over))
        })
        .collect();
    let struck = strike(cluster, name, kills);
    over.store(true, Ordering::Relaxed);
    let mut seen = [0; 2];
    for watch in watches {
        let [right, later] = watch.join().map_err(|_| anyhow::anyhow!("a watch panicked"))??;
        seen = [seen[0] + right, seen[1] + later];
    }
    struck?;
    let [right, later] = seen;
    ensure!(right >= 100, "only {right} right answers");
    Ok(format!("{kills} kills, {right} right answers, {later} put off"))
}

/// Kills the leader and the coordinator in turn.
fn strike(cluster: &mut Cluster, name: &str, kills: usize) -> Result<()> {
    for kill in 0..kills {
        let bootstrap = cluster.bootstrap();
        let node = wait::until("whom to kill", WITHIN, || match kill % 2 {
            0 => Ok(ask::partitions(&bootstrap, name)?[0].leader),
            _ => Ok(ask::coordinator(&bootstrap, GROUP)?.0),
        })?;
        let killed = NodeId(u32::try_from(node).context("it has none")?);
        cluster.kill(killed)?;
        cluster.start(killed)?;
        cluster.wait_until_serving()?;
        ask::everything_in_sync(&bootstrap, name, WITHIN)?;
    }
    Ok(())
}

/// Asks one broker all the time: how many answers were right, and how many put off.
fn watch(address: &str, name: &str, over: &AtomicBool) -> Result<[usize; 2]> {
    let (mut right, mut later) = (0, 0);
    let mut judge = |what: &str, (error, got): (i16, i64), wanted: i64| -> Result<()> {
        if AGAIN.contains(&error) {
            later += 1;
            return Ok(());
        }
        expect(what, error, &[code::NONE])?;
        ensure!(got == wanted, "{what} is {got} instead of {wanted}, by {address}");
        right += 1;
        Ok(())
    };
    while !over.load(Ordering::Relaxed) {
        wait::pass(Duration::from_millis(5));
        // A broker that is away says nothing wrong, nor does one that goes away meanwhile.
        let Ok(mut connection) = Connection::open(address) else {
            continue;
        };
        for (what, time, wanted) in [("the latest", LATEST, RECORDS), ("the earliest", EARLIEST, 0)] {
            if let Ok((error, _, offset)) = connection.list_offset(name, 0, time) {
                judge(what, (error, offset), wanted)?;
            }
        }
        if let Ok(committed) = connection.committed(GROUP, name, 1) {
            for one in committed {
                judge("the committed offset", (one.error, one.offset), COMMITTED)?;
            }
        }
    }
    Ok([right, later])
}

/// BC-070: the first record at or after a time, in the order of offsets.
pub fn by_time(cluster: &Cluster) -> Result<String> {
    let name = "bc-070";
    ask::create(&cluster.bootstrap(), NewTopic::new(name, 1, 1))?;
    let mut leader = ask::leader(&cluster.bootstrap(), name, 0)?;
    for time in [0, 145] {
        let got = leader.list_offset(name, 0, time)?;
        ensure!(
            got == (code::NONE, -1, -1),
            "{time} of an empty partition: {got:?}"
        );
    }
    let times: Vec<i64> = (100..200).step_by(10).collect();
    for times in [&times[..], &[150, 120]] {
        let mut batch = Batch::of(&vec![&b"timed"[..]; times.len()]);
        batch.base_timestamp = times[0];
        batch.max_timestamp = times.iter().copied().max().context("a time")?;
        for (record, time) in batch.records.iter_mut().zip(times) {
            record.timestamp_delta = time - times[0];
        }
        let got = leader.produce(name, 0, -1, &batch.bytes())?;
        expect("old records", got.error, &[code::NONE])?;
    }
    let wanted = [
        (0, (100, 0)),
        (145, (150, 5)),
        (150, (150, 5)),
        (151, (160, 6)),
        (191, (-1, -1)),
        (LATEST, (-1, 12)),
        (EARLIEST, (-1, 0)),
    ];
    for (asked, (time, offset)) in wanted {
        let got = leader.list_offset(name, 0, asked)?;
        ensure!(
            got == (code::NONE, time, offset),
            "{asked}: {got:?} instead of time {time} and offset {offset}"
        );
    }
    let (newest, ..) = leader.list_offset(name, 0, NEWEST)?;
    expect(
        "the newest record, in a version that does not know it",
        newest,
        &[code::UNSUPPORTED_VERSION],
    )?;
    Ok(format!(
        "{} times, each the first record that is there",
        wanted.len()
    ))
}

/// BC-071: where a leadership ended, and not what the present one is.
pub fn ends_of_epochs(cluster: &mut Cluster) -> Result<String> {
    let name = "bc-071";
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new(name, 1, 1).on(&[(0, &[1])]))?;
    let mut epochs = Vec::new();
    for records in [10, 10, 5] {
        if !epochs.is_empty() {
            cluster.term(broker(1))?;
            cluster.start(broker(1))?;
        }
        let mut leader = ask::leader(&bootstrap, name, 0)?;
        append(&mut leader, name, -1, records)?;
        epochs.push(ask::partitions(&bootstrap, name)?[0].leader_epoch);
    }
    let [first, second, third] = epochs[..] else {
        anyhow::bail!("epochs {epochs:?}")
    };
    ensure!(
        first + 1 < second && second + 1 < third,
        "a leadership that ended and began again has to skip an epoch: {epochs:?}"
    );
    let mut leader = ask::leader(&bootstrap, name, 0)?;
    let wanted = [
        (first, (first, 10)),
        (first + 1, (first, 10)),
        (second, (second, 20)),
        (second + 1, (second, 20)),
        (third, (third, 25)),
        (third + 1, (-1, -1)),
    ];
    for (asked, (epoch, end)) in wanted {
        let got = leader.epoch_end(name, 0, third, asked)?;
        ensure!(
            got == (code::NONE, epoch, end),
            "the end of epoch {asked}: {got:?} instead of epoch {epoch} at {end}, of {epochs:?}"
        );
    }
    let (older, ..) = leader.epoch_end(name, 0, third - 1, first)?;
    expect("a client that is behind", older, &[code::FENCED_LEADER_EPOCH])?;
    let (newer, ..) = leader.epoch_end(name, 0, third + 1, first)?;
    expect("a client that is ahead", newer, &[code::UNKNOWN_LEADER_EPOCH])?;
    Ok(format!("epochs {epochs:?} end at 10, 20 and 25"))
}

/// BC-077, as far as there are no transactions: a consumer sees the end of its partition, commits it, and goes on from
/// there after the broker has come back.
pub fn end_of_partition(cluster: &mut Cluster) -> Result<String> {
    let (name, bootstrap) = ("bc-077", cluster.bootstrap());
    ask::create(&bootstrap, NewTopic::new(name, 1, 1))?;
    append(&mut ask::leader(&bootstrap, name, 0)?, name, -1, 10)?;
    let consumer = |from: Offset| -> Result<BaseConsumer> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &bootstrap)
            .set("group.id", "bc-077-group")
            .set("enable.partition.eof", "true")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            // Whoever is out of range would begin anew, and be seen to.
            .set("auto.offset.reset", "earliest")
            .create()?;
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(name, 0, from)?;
        consumer.assign(&place)?;
        Ok(consumer)
    };
    let first = consumer(Offset::Beginning)?;
    let read = until_the_end(&first)?;
    ensure!(read == (0..10).collect::<Vec<_>>(), "it read {read:?}");
    let position = first.position()?;
    let at = position.find_partition(name, 0).context("a position")?.offset();
    ensure!(at == Offset::Offset(10), "its position is {at:?}");
    wait::until("the commit", WITHIN, || {
        Ok(first.commit(&position, CommitMode::Sync)?)
    })?;
    let (_, _, latest) = ask::leader(&bootstrap, name, 0)?.list_offset(name, 0, LATEST)?;
    ensure!(latest == 10, "the partition ends at {latest}");
    // The list holds on to what it names, and the client does not end before.
    drop(position);
    drop(first);

    cluster.kill(broker(1))?;
    cluster.start(broker(1))?;
    cluster.wait_until_serving()?;
    let second = consumer(Offset::Stored)?;
    let again = until_the_end(&second)?;
    ensure!(again.is_empty(), "it read {again:?} again");
    append(&mut ask::leader(&bootstrap, name, 0)?, name, -1, 1)?;
    let rest = until_the_end(&second)?;
    ensure!(rest == [10], "it read {rest:?} instead of record 10");
    Ok("the end is seen, committed at 10, and seen again after a restart".to_owned())
}

/// Reads until the client says that there is no more; the offsets that it read.
fn until_the_end(consumer: &BaseConsumer) -> Result<Vec<i64>> {
    let mut read = Vec::new();
    wait::until("the end of the partition", WITHIN, || {
        loop {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => read.push(message.offset()),
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                // The client says so of a broker that is away for the moment.
                Some(Err(other)) => anyhow::bail!("{other}"),
                None => anyhow::bail!("nothing yet, {} records read", read.len()),
            }
        }
    })?;
    Ok(read)
}

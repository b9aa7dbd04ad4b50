//! Stock consumers in groups while members die, others come, and the coordinator's broker is killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;

use crate::cluster::{Cluster, NodeId};
use crate::load::write::{Load, Plan};
use crate::members::{Kind, Member, Place};
use crate::oracle::Outcome;
use crate::raw::Connection;
use crate::raw::groups::Committed;
use crate::raw::requests::NewTopic;
use crate::show::{Board, at_least};
use crate::{ask, kafka, wait};

const PARTITIONS: i32 = 6;
const RECORDS_PER_SECOND: u32 = 200;
/// Records that must be read between two blows.
const BETWEEN: usize = 400;
/// The members' session, a rebalance and a failover.
const PATIENCE: Duration = Duration::from_secs(90);

/// One row each.
pub fn rows(board: &mut Board) {
    if !board.wants_some_of("group") {
        return;
    }
    let cluster = Cluster::builder()
        .controllers(3)
        .brokers(3)
        .set("group.initial.rebalance.delay.ms", 500)
        .start();
    let mut cluster = match cluster {
        Ok(cluster) => cluster,
        Err(error) => return board.row("group", || Err(error)),
    };
    for kind in [
        Kind::Console,
        Kind::Verifiable,
        Kind::Kcat,
        Kind::KafkaPython,
        Kind::AioKafka,
    ] {
        board.row(&format!("group {}", kind.name()), || siege(&mut cluster, kind));
    }
    board.row("group librdkafka", || librdkafka(&cluster));
    board.row("group kafka-consumer-perf-test", || perf(&cluster));
    board.row("group logs", || super::super::path::judged(cluster));
}

/// Members are killed and added, the coordinator's broker is killed: every record is read, no commit is lost.
pub fn siege(cluster: &mut Cluster, kind: Kind) -> Result<String> {
    let name = kind.name().replace(' ', "");
    let (topic, group) = (format!("of-{name}"), format!("group-{name}"));
    ask::create(
        &cluster.bootstrap(),
        NewTopic::new(&topic, PARTITIONS, 3).with("min.insync.replicas", "2"),
    )?;
    ask::everything_in_sync(&cluster.bootstrap(), &topic, Duration::from_secs(30))?;
    let load = Load::start(Plan {
        records_per_second: RECORDS_PER_SECOND,
        ..Plan::new(&cluster.bootstrap(), &topic, PARTITIONS)
    })?;
    let (folder, bootstrap) = (tempfile::tempdir()?, cluster.bootstrap());
    let place = Place {
        bootstrap: &bootstrap,
        topic: &topic,
        group: &group,
        folder: folder.path(),
    };
    let mut members = vec![Member::start(kind, place, 1)?, Member::start(kind, place, 2)?];
    await_more(&mut members, 1..2)?;
    let addresses = cluster
        .brokers()
        .into_iter()
        .map(|id| cluster.address(id))
        .collect::<Result<Vec<_>>>()?;
    let watch = Watch::start(addresses, &topic, &group);
    members[0].kill()?;
    members.push(Member::start(kind, place, 3)?);
    await_more(&mut members, 1..3)?;
    let coordinator = coordinator(cluster, &group)?;
    cluster.kill(coordinator)?;
    await_more(&mut members, 1..3)?;
    cluster.start(coordinator)?;
    await_more(&mut members, 1..3)?;
    let record = load.finish()?;
    ensure!(record.errors.is_empty(), "{:?}", record.errors);
    let is_acknowledged =
        |send: &crate::oracle::Send| matches!(send.outcome, Outcome::Acknowledged(_) | Outcome::Confirmed);
    let sent: BTreeSet<usize> = (0..record.sends.len())
        .filter(|n| is_acknowledged(&record.sends[*n]))
        .collect();
    let total = at_least("records", u64::try_from(sent.len())?, 4 * BETWEEN as u64)?;
    wait::until("every record is read", PATIENCE, || {
        let read = all_read(&members)?;
        let missing: Vec<&usize> = sent.difference(&read).take(5).collect();
        ensure!(missing.is_empty(), "not read: {missing:?} and perhaps more");
        Ok(())
    })?;
    let described = wait::until("everything is committed", PATIENCE, || {
        without_lag(&bootstrap, &group)
    })?;
    let looks = watch.finish()?;
    at_least("looks at committed offsets", looks, 20)?;
    ask::everything_in_sync(&bootstrap, &topic, Duration::from_secs(30))?;
    Ok(format!(
        "{total} records, each read; member and coordinator {coordinator} killed; {looks} looks, no commit lost; {described}"
    ))
}

fn all_read(members: &[Member]) -> Result<BTreeSet<usize>> {
    let mut read = BTreeSet::new();
    for member in members {
        read.extend(member.read()?);
    }
    Ok(read)
}

/// Waits until more is read; the members in `alive` must not end meanwhile.
fn await_more(members: &mut [Member], alive: std::ops::Range<usize>) -> Result<()> {
    let wanted = all_read(members)?.len() + BETWEEN;
    wait::until(&format!("{BETWEEN} further records are read"), PATIENCE, || {
        for member in &mut members[alive.clone()] {
            member.lives()?;
        }
        let got = all_read(members)?.len();
        ensure!(got >= wanted, "{got} of {wanted}");
        Ok(())
    })
}

fn coordinator(cluster: &Cluster, group: &str) -> Result<NodeId> {
    let node = wait::until("the coordinator", Duration::from_secs(30), || {
        ask::coordinator(&cluster.bootstrap(), group)
    })?;
    let known = cluster
        .brokers()
        .into_iter()
        .find(|id| id.0.cast_signed() == node.0);
    known.with_context(|| format!("node {} is no broker", node.0))
}

/// What `kafka-consumer-groups --describe` shows, if no partition lags.
fn without_lag(bootstrap: &str, group: &str) -> Result<String> {
    let shown = kafka::run(
        "kafka-consumer-groups",
        &["--bootstrap-server", bootstrap, "--describe", "--group", group],
    )?;
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<&str>>())
        .filter(|fields| fields.first() == Some(&group))
        .collect();
    ensure!(
        rows.len() == usize::try_from(PARTITIONS)?,
        "{} rows in\n{shown}",
        rows.len()
    );
    for row in &rows {
        // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID
        ensure!(row.get(5) == Some(&"0"), "{row:?} in\n{shown}");
        ensure!(
            row.get(7).is_some_and(|host| host.starts_with('/')),
            "{row:?} in\n{shown}"
        );
    }
    Ok(format!("{} partitions without lag", rows.len()))
}

/// Looks at the committed offsets all the time: none is ever lower than it was, or gone.
struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Watch {
    fn start(addresses: Vec<String>, topic: &str, group: &str) -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let (ended, topic, group) = (Arc::clone(&over), topic.to_owned(), group.to_owned());
        let thread = std::thread::spawn(move || {
            let mut highest = vec![-1; usize::try_from(PARTITIONS)?];
            let mut looks = 0;
            while !ended.load(Ordering::Relaxed) {
                for address in &addresses {
                    looks += look(address, &topic, &group, &mut highest)?;
                }
                wait::pass(Duration::from_millis(50));
            }
            Ok(looks)
        });
        Watch { over, thread }
    }

    fn finish(self) -> Result<u64> {
        self.over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the watch panicked"))?
    }
}

/// One look; a broker that is away, or is not the coordinator, shows nothing.
fn look(address: &str, topic: &str, group: &str, highest: &mut [i64]) -> Result<u64> {
    let Ok(mut connection) = Connection::open(address) else {
        return Ok(0);
    };
    let Ok(committed) = connection.committed(group, topic, PARTITIONS) else {
        return Ok(0);
    };
    let mut looks = 0;
    for Committed {
        partition,
        offset,
        error,
    } in committed
    {
        let highest = &mut highest[usize::try_from(partition)?];
        match error {
            0 => {
                ensure!(
                    *highest <= offset,
                    "partition {partition}: {offset} is committed, {highest} was"
                );
                *highest = offset;
                looks += 1;
            }
            // Loading, not available, not the coordinator.
            14..=16 => {}
            other => anyhow::bail!("partition {partition}: error {other}"),
        }
    }
    Ok(looks)
}

/// The library itself, newer than kcat's: two consumers share a topic, one goes, the other has everything.
fn librdkafka(cluster: &Cluster) -> Result<String> {
    const COUNT: usize = 1_000;
    let topic = "of-librdkafka";
    ask::create(&cluster.bootstrap(), NewTopic::new(topic, PARTITIONS, 3))?;
    let load = Load::start(Plan::new(&cluster.bootstrap(), topic, PARTITIONS))?;
    load.wait_for_more(COUNT, Duration::from_secs(30))?;
    let record = load.finish()?;
    let consumer = |name: &str| -> Result<BaseConsumer> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap())
            .set("group.id", "group-librdkafka")
            .set("client.id", name)
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", "6000")
            .create()?;
        consumer.subscribe(&[topic])?;
        Ok(consumer)
    };
    let (one, two) = (consumer("one")?, consumer("two")?);
    let mut read = BTreeSet::new();
    let mut note = |consumer: &BaseConsumer| {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(20)) {
            read.insert((message.partition(), message.offset()));
        }
        read.len()
    };
    wait::until("both have a part", PATIENCE, || {
        note(&one);
        note(&two);
        let parts = [one.assignment()?.count(), two.assignment()?.count()];
        ensure!(parts == [3, 3], "{parts:?}");
        Ok(())
    })?;
    one.commit_consumer_state(CommitMode::Sync)
        .or_else(nothing_to_commit)?;
    drop(one);
    wait::until("everything is read", PATIENCE, || {
        let got = note(&two);
        ensure!(got >= record.sends.len(), "{got} of {}", record.sends.len());
        Ok(())
    })?;
    two.commit_consumer_state(CommitMode::Sync)?;
    let described = without_lag(&cluster.bootstrap(), "group-librdkafka")?;
    Ok(format!(
        "{} records by two consumers, one of which left; {described}",
        record.sends.len()
    ))
}

fn nothing_to_commit(error: rdkafka::error::KafkaError) -> Result<()> {
    let code = error.rdkafka_error_code();
    ensure!(
        code == Some(rdkafka::types::RDKafkaErrorCode::NoOffset),
        "{error}"
    );
    Ok(())
}

/// Kafka's own measuring consumer, which counts.
fn perf(cluster: &Cluster) -> Result<String> {
    const COUNT: usize = 20_000;
    let (topic, bootstrap) = ("of-perf", cluster.bootstrap());
    ask::create(&bootstrap, NewTopic::new(topic, PARTITIONS, 3))?;
    let load = Load::start(Plan {
        records_per_second: 20_000,
        ..Plan::new(&bootstrap, topic, PARTITIONS)
    })?;
    load.wait_for_more(COUNT, Duration::from_secs(60))?;
    load.finish()?;
    let count = COUNT.to_string();
    let mut arguments = vec![
        "--bootstrap-server",
        &bootstrap,
        "--topic",
        topic,
        "--group",
        "group-perf",
    ];
    arguments.extend(["--num-records", &count, "--timeout", "60000", "--hide-header"]);
    let shown = kafka::run("kafka-consumer-perf-test", &arguments)?;
    // start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, …
    let read: u64 = shown
        .lines()
        .filter_map(|line| line.split(',').nth(4)?.trim().parse().ok())
        .next_back()
        .with_context(|| format!("no count in\n{shown}"))?;
    at_least("records", read, COUNT as u64)?;
    Ok(format!("{read} records"))
}

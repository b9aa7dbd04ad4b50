//! Configurations that change while the cluster runs: what acts at once, and BC-034.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::expect;
use crate::cluster::{Cluster, broker};
use crate::raw::Connection;
use crate::raw::admin::{Operation, resource};
use crate::raw::batch::Batch;
use crate::raw::requests::{FetchLimits, NewTopic, code};
use crate::{ask, clients, wait};

/// How soon a change acts at every broker after it was answered by one.
const ACTS_WITHIN: Duration = Duration::from_secs(10);

/// Topic configurations of a topic that exists act on the next batch.
pub fn act_live(cluster: &Cluster) -> Result<String> {
    let (bootstrap, topic) = (cluster.bootstrap(), "live");
    ask::create(&bootstrap, NewTopic::new(topic, 1, 1))?;
    let mut leader = ask::leader(&bootstrap, topic, 0)?;
    let set = |key: &str, operation: Operation<'_>| -> Result<()> {
        let mut connection = Connection::open(&cluster.address(broker(1))?)?;
        let changed = connection.alter_config(resource::TOPIC, topic, &[(key, operation)])?;
        expect(key, changed, &[code::NONE])
    };
    let batch = Batch::of(&[&[b'x'; 500][..]]).bytes();
    let mut produce = || leader.produce(topic, 0, -1, &batch);
    expect("a batch at first", produce()?.error, &[code::NONE])?;

    set("max.message.bytes", Operation::Set("200"))?;
    wait::until_equal("a smaller limit", ACTS_WITHIN, code::MESSAGE_TOO_LARGE, || {
        Ok(produce()?.error)
    })?;
    set("max.message.bytes", Operation::Delete)?;
    wait::until_equal("no such limit", ACTS_WITHIN, code::NONE, || Ok(produce()?.error))?;

    set("message.timestamp.type", Operation::Set("LogAppendTime"))?;
    wait::until("the broker's own time", ACTS_WITHIN, || {
        let produced = produce()?;
        ensure!(produced.log_append_time > 0, "{produced:?}");
        Ok(())
    })?;
    set("cleanup.policy", Operation::Set("compact"))?;
    wait::until_equal("keys are needed", ACTS_WITHIN, code::INVALID_RECORD, || {
        Ok(produce()?.error)
    })?;
    set("cleanup.policy", Operation::Delete)?;

    set("compression.type", Operation::Set("gzip"))?;
    let mut at = 0;
    wait::until("a batch stored with gzip", ACTS_WITHIN, || {
        let produced = leader.produce(topic, 0, -1, &batch)?;
        expect("a batch", produced.error, &[code::NONE])?;
        let fetched = leader.fetch(topic, 0, produced.base_offset, FetchLimits::default())?;
        ensure!(fetched.records[22] & 7 == 1, "codec {}", fetched.records[22] & 7);
        at = produced.base_offset;
        Ok(())
    })?;
    let read = clients::kcat_consume(&bootstrap, topic, at, 1)?;
    ensure!(
        read == [&[b'x'; 500][..], b"\n"].concat(),
        "{} bytes read",
        read.len()
    );
    Ok("5 configurations of a topic acted while it was written to".to_owned())
}

/// A value for all brokers acts on topics that have none of their own, that of one broker wins there, and both can be
/// taken back.
pub fn of_brokers_act_live(cluster: &Cluster) -> Result<String> {
    let (bootstrap, topic) = (cluster.bootstrap(), "fallen-back");
    ask::create(&bootstrap, NewTopic::new(topic, 1, 1).on(&[(0, &[1])]))?;
    let mut connection = Connection::open(&cluster.address(broker(1))?)?;
    let mut leader = ask::leader(&bootstrap, topic, 0)?;
    let batch = Batch::of(&[&[b'x'; 500][..]]).bytes();
    let key = "message.max.bytes";
    let steps = [
        ("", Operation::Set("200"), code::MESSAGE_TOO_LARGE),
        ("1", Operation::Set("2000"), code::NONE),
        ("", Operation::Delete, code::NONE),
        ("1", Operation::Set("200"), code::MESSAGE_TOO_LARGE),
        ("1", Operation::Delete, code::NONE),
    ];
    for (name, operation, wanted) in steps {
        let changed = connection.alter_config(resource::BROKER, name, &[(key, operation)])?;
        expect("the change", changed, &[code::NONE])?;
        let what = format!("{key} {operation:?} for {name:?}");
        wait::until_equal(&what, ACTS_WITHIN, wanted, || {
            Ok(leader.produce(topic, 0, -1, &batch)?.error)
        })?;
    }
    let read_only =
        connection.alter_config(resource::BROKER, "1", &[("num.partitions", Operation::Set("2"))])?;
    expect(
        "a key that is read at the start",
        read_only,
        &[code::INVALID_REQUEST],
    )?;
    Ok("5 changes for one broker and for all acted, one was refused".to_owned())
}

/// BC-034: thousands of changes of configuration while snapshots are taken and the log is purged kill no controller.
/// `seconds` of load by `connections` at once; the cluster takes a snapshot every few changes.
pub fn busy_configs(cluster: &mut Cluster, seconds: u64, connections: u32) -> Result<String> {
    let bootstrap = cluster.bootstrap();
    let until = Instant::now() + Duration::from_secs(seconds);
    let changed: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|worker| {
                let address = cluster.address(broker(1 + worker % 3));
                let (bootstrap, topic) = (&bootstrap, format!("bc-034-{worker}"));
                scope.spawn(move || -> Result<u64> {
                    ask::create(bootstrap, NewTopic::new(&topic, 1, 1))?;
                    let mut connection = Connection::open(&address?)?;
                    let mut changed = 0;
                    while Instant::now() < until {
                        // A value of a kilobyte that is another one each time.
                        let replicas = format!("{}:1,{}", 100_000 + changed, "1:1,".repeat(250));
                        let replicas = replicas.trim_end_matches(',');
                        let key = "leader.replication.throttled.replicas";
                        let set = [(key, Operation::Set(replicas))];
                        let code = connection.alter_config(resource::TOPIC, &topic, &set)?;
                        expect("a change", code, &[code::NONE])?;
                        changed += 1;
                    }
                    Ok(changed)
                })
            })
            .collect();
        workers.into_iter().try_fold(0, |sum, worker| {
            let changed = worker
                .join()
                .map_err(|_| anyhow::anyhow!("a worker panicked"))??;
            Ok::<u64, anyhow::Error>(sum + changed)
        })
    })?;
    for id in cluster.controllers() {
        ensure!(cluster.runs(id), "controller {id} has died");
    }
    ask::create(&bootstrap, NewTopic::new("bc-034-after", 3, 3))?;
    Ok(format!(
        "{changed} changes in {seconds} s, every controller lives"
    ))
}

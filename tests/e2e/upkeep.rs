//! Brokers that leave and come back: in order, killed, with a topic that is another one by now.

use std::fs;
use std::time::{Duration, Instant};

use tests::cases::rolls;
use tests::cluster::{Cluster, broker};
use tests::raw::Connection;
use tests::raw::requests::NewTopic;
use tests::{ask, clients, wait, watch};

const LIMIT: Duration = Duration::from_secs(60);

/// BC-001: with heartbeats every ten seconds, a broker that is asked to stop must not wait for the next one of its own,
/// nor for those of the others that tell what they have applied.
#[test]
fn a_shutdown_waits_for_no_periodic_heartbeat() {
    let mut cluster = Cluster::builder()
        .brokers(3)
        .set("broker.heartbeat.interval.ms", 10_000)
        .set("broker.session.timeout.ms", 30_000)
        .start()
        .unwrap();
    ask::create(&cluster.bootstrap(), NewTopic::new("orders", 30, 3)).unwrap();
    let left = cluster.address(broker(2)).unwrap();

    let began = Instant::now();
    cluster.ask_to_end(broker(1)).unwrap();
    wait::until("others lead", Duration::from_secs(1), || {
        let partitions = ask::partitions(&left, "orders")?;
        let led = partitions.iter().find(|p| p.leader < 0 || p.leader == 1);
        anyhow::ensure!(led.is_none(), "{led:?}");
        Ok(())
    })
    .unwrap();
    let status = cluster.wait_for_end(broker(1)).unwrap();

    assert!(status.success(), "{status}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for partition in ask::partitions(&left, "orders").unwrap() {
        assert!(!partition.in_sync.contains(&1), "{partition:?}");
    }
    let log = cluster.log(broker(1)).unwrap();
    assert!(log.contains("waiting to be let go"), "{log}");
    assert!(log.contains("closing the logs"), "{log}");
}

/// BC-006: what asks whether a process lives must hear so from its start on, also while it is far from serving.
#[test]
fn a_broker_that_comes_back_is_alive_before_it_is_ready() {
    let mut cluster = Cluster::builder().start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("orders", 20, 1)).unwrap();
    clients::kcat_produce(&bootstrap, "orders", "none", b"one\ntwo\n").unwrap();
    let watched = cluster.watched_at(broker(1)).unwrap();
    watch::ready(&watched).unwrap();

    cluster.kill(broker(1)).unwrap();
    cluster.start(broker(1)).unwrap();
    let alive = wait::until("it is alive", LIMIT, || watch::get(&watched, "/livez")).unwrap();
    assert_eq!(alive.status, 200);
    let mut obstacles = Vec::new();
    wait::until("it is ready", LIMIT, || {
        assert_eq!(watch::get(&watched, "/livez")?.status, 200);
        let answer = watch::get(&watched, "/readyz")?;
        if answer.status != 200 {
            obstacles.push(answer.body.clone());
        }
        anyhow::ensure!(answer.status == 200, "{}", answer.body);
        Ok(())
    })
    .unwrap();

    assert!(
        obstacles.iter().all(|why| why.starts_with("starting: ")),
        "{obstacles:?}"
    );
    let log = cluster.log(broker(1)).unwrap();
    assert!(log.contains("recovering logs"), "{log}");
    let scrape = watch::scrape(&watched).unwrap().body;
    let left = watch::value(&scrape, "kafka_log_logmanager_remaininglogstorecover").unwrap();
    assert!(left.abs() < 0.5, "{left} logs are left");
    let read = clients::kcat_consume(&bootstrap, "orders", 0, 2).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), "one\ntwo\n");
}

/// BC-087: the directory of a deleted topic must not stand in the way of the next topic of its name.
#[test]
fn a_topic_made_anew_while_a_broker_was_down_gets_its_replica_there() {
    let mut cluster = Cluster::builder().brokers(3).start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("orders", 1, 3)).unwrap();
    clients::kcat_produce(&bootstrap, "orders", "none", b"old\n").unwrap();
    let status = cluster.term(broker(3)).unwrap();
    assert!(status.success(), "{status}");

    let up = format!(
        "{},{}",
        cluster.address(broker(1)).unwrap(),
        cluster.address(broker(2)).unwrap()
    );
    let mut connection = Connection::open(&cluster.address(broker(1)).unwrap()).unwrap();
    connection.delete_topics(&["orders"]).unwrap();
    let wanted = NewTopic::new("orders", 1, 3).on(&[(0, &[1, 2, 3])]);
    wait::until("the topic is made anew", LIMIT, || {
        let answers = connection.create_topics(std::slice::from_ref(&wanted))?;
        anyhow::ensure!(answers[0].1 == 0, "{answers:?}");
        Ok(())
    })
    .unwrap();
    let lines: String = (0..10).map(|n| format!("new {n}\n")).collect();
    clients::kcat_produce(&up, "orders", "none", lines.as_bytes()).unwrap();

    cluster.start(broker(3)).unwrap();
    cluster.wait_until_serving().unwrap();
    ask::everything_in_sync(&bootstrap, "orders", Duration::from_secs(10)).unwrap();
    let kept = strays(&cluster);
    assert_eq!(kept.len(), 1, "what the old topic held is set aside: {kept:?}");
    let read = clients::kcat_consume(&bootstrap, "orders", 0, 10).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), lines);

    cluster.term(broker(3)).unwrap();
    cluster.start(broker(3)).unwrap();
    cluster.wait_until_serving().unwrap();
    ask::everything_in_sync(&bootstrap, "orders", Duration::from_secs(10)).unwrap();
    assert_eq!(
        strays(&cluster),
        kept,
        "a second start deletes and sets aside nothing"
    );
}

#[test]
fn the_only_replica_leaves_and_comes_back_with_everything() {
    let mut cluster = Cluster::builder().controllers(3).brokers(3).start().unwrap();
    rolls::only_replica_leaves(&mut cluster, broker(2)).unwrap();
}

#[test]
fn heartbeats_go_on_under_a_flood_of_metadata() {
    let mut cluster = Cluster::builder()
        .controllers(3)
        .brokers(3)
        .set("broker.heartbeat.interval.ms", 500)
        .set("broker.session.timeout.ms", 3_000)
        .start()
        .unwrap();
    rolls::heartbeats_under_a_flood(&mut cluster, 300).unwrap();
}

#[test]
fn producers_go_on_when_leadership_returns() {
    let cluster = Cluster::builder()
        .controllers(3)
        .brokers(3)
        .set("auto.leader.rebalance.enable", false)
        .start()
        .unwrap();
    rolls::leadership_returns(cluster).unwrap();
}

fn strays(cluster: &Cluster) -> Vec<String> {
    let entries = fs::read_dir(cluster.data(broker(3)).unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with("-stray")).collect()
}

//! Brokers that leave and come back: BC-002, BC-008 to BC-010, BC-012, BC-013.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::expect;
use crate::cluster::{Cluster, NodeId};
use crate::raw::Connection;
use crate::raw::admin::{Operation, resource};
use crate::raw::batch::Batch;
use crate::raw::requests::{NewTopic, code};
use crate::siege::{self, PARTITIONS, Siege};
use crate::{ask, wait, watch};

/// How soon a broker that was stopped in order must be back.
const BACK_WITHIN: Duration = Duration::from_secs(5);

fn another(cluster: &Cluster, than: NodeId) -> Result<String> {
    let other = cluster
        .brokers()
        .into_iter()
        .find(|id| *id != than)
        .context("a second broker")?;
    cluster.address(other)
}

fn lists(address: &str, id: NodeId) -> Result<()> {
    let known = ask::brokers(address)?;
    ensure!(known.contains(&id.0.cast_signed()), "it lists {known:?}");
    Ok(())
}

/// TERM, start at once; how long until another broker lists it again.
fn back_after_term(cluster: &mut Cluster, id: NodeId) -> Result<Duration> {
    let elsewhere = another(cluster, id)?;
    cluster.term(id)?;
    let began = Instant::now();
    cluster.start(id)?;
    wait::until(&format!("broker {id} is back"), BACK_WITHIN, || {
        lists(&elsewhere, id)
    })?;
    Ok(began.elapsed())
}

/// BC-002: a broker that was stopped in order may come back at once; a second live process with its id may not.
pub fn quick_restart(cluster: &mut Cluster, id: NodeId) -> Result<String> {
    let took = back_after_term(cluster, id)?;
    let elsewhere = another(cluster, id)?;
    let own = cluster.address(id)?;
    let mut twin = cluster.twin(id)?;
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        let brokers = Connection::open(&elsewhere)?.metadata(Some(&[]))?.brokers;
        let listed = brokers.iter().find(|(known, _)| *known == id.0.cast_signed());
        ensure!(
            listed.is_some_and(|(_, address)| *address == own),
            "with a twin it is listed as {listed:?}"
        );
        wait::pass(Duration::from_millis(50));
    }
    let end = twin
        .ended()
        .map_or("was kept out".to_owned(), |status| format!("ended: {status}"));
    Ok(format!("back after {} ms; its twin {end}", took.as_millis()))
}

/// BC-009: a broker is unfenced although the metadata log never stands still.
pub fn busy_metadata(cluster: &mut Cluster, id: NodeId) -> Result<String> {
    let elsewhere = another(cluster, id)?;
    let (over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (ended, counted) = (Arc::clone(&over), Arc::clone(&made));
    let writer = std::thread::spawn(move || -> Result<()> {
        let mut connection = Connection::open(&elsewhere)?;
        while !ended.load(Ordering::Relaxed) {
            let name = format!("bc-009-{}", counted.load(Ordering::Relaxed));
            let answer = connection.create_topics(&[NewTopic::new(&name, 1, 1)])?;
            ensure!(answer[0].1 == code::NONE, "create {name}: {answer:?}");
            counted.fetch_add(1, Ordering::Relaxed);
            wait::pass(Duration::from_millis(100));
        }
        Ok(())
    });
    let took = back_after_term(cluster, id);
    over.store(true, Ordering::Relaxed);
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let (took, made) = (took?, made.load(Ordering::Relaxed));
    ensure!(made > 0, "nothing was written meanwhile");
    Ok(format!(
        "back after {} ms while {made} topics were created",
        took.as_millis()
    ))
}

/// BC-013: a broker that has just started never shows less than the cluster. `rounds` full rolls.
pub fn complete_from_the_first_answer(cluster: &mut Cluster, rounds: usize) -> Result<String> {
    ask::create(&cluster.bootstrap(), NewTopic::new("bc-013", 3, 3))?;
    let all = cluster.brokers();
    let mut answers = 0;
    for id in all.iter().cycle().take(rounds * all.len()).copied() {
        let address = cluster.address(id)?;
        cluster.term(id)?;
        cluster.start(id)?;
        let began = Instant::now();
        let mut whole = false;
        while !whole {
            ensure!(
                began.elapsed() < Duration::from_secs(30),
                "broker {id} does not know itself"
            );
            let Ok(mut connection) = Connection::open(&address) else {
                wait::pass(Duration::from_millis(5));
                continue;
            };
            while !whole && began.elapsed() < Duration::from_secs(30) {
                let Ok(answer) = connection.metadata(None) else {
                    break;
                };
                answers += 1;
                ensure!(
                    answer.brokers.len() + 1 >= all.len(),
                    "broker {id} lists {:?}",
                    answer.brokers
                );
                let topic = answer.topics.iter().find(|topic| topic.name == "bc-013");
                let Some(topic) = topic else {
                    bail!("broker {id} does not show the topic")
                };
                ensure!(
                    topic.error == code::NONE,
                    "broker {id} shows the topic with error {}",
                    topic.error
                );
                ensure!(
                    topic.partitions.len() == 3,
                    "broker {id} shows {} partitions",
                    topic.partitions.len()
                );
                whole = answer.brokers.len() == all.len();
                wait::pass(Duration::from_millis(5));
            }
        }
        ask::everything_in_sync(&cluster.bootstrap(), "bc-013", Duration::from_secs(30))?;
    }
    Ok(format!(
        "{answers} answers over {} restarts, none short",
        rounds * all.len()
    ))
}

/// Fewer changes are no flood.
const FLOOD_MIN: usize = 100;
const ROLLS_MAX: u32 = 10;

/// BC-008: brokers that take in a flood of metadata still say that they live. Every broker is stopped and started in
/// turn, without a pause, while configurations change all the time. The cluster needs short sessions for it to matter.
pub fn heartbeats_under_a_flood(cluster: &mut Cluster, partitions: i32) -> Result<String> {
    let name = "bc-008";
    ask::create(&cluster.bootstrap(), NewTopic::new(name, partitions, 3))?;
    let over = Arc::new(AtomicBool::new(false));
    let addresses = cluster.brokers().into_iter().map(|id| cluster.address(id));
    let changes = Arc::new(AtomicUsize::new(0));
    let addresses = addresses.collect::<Result<_>>()?;
    let writer = flood(addresses, name, Arc::clone(&over), Arc::clone(&changes));
    let rolled = roll_until(cluster, || FLOOD_MIN <= changes.load(Ordering::Relaxed));
    over.store(true, Ordering::Relaxed);
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let (rolls, took) = rolled?;
    ask::everything_in_sync(&cluster.bootstrap(), name, ROLLED_WITHIN)?;
    Ok(format!(
        "{} changes during {rolls} rolls of at most {} ms, nobody fenced who was not stopped",
        changes.load(Ordering::Relaxed),
        took.as_millis()
    ))
}

/// How long a roll of all brokers may take.
const ROLLED_WITHIN: Duration = Duration::from_secs(60);

/// Changes a configuration of a topic all the time, through whichever broker answers; how often.
fn flood(
    addresses: Vec<String>,
    topic: &'static str,
    over: Arc<AtomicBool>,
    changes: Arc<AtomicUsize>,
) -> JoinHandle<Result<()>> {
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            for address in &addresses {
                // A broker that is away, or on its way, changes nothing.
                let Ok(mut connection) = Connection::open(address) else {
                    continue;
                };
                while !over.load(Ordering::Relaxed) {
                    let value = (100_000 + changes.load(Ordering::Relaxed)).to_string();
                    let set = [("retention.ms", Operation::Set(&value))];
                    if connection.alter_config(resource::TOPIC, topic, &set).is_err() {
                        break;
                    }
                    changes.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    })
}

/// Rolls again and again until `enough` happened meanwhile; how often, and how long the longest took.
fn roll_until(cluster: &mut Cluster, enough: impl Fn() -> bool) -> Result<(u32, Duration)> {
    let mut longest = Duration::ZERO;
    for rolls in 1..=ROLLS_MAX {
        longest = longest.max(roll_without_a_pause(cluster)?);
        if enough() {
            return Ok((rolls, longest));
        }
    }
    anyhow::bail!("{ROLLS_MAX} rolls, and too little happened meanwhile")
}

fn roll_without_a_pause(cluster: &mut Cluster) -> Result<Duration> {
    let began = Instant::now();
    for id in cluster.brokers() {
        cluster.term(id)?;
        cluster.start(id)?;
        let watched = cluster.watched_at(id)?;
        wait::until("it is ready", ROLLED_WITHIN, || watch::ready(&watched))?;
        for other in cluster.brokers() {
            let scrape = watch::scrape(&cluster.watched_at(other)?)?.body;
            let fenced = watch::value(&scrape, "millrace_broker_fenced_total")?;
            ensure!(
                fenced.abs() < 0.5,
                "broker {other} was fenced while {id} was restarted"
            );
        }
    }
    let took = began.elapsed();
    ensure!(took < ROLLED_WITHIN, "the roll took {took:?}");
    Ok(took)
}

/// BC-010: leaders come back, after a stop in order or none, and take their leadership again; what followers know of
/// producers must be what leaders knew, or an idempotent producer gives up.
pub fn leadership_returns(cluster: Cluster) -> Result<String> {
    let mut siege = Siege::lay(cluster, Duration::from_secs(1))?;
    let all = siege.cluster.brokers();
    let rounds = all
        .iter()
        .chain(&all)
        .copied()
        .zip([true, false].into_iter().cycle());
    let mut elected = 0;
    for (id, in_order) in rounds {
        siege.blow(|siege| {
            if in_order {
                siege.cluster.term(id)?;
            } else {
                siege.cluster.kill(id)?;
            }
            siege.go_on(1_000)?;
            siege.cluster.start(id)
        })?;
        siege.whole()?;
        let mut connection = Connection::open(&siege.cluster.address(id)?)?;
        for partition in 0..PARTITIONS {
            let got = connection.elect(PREFERRED, siege::TOPIC, partition)?;
            expect("an election", got, &[code::NONE, code::ELECTION_NOT_NEEDED])?;
            elected += usize::from(got == code::NONE);
        }
        siege.go_on(1_000)?;
    }
    ensure!(elected > 0, "no leadership came back");
    let verdict = siege.lift()?;
    ensure!(verdict.holds(), "{verdict}");
    Ok(format!("{verdict}; {elected} leaderships came back"))
}

const PREFERRED: i8 = 0;

/// BC-012: a broker with the only replica of something stops all the same, and nobody takes its place meanwhile.
pub fn only_replica_leaves(cluster: &mut Cluster, id: NodeId) -> Result<String> {
    let (alone, shared) = ("bc-012-alone", "bc-012-shared");
    let (bootstrap, me) = (cluster.bootstrap(), id.0.cast_signed());
    ask::create(&bootstrap, NewTopic::new(alone, 1, 1).on(&[(0, &[me])]))?;
    ask::create(&bootstrap, NewTopic::new(shared, 6, 3))?;
    let mut leader = ask::leader(&bootstrap, alone, 0)?;
    let records = vec![&b"the only copy"[..]; 1_000];
    let got = leader.produce(alone, 0, -1, &Batch::of(&records).bytes())?;
    expect("the records", got.error, &[code::NONE])?;

    let elsewhere = another(cluster, id)?;
    let began = Instant::now();
    let status = cluster.term(id)?;
    let took = began.elapsed();
    ensure!(
        status.success() && took < Duration::from_secs(10),
        "{status} after {took:?}"
    );
    let left = Connection::open(&elsewhere)?.metadata(Some(&[alone, shared]))?;
    for topic in &left.topics {
        for partition in &topic.partitions {
            if topic.name == alone {
                expect("without a leader", partition.error, &[code::LEADER_NOT_AVAILABLE])?;
                ensure!(partition.leader == -1, "led by {}", partition.leader);
                let nobody_else = partition.in_sync.iter().all(|other| *other == me);
                ensure!(nobody_else, "in sync: {:?}", partition.in_sync);
            } else {
                let led = partition.leader >= 0 && partition.leader != me;
                ensure!(led && !partition.in_sync.contains(&me), "{partition:?}");
            }
        }
    }
    cluster.start(id)?;
    cluster.wait_until_serving()?;
    let mut leader = ask::leader(&bootstrap, alone, 0)?;
    let led_by = ask::partitions(&bootstrap, alone)?[0].leader;
    ensure!(led_by == me, "led by {led_by}");
    let (error, _, end) = leader.list_offset(alone, 0, -1)?;
    ensure!(
        (error, end) == (code::NONE, 1_000),
        "error {error}, {end} records"
    );
    Ok(format!(
        "ended after {} ms, back with 1000 records",
        took.as_millis()
    ))
}

//! Brokers that leave and come back: BC-002, 009, 013.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::{Cluster, NodeId};
use crate::raw::Connection;
use crate::raw::requests::{NewTopic, code};
use crate::{ask, wait};

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

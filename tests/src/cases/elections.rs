//! Elections that somebody asked for or made possible: BC-025.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::expect;
use crate::cluster::{Cluster, broker};
use crate::raw::Connection;
use crate::raw::admin::{Operation, resource};
use crate::raw::requests::{NewTopic, code};
use crate::{ask, wait};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;
const WITHIN: Duration = Duration::from_secs(30);
/// The key that the case is about.
const ALLOWED: &str = "unclean.leader.election.enable";

/// Leadership comes back to the preferred replica when somebody asks for it; the answers say what was in the way.
pub fn preferred(cluster: &mut Cluster) -> Result<String> {
    let (topic, bootstrap) = ("preferred", cluster.bootstrap());
    ask::create(&bootstrap, NewTopic::new(topic, 1, 3).on(&[(0, &[3, 1, 2])]))?;
    let address = cluster.address(broker(1))?;
    let elect = |kind| Connection::open(&address)?.elect(kind, topic, 0);
    expect(
        "it leads already",
        elect(PREFERRED)?,
        &[code::ELECTION_NOT_NEEDED],
    )?;
    expect("somebody leads", elect(UNCLEAN)?, &[code::ELECTION_NOT_NEEDED])?;

    cluster.kill(broker(3))?;
    wait::until("another leader", WITHIN, || {
        let leader = ask::partitions(&address, topic)?[0].leader;
        ensure!([1, 2].contains(&leader), "led by {leader}");
        Ok(())
    })?;
    expect(
        "the preferred replica is down",
        elect(PREFERRED)?,
        &[code::PREFERRED_LEADER_NOT_AVAILABLE],
    )?;
    cluster.start(broker(3))?;
    ask::everything_in_sync(&bootstrap, topic, Duration::from_secs(60))?;
    expect("the preferred replica is back", elect(PREFERRED)?, &[code::NONE])?;
    wait::until_equal("it leads", WITHIN, 3, || {
        Ok(ask::partitions(&address, topic)?[0].leader)
    })?;
    Ok("refused while it was down, elected when it was back".to_owned())
}

/// BC-025: a partition whose only in-sync replica is gone gets a leader as soon as an unclean election is allowed, for its
/// topic or for all; or at once when somebody asks for one.
pub fn unclean_at_run_time(cluster: &mut Cluster) -> Result<String> {
    let bootstrap = cluster.bootstrap();
    let topics = ["bc-025-topic", "bc-025-all", "bc-025-asked", "bc-025-nobody"];
    let address = cluster.address(broker(1))?;
    for topic in topics {
        let replicas: &[i32] = if topic == "bc-025-nobody" {
            &[3]
        } else {
            &[3, 1, 2]
        };
        ask::create(&bootstrap, NewTopic::new(topic, 1, 3).on(&[(0, replicas)]))?;
    }
    // Only broker 3 is in sync: the others were away while it went on.
    cluster.kill_all(&[broker(1), broker(2)])?;
    let third = cluster.address(broker(3))?;
    for topic in topics {
        wait::until_equal("broker 3 alone in sync", Duration::from_secs(60), vec![3], || {
            Ok(ask::partitions(&third, topic)?[0].in_sync.clone())
        })?;
    }
    cluster.kill(broker(3))?;
    cluster.start(broker(1))?;
    cluster.start(broker(2))?;
    let led_by = |topic: &str| -> Result<i32> { Ok(ask::partitions(&address, topic)?[0].leader) };
    for topic in topics {
        wait::until_equal("nobody leads", Duration::from_secs(60), -1, || led_by(topic))?;
    }
    let mut connection = Connection::open(&address)?;
    let mut allow = |kind, name: &str| -> Result<()> {
        let set = [(ALLOWED, Operation::Set("true"))];
        expect(
            "the change",
            connection.alter_config(kind, name, &set)?,
            &[code::NONE],
        )
    };
    let leads = |topic: &str| {
        wait::until(&format!("a leader of {topic}"), WITHIN, || {
            let leader = led_by(topic)?;
            ensure!([1, 2].contains(&leader), "led by {leader}");
            Ok(())
        })
    };
    allow(resource::TOPIC, topics[0])?;
    leads(topics[0])?;
    ensure!(led_by(topics[1])? == -1, "an election that nobody allowed");

    let elect = |topic: &str| Connection::open(&address)?.elect(UNCLEAN, topic, 0);
    expect("asked for", elect(topics[2])?, &[code::NONE])?;
    leads(topics[2])?;
    expect(
        "nobody is alive",
        elect(topics[3])?,
        &[code::ELIGIBLE_LEADERS_NOT_AVAILABLE],
    )?;
    expect("it has one now", elect(topics[2])?, &[code::ELECTION_NOT_NEEDED])?;

    allow(resource::BROKER, "")?;
    leads(topics[1])?;
    Ok("leaders by topic, by all brokers, by request; none where nobody is alive".to_owned())
}

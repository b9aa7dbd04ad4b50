//! Coordinators that come back, and what they tell of a commit: BC-005, BC-076.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::expect;
use crate::cluster::Cluster;
use crate::raw::Connection;
use crate::raw::groups::Told;
use crate::raw::requests::{NewTopic, code};
use crate::{ask, wait};

const TOPIC: &str = "bc-005";
/// A group with a member, beside those that only have offsets.
const WITH_MEMBER: &str = "bc-005-member";
/// Loading, not available, not the coordinator: a client asks again.
const LATER: [i16; 3] = [14, 15, 16];
/// How long a coordinator may take until it serves again.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// Longer than all of it, so that no session ends by itself.
const SESSION_MS: i32 = 120_000;

fn name(group: usize) -> String {
    format!("bc-005-{group}")
}

/// BC-005: after its broker was killed a coordinator is silent until it knows everything again. Each of `groups` groups
/// commits `commits` times before.
pub fn nothing_is_forgotten(cluster: &mut Cluster, groups: usize, commits: usize) -> Result<String> {
    let replicas = i16::try_from(cluster.brokers().len())?;
    ask::create(&cluster.bootstrap(), NewTopic::new(TOPIC, 1, replicas))?;
    let coordinator = |cluster: &Cluster, group: &str| {
        wait::until("a coordinator", BACK_WITHIN, || {
            ask::coordinator(&cluster.bootstrap(), group)
        })
    };
    for group in 0..groups {
        let (_, address) = coordinator(cluster, &name(group))?;
        let mut connection = Connection::open(&address)?;
        for commit in 1..=commits {
            let offset = i64::try_from(group * commits + commit)?;
            wait::until("a commit", BACK_WITHIN, || {
                let codes = connection.commit(&name(group), TOPIC, &[(0, offset)])?;
                ensure!(codes == [0], "{codes:?}");
                Ok(())
            })?;
        }
    }
    let (node, address) = coordinator(cluster, WITH_MEMBER)?;
    let (member, generation) = wait::until("a member", BACK_WITHIN, || {
        Connection::open(&address)?.join_alone(WITH_MEMBER, SESSION_MS)
    })?;
    let killed = cluster
        .brokers()
        .into_iter()
        .find(|id| id.0.cast_signed() == node);
    let killed = killed.with_context(|| format!("node {node} is no broker"))?;
    cluster.kill(killed)?;
    cluster.start(killed)?;
    let mut seen = Seen::default();
    let began = Instant::now();
    while seen.missing(groups) {
        ensure!(
            began.elapsed() < BACK_WITHIN,
            "not everything is back: {}",
            seen.told(groups)
        );
        for id in cluster.brokers() {
            // A broker that is away says nothing wrong.
            if let Ok(mut connection) = Connection::open(&cluster.address(id)?) {
                seen.look(&mut connection, groups, commits)?;
                seen.beat(&mut connection, &member, generation)?;
            }
        }
        wait::pass(Duration::from_millis(10));
    }
    Ok(format!(
        "{} after {} ms",
        seen.told(groups),
        began.elapsed().as_millis()
    ))
}

/// BC-076: what a commit says comes back as clients expect it: an empty text where there was none, the epoch or −1, −1
/// without an error for what was never committed, and everything where nothing is named.
pub fn told_as_committed(cluster: &Cluster) -> Result<String> {
    let (topic, group) = ("bc-076", "bc-076-group");
    ask::create(&cluster.bootstrap(), NewTopic::new(topic, 5, 1))?;
    let longest = "m".repeat(4096);
    let commits = [
        (0, (10, 3), None),
        (1, (11, -1), Some("")),
        (2, (12, 0), Some(longest.as_str())),
    ];
    let mut connection = wait::until("a coordinator that serves", BACK_WITHIN, || {
        let (_, address) = ask::coordinator(&cluster.bootstrap(), group)?;
        let mut connection = Connection::open(&address)?;
        let got = connection.commit_saying(group, (topic, 0), (1, -1), None)?;
        ensure!(got == code::NONE, "error {got}");
        Ok(connection)
    })?;
    for (partition, at, metadata) in commits {
        let got = connection.commit_saying(group, (topic, partition), at, metadata)?;
        expect("a commit", got, &[code::NONE])?;
    }
    let more = format!("{longest}m");
    let got = connection.commit_saying(group, (topic, 3), (13, -1), Some(&more))?;
    expect("4097 bytes of metadata", got, &[code::OFFSET_METADATA_TOO_LARGE])?;
    for version in 1..=5 {
        let told = |partition, (offset, epoch), metadata: &str| Told {
            topic: topic.to_owned(),
            partition,
            offset,
            leader_epoch: (version >= 5).then_some(epoch),
            metadata: Some(metadata.to_owned()),
            error: code::NONE,
        };
        let committed = commits.map(|(partition, at, metadata)| told(partition, at, metadata.unwrap_or("")));
        let nothing = |partition| told(partition, (-1, -1), "");
        let named = connection.offsets_told(version, group, Some((topic, &[0, 1, 2, 3, 99])))?;
        let wanted = [&committed[..], &[nothing(3), nothing(99)]].concat();
        ensure!(named == wanted, "v{version}: {named:?} instead of {wanted:?}");
        if version >= 2 {
            let mut all = connection.offsets_told(version, group, None)?;
            all.sort_by_key(|one| one.partition);
            ensure!(all == committed, "v{version}: {all:?} instead of {committed:?}");
        }
    }
    Ok("three commits as they were made, in five versions; 4097 bytes refused".to_owned())
}

#[derive(Default)]
struct Seen {
    back: BTreeSet<usize>,
    beats: usize,
    put_off: usize,
}

impl Seen {
    fn missing(&self, groups: usize) -> bool {
        self.back.len() < groups || self.beats == 0
    }

    fn told(&self, groups: usize) -> String {
        let (back, beats, put_off) = (self.back.len(), self.beats, self.put_off);
        format!("{back} of {groups} groups as committed, {beats} heartbeats, {put_off} answers put off")
    }

    fn look(&mut self, connection: &mut Connection, groups: usize, commits: usize) -> Result<()> {
        for group in 0..groups {
            // The connection may break with its broker.
            let Ok(committed) = connection.committed(&name(group), TOPIC, 1) else {
                return Ok(());
            };
            for one in committed {
                if LATER.contains(&one.error) {
                    self.put_off += 1;
                    continue;
                }
                expect("a committed offset", one.error, &[0])?;
                let wanted = i64::try_from((group + 1) * commits)?;
                ensure!(
                    one.offset == wanted,
                    "{} of {} instead of {wanted}",
                    one.offset,
                    name(group)
                );
                self.back.insert(group);
            }
        }
        Ok(())
    }

    fn beat(&mut self, connection: &mut Connection, member: &str, generation: i32) -> Result<()> {
        let Ok(code) = connection.heartbeat(WITH_MEMBER, generation, member) else {
            return Ok(());
        };
        if LATER.contains(&code) {
            self.put_off += 1;
            return Ok(());
        }
        expect("a heartbeat", code, &[0])?;
        self.beats += 1;
        Ok(())
    }
}

//! Partitions without a leader: who has what is committed, and what gives them a leader again.

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::{self, PartitionView};
use crate::client::Client;
use crate::status::PartitionTrouble;
use crate::table::numbers;

/// How many partitions a line names, and how many lines there are at most.
const NAMED: usize = 5;
const LINES: usize = 10;

/// What gives a partition a leader again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// One of these may lead and is there.
    Wait(Vec<i32>),
    /// Each of these has all that is committed, and all of them are away.
    BringBack(Vec<i32>),
    /// These are away and may have it; nobody is known to have it.
    Try(Vec<i32>),
    /// Who has it could not be asked.
    AskAgain,
    /// Nobody is known to have it, in this topic.
    GiveUp(String),
}

/// Asks who may lead. A partition that has a leader by now is in no trouble any more; what cannot be asked, as of a topic
/// that is gone by now, stays unknown.
pub async fn ask_who_may_lead(client: &mut Client, leaderless: &mut Vec<PartitionTrouble>) {
    let names: BTreeSet<String> = leaderless.iter().map(|one| one.topic.clone()).collect();
    let names: Vec<String> = names.into_iter().collect();
    if names.is_empty() {
        return;
    }
    let Ok(topics) = ask::topics(client, &names).await else {
        return;
    };
    let known: BTreeMap<(&str, i32), &PartitionView> = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |one| (topic, one)))
        .map(|(topic, one)| ((topic.name.as_str(), one.partition), one))
        .collect();
    leaderless.retain_mut(|one| match known.get(&(one.topic.as_str(), one.partition)) {
        Some(known) => still_leaderless(one, known),
        None => true,
    });
}

/// Takes the later answer as a whole: what two answers say together may never have been so.
fn still_leaderless(one: &mut PartitionTrouble, known: &PartitionView) -> bool {
    one.in_sync.clone_from(&known.in_sync);
    one.offline.clone_from(&known.offline);
    one.eligible.clone_from(&known.eligible_leaders);
    one.last_leaders.clone_from(&known.last_known_leaders);
    known.leader.is_none()
}

/// What to do, one line for each kind of trouble.
pub fn next_steps(leaderless: &[PartitionTrouble]) -> Vec<String> {
    let mut by_step: BTreeMap<Step, Vec<String>> = BTreeMap::new();
    for one in leaderless {
        let name = format!("{}-{}", one.topic, one.partition);
        by_step.entry(step(one)).or_default().push(name);
    }
    let steps = by_step.iter().take(LINES);
    let mut lines: Vec<String> = steps
        .map(|(step, names)| format!("{}: {}", named(names), said(step)))
        .collect();
    let rest = by_step.len().saturating_sub(LINES);
    lines.extend((0 < rest).then(|| format!("and {rest} more such lines")));
    lines
}

fn step(one: &PartitionTrouble) -> Step {
    let away = |ids: &[i32]| -> Vec<i32> {
        let away = ids.iter().filter(|id| one.offline.contains(id));
        away.copied().collect()
    };
    // Without eligible replicas in the cluster the last in-sync one stays in the set.
    let complete = match one.in_sync.is_empty() {
        true => one.eligible.clone().unwrap_or_default(),
        false => one.in_sync.clone(),
    };
    let sorted = |mut ids: Vec<i32>| {
        // The same brokers in another order are the same step.
        ids.sort_unstable();
        ids
    };
    let (missing, there): (Vec<i32>, Vec<i32>) =
        sorted(complete).iter().partition(|id| one.offline.contains(id));
    if !there.is_empty() {
        return Step::Wait(there);
    }
    if !missing.is_empty() {
        return Step::BringBack(missing);
    }
    let perhaps = sorted(away(one.last_leaders.as_ref().unwrap_or(&one.replicas)));
    match (perhaps.is_empty(), &one.eligible) {
        (false, _) => Step::Try(perhaps),
        (true, Some(_)) => Step::GiveUp(one.topic.clone()),
        (true, None) => Step::AskAgain,
    }
}

fn named(names: &[String]) -> String {
    let rest = names.len().saturating_sub(NAMED);
    let shown = names[..names.len() - rest].join(", ");
    match rest {
        0 => shown,
        _ => format!("{shown} and {rest} more"),
    }
}

fn said(step: &Step) -> String {
    let brokers = |ids: &[i32]| match ids {
        [one] => format!("broker {one}"),
        many => format!("one of the brokers {}", numbers(many)),
    };
    match step {
        Step::Wait(ids) => format!("{} may lead; look again in a moment", brokers(ids)),
        Step::BringBack(ids) => format!(
            "bring back {} or its log directory: all that is committed is there",
            brokers(ids)
        ),
        Step::Try(ids) => format!(
            "bring back {} or its log directory: what is committed may be there",
            brokers(ids)
        ),
        Step::AskAgain => "it is not known who may lead; look again in a moment".to_owned(),
        Step::GiveUp(topic) => format!(
            "no broker is known to have all that is committed. Where a disk was replaced, put back the one with the data and \
             restart its broker. Then `kafka-leader-election --election-type unclean --topic {topic} --partition N` lets the \
             first of the replicas that is there lead with what it has: what it has not is lost. Where that is not the one with \
             the data, stop the brokers in front of it meanwhile. `millrace config set topic:{topic} \
             unclean.leader.election.enable=true` does it to every partition of {topic} that has no leader: bring back \
             first whoever has the others, and take it away with `--delete unclean.leader.election.enable`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(
        partition: i32,
        offline: &[i32],
        in_sync: &[i32],
        eligible: Option<&[i32]>,
    ) -> PartitionTrouble {
        PartitionTrouble {
            topic: "orders".to_owned(),
            partition,
            replicas: vec![1, 2, 3],
            in_sync: in_sync.to_vec(),
            min_in_sync: None,
            offline: offline.to_vec(),
            eligible: eligible.map(<[i32]>::to_vec),
            last_leaders: None,
        }
    }

    #[test]
    fn whoever_has_all_that_is_committed_is_to_be_brought_back() {
        let eligible = [
            orders(0, &[1, 2], &[], Some(&[2])),
            orders(1, &[1, 2], &[], Some(&[2])),
        ];
        assert_eq!(
            next_steps(&eligible),
            ["orders-0, orders-1: bring back broker 2 or its log directory: all that is committed is there"]
        );
        // As in a cluster without eligible replicas.
        assert_eq!(step(&orders(0, &[1, 2], &[1], None)), Step::BringBack(vec![1]));
        assert_eq!(step(&orders(0, &[1], &[], Some(&[1, 2]))), Step::Wait(vec![2]));
    }

    #[test]
    fn the_last_leader_is_tried_where_nobody_is_known_to_have_everything() {
        let mut one = orders(0, &[1, 2], &[], Some(&[]));
        one.last_leaders = Some(vec![1]);
        assert_eq!(step(&one), Step::Try(vec![1]));
        assert_eq!(
            step(&orders(0, &[1, 2], &[], None)),
            Step::Try(vec![1, 2]),
            "nobody was asked"
        );
    }

    #[test]
    fn the_same_brokers_in_another_order_are_one_line() {
        let complete = [
            orders(0, &[2, 3], &[], Some(&[2, 3])),
            orders(1, &[2, 3], &[], Some(&[3, 2])),
        ];
        assert_eq!(next_steps(&complete).len(), 1, "{:?}", next_steps(&complete));
        let mut perhaps = [
            orders(0, &[2, 3], &[], Some(&[])),
            orders(1, &[2, 3], &[], Some(&[])),
        ];
        perhaps[1].replicas = vec![1, 3, 2];
        assert_eq!(next_steps(&perhaps).len(), 1, "{:?}", next_steps(&perhaps));
        assert_eq!(step(&orders(0, &[], &[3, 2], None)), Step::Wait(vec![2, 3]));
    }

    /// What could not be asked is not known to be nobody: that would be told with a way to lose data.
    #[test]
    fn where_it_could_not_be_asked_who_may_lead_nothing_is_given_up() {
        assert_eq!(step(&orders(0, &[], &[], None)), Step::AskAgain);
        let mut one = orders(0, &[], &[], Some(&[]));
        one.last_leaders = Some(vec![]);
        assert_eq!(step(&one), Step::GiveUp("orders".to_owned()));
    }

    #[test]
    fn a_partition_that_has_a_leader_by_now_is_in_no_trouble() {
        let view = |leader: Option<i32>| PartitionView {
            partition: 0,
            leader,
            leader_epoch: Some(3),
            replicas: vec![1, 2, 3],
            in_sync: vec![2],
            offline: vec![3],
            eligible_leaders: Some(vec![]),
            last_known_leaders: Some(vec![]),
        };
        let mut one = orders(0, &[1], &[], Some(&[2]));
        assert!(!still_leaderless(&mut one, &view(Some(2))));
        assert!(still_leaderless(&mut one, &view(None)));
        assert_eq!((one.in_sync, one.offline), (vec![2], vec![3]), "of one answer");
    }

    /// An empty disk had taken the place of the one with the data. That one was put back, and nothing said what to do.
    #[test]
    fn where_everybody_is_there_and_nobody_may_lead_the_last_way_is_told_with_its_price() {
        let mut one = orders(3, &[], &[], Some(&[]));
        one.last_leaders = Some(vec![]);
        let lines = next_steps(&[one]);
        assert_eq!(lines.len(), 1);
        for part in [
            "orders-3: no broker is known",
            "put back the one with the data",
            "`kafka-leader-election --election-type unclean --topic orders --partition N`",
            "is lost",
            "`millrace config set topic:orders unclean.leader.election.enable=true` does it to every partition",
            "take it away",
        ] {
            assert!(lines[0].contains(part), "{part} in {}", lines[0]);
        }
    }

    #[test]
    fn of_many_partitions_and_topics_the_first_are_named() {
        let many: Vec<_> = (0..8).map(|at| orders(at, &[1], &[1], None)).collect();
        assert!(
            next_steps(&many)[0].starts_with("orders-0, orders-1, orders-2, orders-3, orders-4 and 3 more: ")
        );
        let topics: Vec<_> = (0..12)
            .map(|at| PartitionTrouble {
                topic: format!("t{at}"),
                ..orders(0, &[], &[], Some(&[]))
            })
            .collect();
        let lines = next_steps(&topics);
        assert_eq!((lines.len(), lines[10].as_str()), (11, "and 2 more such lines"));
    }
}

//! Seeds that every build must get through: a fixed corpus that reaches every required mark, and the proof that a seed
//! decides everything. Fresh seeds are drawn by `cargo sim`.
#![allow(
    clippy::print_stdout,
    reason = "a failing seed is printed with its replay command"
)]

use std::time::Duration;

use sim::corpus;
use sim::marks::Marks;
use sim::plan::{Extra, FaultKind, Limits, Topology};
use sim::run::{command, run};

/// A seed with a story of its own is run without what plans drew later than the seed was found: its history is the same.
fn as_found() -> Limits {
    Limits {
        without: Extra::ALL.to_vec(),
        ..Limits::default()
    }
}

fn must_hold(seed: u64, limits: &Limits) -> sim::run::Outcome {
    let outcome = run(seed, limits);
    if let Some(violation) = &outcome.violation {
        outcome.story.iter().for_each(|line| println!("{line}"));
        println!("{}\nreplay: {}", outcome.plan, command(seed, limits));
        panic!("seed {seed}: {}: {}", violation.what, violation.how);
    }
    outcome
}

#[test]
fn the_fixed_corpus_holds_and_reaches_every_required_mark() {
    let mut marks = Marks::default();
    for seed in corpus::SEEDS {
        marks.add(&must_hold(seed, &Limits::default()).marks);
    }
    let missing = corpus::missing(&marks);
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

#[test]
fn what_a_disk_has_damaged_is_refused_by_whoever_reads_it_and_cut_off_by_recovery() {
    let limits = Limits {
        only: Some(vec![FaultKind::BitRot, FaultKind::Crash]),
        topology: Some(Topology {
            controllers: 3,
            brokers: 3,
        }),
        without: vec![Extra::Groups, Extra::Configs],
        ..Limits::default()
    };
    let mut marks = Marks::default();
    for seed in 1..13 {
        marks.add(&must_hold(seed, &limits).marks);
    }
    for mark in corpus::OF_ROT {
        assert!(0 < marks.count(*mark), "never reached: {}", mark.name());
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in [3, 7, 21] {
        let (one, other) = (run(seed, &Limits::default()), run(seed, &Limits::default()));
        assert_eq!(one.tally, other.tally, "seed {seed}");
        assert_eq!(one.story, other.story, "seed {seed}");
    }
}

/// A reader whose connection broke with the broker was never told, and stood still.
#[test]
fn readers_outlive_the_broker_that_they_read_from() {
    must_hold(14, &as_found());
    must_hold(33, &as_found());
}

/// Every Produce that waits for an election looked at all the others when its time was over, and each look put down as
/// many again: the run took all memory.
#[test]
fn requests_that_wait_for_an_election_do_not_multiply() {
    must_hold(36, &as_found());
}

/// A broker that was cut off heard of a deleted topic and of the next one of its name in one image, and the lane of the
/// old one deleted the log of the new one.
#[test]
fn the_next_topic_of_a_name_keeps_its_log() {
    must_hold(187, &as_found());
}

/// A follower cut off what its new leader does not have and wrote other batches in their place; neither was synced when it
/// lost power, and what had been cut off was back, below a watermark that stood for the new ones. A cut asks for a sync
/// now, and whoever carries it out, be it here or in the broker, does the same.
#[test]
fn what_was_cut_off_does_not_come_back_with_a_power_loss() {
    let limits = Limits {
        only: Some(vec![FaultKind::PowerLoss, FaultKind::Isolate]),
        topology: Some(Topology {
            controllers: 3,
            brokers: 3,
        }),
        ..as_found()
    };
    must_hold(138, &limits);
}

/// A follower had to cut its log while its disk was full: the log was cut, the mark could not be written, and the replica was
/// not told. With the next batch the process ended: an append never shortens a log.
#[test]
fn a_cut_on_a_full_disk_is_told_to_the_replica() {
    must_hold(2_750_133_171, &as_found());
}

/// A broker that had lost power but nothing of its log counted as one that may lead, and the only other one got an empty
/// disk: nobody could lead any more. To a controller each unclean stop is the same, so the faults keep clear of that.
#[test]
fn whoever_comes_back_from_a_power_loss_is_not_counted_on_to_lead() {
    let limits = Limits {
        faults: Some(vec![6, 8, 9]),
        safety_max: Some(Duration::from_millis(13_337)),
        ..as_found()
    };
    must_hold(2_937_984_658, &limits);
}

/// A broker that was stopped in order twice, the second time before it was registered, took away the mark of its first
/// stop and counted as killed; with the other one's disk gone nobody could lead. The broker leaves the mark that it
/// finds; here that rule was left out, so it stands in the pure core now.
#[test]
fn a_broker_that_stops_before_it_is_registered_leaves_the_mark_that_it_found() {
    let limits = Limits {
        faults: Some(vec![0, 1, 2, 3, 4, 5, 6, 8]),
        safety_max: Some(Duration::from_millis(16_903)),
        ..as_found()
    };
    must_hold(163_919_579, &limits);
}

/// A follower cut its log on a full disk, and its producers were not forgotten: leading, it took a repeated batch for one that
/// it had, and what it would have acknowledged was in no log.
#[test]
fn what_a_full_disk_has_cut_off_is_forgotten_with_its_producer() {
    let limits = Limits {
        faults: Some(vec![1, 3, 4, 5]),
        safety_max: Some(Duration::from_millis(16_006)),
        ..as_found()
    };
    must_hold(2_808_094_786, &limits);
}

/// A broker was stopped in order before it heard of its epoch, and the controller came to its registration only then. The
/// next process counted as one after a kill; with the other one's disk gone nobody could lead. It names now whoever did not
/// serve.
#[test]
fn a_registration_that_is_decided_too_late_costs_its_broker_nothing() {
    let limits = Limits {
        faults: Some(vec![2, 3, 5, 9, 10, 13]),
        without: vec![Extra::Groups, Extra::Configs],
        ..Limits::default()
    };
    must_hold(4_220_313_361, &limits);
}

/// A broker whose disk is full may end, which is a kill to a controller, while another one gets an empty disk.
#[test]
fn a_broker_that_ends_for_want_of_room_is_not_counted_on_to_lead() {
    let limits = Limits {
        faults: Some(vec![3, 4, 5]),
        safety_max: Some(Duration::from_millis(8_000)),
        ..as_found()
    };
    must_hold(1_545_689_106, &limits);
}

/// What a connection's order asked for was carried out one within the other, so that answers overtook each other.
#[test]
fn answers_that_are_ready_together_leave_in_order() {
    let limits = Limits {
        faults: Some(vec![0, 2, 5]),
        ..as_found()
    };
    must_hold(1_638_781_164, &limits);
}

/// An administrator raised `min.insync.replicas` while the last in-sync broker was stopped in order: whoever may lead was
/// forgotten with the change, and nobody could lead any more, though nothing was lost.
#[test]
fn a_minimum_that_is_altered_while_nobody_leads_leaves_somebody_who_can() {
    let limits = Limits {
        faults: Some(vec![2, 4, 5, 6, 13]),
        safety_max: Some(Duration::from_millis(16_762)),
        without: vec![Extra::Groups, Extra::BitRot],
        ..Limits::default()
    };
    must_hold(500_111, &limits);
}

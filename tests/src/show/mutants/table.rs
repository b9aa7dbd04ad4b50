//! The faults that the proof of the control plane and of replication stands on.

use super::{Judge, Mutant};

/// A fault that the simulator sees in one of its first runs.
const fn seen(name: &'static str, most: u64, broken: &'static str) -> Mutant {
    Mutant {
        name,
        judge: Judge::Seeds {
            most,
            held: "",
            broken,
        },
    }
}

/// A fault that a test sees; `package` and `program` as in `cargo test -p PACKAGE --test PROGRAM`.
const fn tested(
    name: &'static str,
    (package, program): (&'static str, &'static str),
    test: &'static str,
    says: &'static str,
) -> Mutant {
    Mutant {
        name,
        judge: Judge::Test {
            package,
            program,
            test,
            says,
        },
    }
}

/// Seeds for a fault that shows wherever it can.
const FEW: u64 = 20;
/// For one that takes some luck.
const MANY: u64 = 100;

const DRIVER: (&str, &str) = ("controller-core", "it");
const FOLLOWER: (&str, &str) = ("broker-core", "laws");
const STORE: (&str, &str) = ("controller", "power_loss");

/// All of them.
pub const ALL: &[Mutant] = &[
    seen(
        "watermark_ignores_min_isr",
        MANY,
        "no watermark moves below min.insync.replicas",
    ),
    seen(
        "isr_expanded_below_watermark",
        MANY,
        "who joins holds what is committed",
    ),
    seen(
        "acknowledged_before_replicated",
        MANY,
        "leaders hold what was acknowledged",
    ),
    seen("read_past_watermark", MANY, "the oracle"),
    seen(
        "offsets_loaded_to_watermark",
        MANY,
        "committed offsets never back",
    ),
    seen("truncate_one_too_few", MANY, "convergence after healing"),
    seen("duplicate_sequence_accepted", MANY, "the oracle: Duplicate"),
    seen("producer_state_not_rebuilt", MANY, "the oracle"),
    seen(
        "barrier_missing_in_pipeline",
        FEW,
        "answers in the order of requests",
    ),
    seen(
        "published_before_registration",
        MANY,
        "leaders hold what was acknowledged",
    ),
    seen(
        "image_published_mid_batch",
        FEW,
        "images are published between batches",
    ),
    seen(
        "applied_reported_early",
        FEW,
        "applied means applied by every lane",
    ),
    seen("epoch_not_bumped", FEW, "epochs never back"),
    seen(
        "elected_outside_in_sync",
        MANY,
        "leaders hold what was acknowledged",
    ),
    seen(
        "stale_alter_partition_accepted",
        MANY,
        "fenced brokers in no in-sync set",
    ),
    seen("skipped_chain_check", MANY, "nobody calls for help"),
    seen(
        "snapshot_without_next_offset",
        FEW,
        "replay of the log is the image",
    ),
    seen(
        "parked_reply_released_by_index",
        MANY,
        "what is granted is committed",
    ),
    seen(
        "activated_before_the_log_is_applied",
        MANY,
        "the active controller has applied the log",
    ),
    Mutant {
        name: "unclean_restart_keeps_its_place",
        judge: Judge::Seeds {
            most: MANY,
            // Nobody is eligible without being in sync before the set is below its minimum, and it must be one that
            // lost its power: both at once are rare where everything else happens too.
            held: "--only power-loss,cut-controllers --topology 3+3",
            broken: "who comes back eligible holds what was acknowledged",
        },
    },
    tested(
        "truncate_to_wrong_epoch",
        FOLLOWER,
        "a_diverged_follower_comes_to_hold_what_its_leader_holds",
        "takes nothing off a log",
    ),
    tested(
        "refused_batch_proposed_again",
        DRIVER,
        "driver::a_refused_proposal_is_never_proposed_again",
        "a batch is never proposed twice",
    ),
    tested(
        "fence_before_moving_leaders",
        DRIVER,
        "driver::fencing_a_broker_with_many_partitions_takes_several_batches_and_the_fence_comes_last",
        "leaderships move first, the fence comes last",
    ),
    tested(
        "commit_before_sync",
        STORE,
        "what_was_acknowledged_survives_a_power_loss",
        "an acknowledged entry was lost with the power",
    ),
    tested(
        "vote_not_synced",
        STORE,
        "a_vote_that_was_given_survives_a_power_loss",
        "a vote that was given was lost with the power",
    ),
];

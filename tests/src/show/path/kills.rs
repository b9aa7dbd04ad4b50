//! The kill script: replication factor 3, min.insync.replicas 2, default timings, an idempotent load of at least
//! 2,000 records a second, and every kind of death.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cluster::{Cluster, NodeId, broker};
use crate::quorum::active;
use crate::show::{Board, at_least};
use crate::siege::{Blow, Siege};
use crate::wait;

/// How long nothing is done, to know what is usual.
const QUIET: Duration = Duration::from_secs(15);

/// A killed broker's partitions are written again within this.
const BROKER_GAP_MAX: Duration = Duration::from_secs(3);

/// What a row about controllers may add to the quiet maximum.
const CONTROLLER_GAP_OVER_QUIET: Duration = Duration::from_millis(100);

/// The next metadata commit after SIGKILL of the active controller.
const COMMIT_AFTER_KILL_MAX: Duration = Duration::from_millis(1500);

/// The next metadata commit after SIGTERM of the active controller.
const COMMIT_AFTER_TERM_MAX: Duration = Duration::from_millis(500);

/// The fewest records acknowledged under which a row proves anything.
const ROW_RECORDS_MIN: u64 = 2_000;

/// At the pace of the load, this takes longer than a session timeout.
const RECORDS_OF_A_SESSION_TIMEOUT: usize = 30_000;

/// The fewest records acknowledged over the whole script.
const ALL_RECORDS_MIN: u64 = 60_000;

/// Rows of the script, and of the cut.
pub fn rows(board: &mut Board) {
    if board.wants_some_of("kill") {
        script(board);
    }
    board.row("cut one controller off", cut);
}

fn script(board: &mut Board) {
    let cluster = Cluster::builder().controllers(3).brokers(3).start();
    let mut siege = match cluster.and_then(|cluster| Siege::lay(cluster, QUIET)) {
        Ok(siege) => siege,
        Err(error) => return board.row("kill", || Err(error)),
    };
    for id in siege.cluster.brokers() {
        board.row(&format!("kill broker {id}, restart"), || {
            kill_broker(&mut siege, id)
        });
    }
    board.row("kill the active controller", || kill_active(&mut siege));
    board.row("kill the next active controller", || kill_active(&mut siege));
    board.row("kill SIGTERM the active controller", || term_active(&mut siege));
    board.row("kill all controllers, restart", || {
        let all = siege.cluster.controllers();
        let blow = siege.blow(|siege| kill_and_restart(siege, &all))?;
        ensure_controller_gap(&siege, blow)?;
        figure(&siege, blow)
    });
    board.row("kill all six, restart", || {
        let all = [siege.cluster.controllers(), siege.cluster.brokers()].concat();
        let blow = siege.blow(|siege| kill_and_restart(siege, &all))?;
        figure(&siege, blow)
    });
    board.row("kill and wipe a broker, restart", || {
        // A stream younger than the session timeout (9 s) that breaks is not taken for a crash: the brokers have just
        // come back, and it may be the controller that lost them.
        siege.go_on(RECORDS_OF_A_SESSION_TIMEOUT)?;
        let blow = siege.blow(|siege| {
            siege.cluster.kill(broker(2))?;
            siege.cluster.wipe(broker(2))?;
            siege.go_on(2_000)?;
            siege.cluster.start(broker(2))
        })?;
        ensure_gap(blow.gap, BROKER_GAP_MAX)?;
        figure(&siege, blow)
    });
    board.row("kill oracle", || {
        let verdict = siege.lift()?;
        ensure!(verdict.holds(), "{verdict}");
        at_least(
            "records acknowledged",
            verdict.acknowledged as u64,
            ALL_RECORDS_MIN,
        )?;
        Ok(verdict.to_string())
    });
}

fn figure(siege: &Siege, blow: Blow) -> Result<String> {
    at_least("records acknowledged", blow.acknowledged as u64, ROW_RECORDS_MIN)?;
    let (gap, quiet) = (blow.gap.as_millis(), siege.quiet.as_millis());
    Ok(format!(
        "{} acknowledged, longest gap {gap} ms, quiet {quiet} ms",
        blow.acknowledged
    ))
}

fn ensure_gap(gap: Duration, most: Duration) -> Result<()> {
    ensure!(
        gap <= most,
        "longest gap {} ms, at most {} ms",
        gap.as_millis(),
        most.as_millis()
    );
    Ok(())
}

fn ensure_controller_gap(siege: &Siege, blow: Blow) -> Result<()> {
    ensure_gap(blow.gap, siege.quiet + CONTROLLER_GAP_OVER_QUIET)
}

fn kill_and_restart(siege: &mut Siege, ids: &[NodeId]) -> Result<()> {
    siege.cluster.kill_all(ids)?;
    ids.iter().try_for_each(|id| siege.cluster.start(*id))
}

fn kill_broker(siege: &mut Siege, id: NodeId) -> Result<String> {
    let blow = siege.blow(|siege| {
        siege.cluster.kill(id)?;
        siege.go_on(4_000)?;
        siege.cluster.start(id)
    })?;
    ensure_gap(blow.gap, BROKER_GAP_MAX)?;
    figure(siege, blow)
}

fn kill_active(siege: &mut Siege) -> Result<String> {
    let id = active(&siege.cluster)?;
    let mut commit = None;
    let blow = siege.blow(|siege| {
        let since = Instant::now();
        siege.cluster.kill(id)?;
        commit = Some(siege.next_commit(since)?);
        siege.go_on(2_000)?;
        siege.cluster.start(id)
    })?;
    let commit = commit.context("a commit")?;
    ensure!(
        commit <= COMMIT_AFTER_KILL_MAX,
        "the next commit came after {} ms",
        commit.as_millis()
    );
    ensure_controller_gap(siege, blow)?;
    Ok(format!(
        "commit after {} ms; {}",
        commit.as_millis(),
        figure(siege, blow)?
    ))
}

fn term_active(siege: &mut Siege) -> Result<String> {
    let id = active(&siege.cluster)?;
    let mut commit = None;
    let blow = siege.blow(|siege| {
        let since = Instant::now();
        siege.cluster.ask_to_end(id)?;
        commit = Some(siege.next_commit(since)?);
        siege.cluster.wait_for_end(id)?;
        siege.cluster.start(id)
    })?;
    let commit = commit.context("a commit")?;
    ensure!(
        commit <= COMMIT_AFTER_TERM_MAX,
        "the next commit came after {} ms",
        commit.as_millis()
    );
    ensure_controller_gap(siege, blow)?;
    Ok(format!(
        "commit after {} ms; {}",
        commit.as_millis(),
        figure(siege, blow)?
    ))
}

/// One controller, the active one, is cut off from the others, and healed.
fn cut() -> Result<String> {
    let cluster = Cluster::builder().controllers(3).brokers(3).cuttable().start()?;
    let mut siege = Siege::lay(cluster, QUIET)?;
    let old = active(&siege.cluster)?;
    let mut commit = None;
    let blow = siege.blow(|siege| {
        let others = siege.cluster.controllers();
        let since = Instant::now();
        siege.cluster.isolate(old, &others);
        commit = Some(siege.next_commit(since)?);
        siege.go_on(4_000)?;
        siege.cluster.heal(old, &others);
        let cluster = &siege.cluster;
        wait::until("the healed one agrees", Duration::from_secs(20), || {
            crate::cases::quorum::settled(cluster, Duration::ZERO)
        })
    })?;
    ensure_controller_gap(&siege, blow)?;
    let figure = figure(&siege, blow)?;
    let verdict = siege.lift()?;
    ensure!(verdict.holds(), "{verdict}");
    let commit = commit.context("a commit")?;
    Ok(format!(
        "commit after {} ms; {figure}; {verdict}",
        commit.as_millis()
    ))
}

//! Malformed frames, lengths that lie, connections that stay silent: the right error or a close, no panic, and
//! memory that stays flat.

use crate::cases::frames;
use crate::cluster::Cluster;
use crate::show::Board;

/// How many silent connections a broker must bear.
const SILENT: usize = 2_000;

/// How much memory may grow over everything.
const GROWTH_BYTES_MAX: u64 = 24 << 20;

/// One row each.
pub fn rows(board: &mut Board) {
    if !board.wants_some_of("hostile") {
        return;
    }
    let cluster = match Cluster::builder().start() {
        Ok(cluster) => cluster,
        Err(error) => return board.row("hostile", || Err(error)),
    };
    let id = cluster.brokers()[0];
    // The first connections make a process grow by what it keeps for all later ones.
    let before = frames::bad_lengths(&cluster).and_then(|_| cluster.figures(id));
    board.row("hostile lengths", || frames::bad_lengths(&cluster));
    board.row("hostile bodies", || frames::absurd_lengths(&cluster));
    board.row("hostile silence", || frames::idle_connections(&cluster, SILENT));
    board.row("hostile memory", || {
        let (before, after) = (before?.resident_bytes, cluster.figures(id)?.resident_bytes);
        let grown = after.saturating_sub(before);
        anyhow::ensure!(
            grown < GROWTH_BYTES_MAX,
            "from {} MiB to {} MiB",
            before >> 20,
            after >> 20
        );
        Ok(format!("{} MiB before, {} MiB after", before >> 20, after >> 20))
    });
    board.row("hostile logs", || super::cases::judged(cluster));
}

//! `millrace bench`: how fast a cluster is and what it costs.
//!
//! The load generator shares the machine with the brokers, so it must cost little: batches are built once and only
//! their headers and one stamp are written anew. Nothing here knows which system it talks to.

pub mod args;
mod batch;
mod clock;
pub mod compare;
mod figures;
mod link;
mod load;
mod process;
mod read;
mod report;
mod schedule;
mod topic;
mod write;

use crate::outcome::Failure;
use crate::terminal::{say, say_json};
use crate::topic::Style;

use args::{BenchArgs, BenchCommand, RunArgs};
use load::{Load, Measured};
use process::Watched;

/// Measures and shows.
///
/// # Errors
/// When the cluster cannot be asked, or refuses or loses a record of the load.
pub async fn run(args: &BenchArgs, style: Style) -> Result<(), Failure> {
    match &args.command {
        None => one(&args.run, style).await,
        Some(BenchCommand::Compare(args)) => compare::run(args, style).await,
    }
}

async fn one(args: &RunArgs, style: Style) -> Result<(), Failure> {
    let load = Load {
        record_size: args.record_size as usize,
        rate: args.rate,
        shape: args.shape.clone(),
    };
    let name = topic::ensure(
        &args.at.bootstrap,
        args.topic.as_deref(),
        args.partitions,
        args.replication_factor,
    )
    .await?;
    let watched = match (args.metrics.is_empty(), args.pids.is_empty()) {
        (false, _) => Watched::Metrics(args.metrics.clone()),
        (true, false) => Watched::Processes(args.pids.clone()),
        (true, true) => Watched::listening(&load::brokers(&args.at.bootstrap).await?),
    };
    let measured = load::run(&args.at.bootstrap, &name, &load, &watched).await;
    if args.topic.is_none() {
        topic::delete(&args.at.bootstrap, &name).await?;
    }
    let measured: Measured = measured?;
    match style {
        Style::Json => say_json(&report::json(&load, &measured)),
        Style::Text => report::lines(&load, &measured).iter().for_each(|line| say(line)),
    }
    Ok(())
}

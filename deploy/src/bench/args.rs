//! The command line of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::compare::cells::Cell;
use crate::args::{Acks, Bootstrap};

/// Options of `bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    /// Something else than one load on one cluster.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// The load.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What else can be measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Start Millrace and Apache Kafka in turn, twice each, on this machine, and compare them in named cells.
    Compare(CompareArgs),
}

/// Options of one load on a cluster that runs.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub at: Bootstrap,
    /// A topic to use; left out, one is made and deleted again.
    #[arg(long, value_name = "NAME")]
    pub topic: Option<String>,
    /// Partitions of the topic that is made.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    pub partitions: i32,
    /// Replicas of the topic that is made.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i16).range(1..=9))]
    pub replication_factor: i16,
    /// How the load looks.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Records a second, whatever the cluster answers; left out, as many as it takes.
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: Option<u64>,
    /// Bytes of a record's value.
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(32..=900_000))]
    pub record_size: u32,
    /// Processes whose CPU and memory count as the brokers'; left out, those on this machine that listen where the
    /// brokers are.
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',')]
    pub pids: Vec<i32>,
    /// Where brokers elsewhere give their CPU and memory, HOST:PORT of their metrics.
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        conflicts_with = "pids"
    )]
    pub metrics: Vec<crate::address::Address>,
}

/// How a load looks: what a stock Java producer of Kafka 4.4 does by default.
#[derive(Debug, Clone, Args)]
pub struct ShapeArgs {
    /// Seconds that are measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Seconds of the same load before.
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub warm_up: u64,
    /// Bytes of a full batch.
    #[arg(long, value_name = "BYTES", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(200..=1_000_000))]
    pub batch_size: u32,
    /// How long a record waits for others in its batch, at a given rate.
    #[arg(long, value_name = "MS", default_value_t = 5.0)]
    pub linger_ms: f64,
    /// Requests to one broker that may be unanswered.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub in_flight: u8,
    /// Who must have a record before it counts as written.
    #[arg(long, value_enum, default_value_t = Acks::All)]
    pub acks: Acks,
    /// Without a producer id.
    #[arg(long)]
    pub no_idempotence: bool,
}

/// Options of `bench compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A cell, or the beginning of the names of several; may be repeated; left out, all eight.
    #[arg(long = "cell", value_name = "NAME", value_delimiter = ',', value_parser = super::compare::cells::named)]
    pub cells: Vec<&'static [Cell]>,
    /// How the loads look.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// The folder with Apache Kafka's jars; left out, the cache that `mvn` fills, as the message says where they are missing.
    #[arg(long, value_name = "DIR", env = "KAFKA_LIB")]
    pub kafka_lib: Option<PathBuf>,
    /// Where the clusters keep their files; emptied before each and at the end.
    #[arg(long, value_name = "DIR", default_value = "./millrace-bench")]
    pub dir: PathBuf,
    /// The first of the ports that the clusters use.
    #[arg(long, value_name = "PORT", default_value_t = 19_092, value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    pub port: u16,
}

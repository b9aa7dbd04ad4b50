//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use wire::codec::Codec;

use crate::address::Address;
use crate::bench::args::BenchArgs;
use crate::consume::Template;
use crate::offsets::Place;

/// Millrace: a Kafka-compatible event-streaming platform. This is its operator's command.
#[derive(Debug, Parser)]
#[command(name = "millrace", version, about, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Answer in JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a cluster on this machine and stay until Ctrl-C.
    Up(UpArgs),
    /// Create, list, describe and delete topics.
    Topic {
        /// Which of them.
        #[command(subcommand)]
        command: TopicCommand,
    },
    /// Write the lines of standard input as records.
    Produce(ProduceArgs),
    /// Read records to standard output, alone or in a group.
    Consume(ConsumeArgs),
    /// Show and change configurations of topics and brokers.
    Config {
        /// Which of them.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// List and describe consumer groups.
    Group {
        /// Which of them.
        #[command(subcommand)]
        command: GroupCommand,
    },
    /// Look into the files of a log.
    Log {
        /// Which of them.
        #[command(subcommand)]
        command: LogCommand,
    },
    /// Show the quorum, the brokers, and partitions without a leader or too few in-sync replicas.
    Status(StatusArgs),
    /// Measure throughput, latency and the brokers' CPU; `bench compare` beside Apache Kafka.
    Bench(BenchArgs),
    /// Print every configuration key: what is served, refused and without effect.
    Keys,
    /// Print the completion script of a shell.
    Completion {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Where the cluster is.
#[derive(Debug, Args)]
pub struct Bootstrap {
    /// Brokers to ask, HOST:PORT, separated by commas; the first that answers is taken.
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        env = "MILLRACE_BOOTSTRAP",
        default_value = "127.0.0.1:9092"
    )]
    pub bootstrap: Vec<Address>,
}

/// Options of `up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// How many controllers to start; they are numbered from 101, brokers from 1.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub controllers: u8,
    /// How many brokers to start.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub brokers: u8,
    /// Where everything is kept.
    #[arg(long, value_name = "DIR", default_value = "./millrace-data")]
    pub dir: PathBuf,
    /// Port of the first broker; the other brokers and then the controllers follow, then as many for their metrics.
    #[arg(long, value_name = "PORT", default_value_t = 9092, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// A configuration key for every node; may be repeated. `min.insync.replicas` is taken at the first start only, and
    /// changed with `millrace config set brokers` afterwards.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    pub sets: Vec<(String, String)>,
}

/// What to do with topics.
#[derive(Debug, Subcommand)]
pub enum TopicCommand {
    /// Create a topic.
    Create {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
        /// Its name.
        name: String,
        /// How many partitions; left out, the cluster's default.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// How many replicas; left out, the cluster's default.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
        replication_factor: Option<i16>,
        /// A configuration of the topic; may be repeated.
        #[arg(long = "config", value_name = "KEY=VALUE", value_parser = pair)]
        configs: Vec<(String, String)>,
        /// Succeed where the topic exists already.
        #[arg(long)]
        if_not_exists: bool,
    },
    /// List topics.
    List {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
    },
    /// Show partitions, replicas and configurations of topics.
    Describe {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
        /// Their names; none means all.
        names: Vec<String>,
    },
    /// Delete topics and everything in them.
    Delete {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
        /// Their names.
        #[arg(required = true)]
        names: Vec<String>,
        /// Succeed where a topic does not exist.
        #[arg(long)]
        if_exists: bool,
    },
}

/// Options of `produce`.
#[derive(Debug, Args)]
pub struct ProduceArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub at: Bootstrap,
    /// The topic; it must exist.
    pub topic: String,
    /// What stands between key and value in a line; left out, lines have no key.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub key_separator: Option<String>,
    /// The partition of every record; left out, by key; lines without a key, batch by batch.
    #[arg(long, value_name = "N")]
    pub partition: Option<i32>,
    /// Who must have a record before it counts as written.
    #[arg(long, value_enum, default_value_t = Acks::All)]
    pub acks: Acks,
    /// none, gzip, snappy, lz4 or zstd.
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = crate::produce::codec)]
    pub compression: Codec,
    /// Without a producer id: what is sent again after a lost answer may be written twice.
    #[arg(long)]
    pub no_idempotence: bool,
    /// At most so many records a second.
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub throughput: Option<u64>,
    /// Seconds after which what is not written is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub timeout: u64,
}

/// Who must have a record before it counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Acks {
    /// Every in-sync replica.
    #[value(alias = "-1")]
    All,
    /// The leader.
    #[value(name = "1")]
    Leader,
    /// Nobody: what gets lost is not noticed.
    #[value(name = "0")]
    None,
}

impl Acks {
    /// The number on the wire.
    pub const fn number(self) -> i16 {
        match self {
            Self::All => -1,
            Self::Leader => 1,
            Self::None => 0,
        }
    }
}

/// Options of `consume`.
#[derive(Debug, Args)]
pub struct ConsumeArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub at: Bootstrap,
    /// The topic.
    pub topic: String,
    /// Share the partitions with the other members of this group, and go on where it was.
    #[arg(long, value_name = "GROUP", conflicts_with = "partitions", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub group: Option<String>,
    /// A partition; may be repeated; left out, all.
    #[arg(long = "partition", value_name = "N")]
    pub partitions: Vec<i32>,
    /// Where to begin: beginning, end, OFFSET, -COUNT before the end, @MILLISECONDS since 1970. In a group only where it
    /// has committed nothing.
    #[arg(long, value_name = "PLACE", default_value = "end", allow_hyphen_values = true)]
    pub offset: Place,
    /// The same as `--offset beginning`.
    #[arg(long, conflicts_with = "offset")]
    pub from_beginning: bool,
    /// End after so many records.
    #[arg(long, value_name = "N")]
    pub max_messages: Option<u64>,
    /// End at what is the end of the partitions when reading begins.
    #[arg(long)]
    pub exit_at_end: bool,
    /// End with exit code 1 when no record comes for so long.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// How a record is written: %t topic, %p partition, %o offset, %T time, %k key, %v value, %h headers, \n, \t. Left
    /// out, the value and a line end; with --json, one object a line.
    #[arg(long, value_name = "TEMPLATE")]
    pub format: Option<Template>,
}

impl ConsumeArgs {
    /// Where to begin.
    pub const fn start(&self) -> Place {
        if self.from_beginning {
            Place::Beginning
        } else {
            self.offset
        }
    }
}

/// What to do with configurations.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show what a topic or broker sets itself; with --all, or with keys, what holds.
    Get {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
        /// topic:NAME, broker:ID, or brokers for all of them.
        target: Target,
        /// Keys; none means all.
        keys: Vec<String>,
        /// Also what the resource does not set itself: for a topic or a broker, every key and its default.
        #[arg(long)]
        all: bool,
    },
    /// Change configurations: all of them or, where one is refused, none.
    Set {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
        /// topic:NAME, broker:ID, or brokers for all of them.
        target: Target,
        /// What to change.
        #[command(flatten)]
        change: Change,
        /// Only ask whether it would be taken.
        #[arg(long)]
        validate_only: bool,
    },
}

/// Changes to configurations.
#[derive(Debug, Args)]
pub struct Change {
    /// New values.
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// A key that falls back to what holds otherwise; may be repeated.
    #[arg(long, value_name = "KEY")]
    pub delete: Vec<String>,
    /// Values to add to a list; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub append: Vec<(String, String)>,
    /// Values to take out of a list; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub subtract: Vec<(String, String)>,
}

/// Whose configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A topic's.
    Topic(String),
    /// One broker's.
    Broker(i32),
    /// What holds for every broker that says nothing else.
    Brokers,
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not topic:NAME, broker:ID or brokers");
        match text.split_once(':') {
            Some(("topic", name)) if !name.is_empty() => Ok(Self::Topic(name.to_owned())),
            Some(("broker", id)) => id.parse().map(Self::Broker).map_err(|_| bad()),
            None if text == "brokers" => Ok(Self::Brokers),
            _ => Err(bad()),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "topic:{name}"),
            Self::Broker(id) => write!(f, "broker:{id}"),
            Self::Brokers => f.write_str("brokers"),
        }
    }
}

/// What to do with groups.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// List the groups of all brokers.
    List {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
    },
    /// Show members, committed offsets, log ends and lag.
    Describe {
        /// Where the cluster is.
        #[command(flatten)]
        at: Bootstrap,
        /// Their names.
        #[arg(required = true)]
        groups: Vec<String>,
    },
}

/// What to do with the files of a log.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Print the batches and records of segments; exit code 1 when one is damaged.
    Dump(DumpArgs),
}

/// Options of `log dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Segments: files whose names end in .log, or .log.deleted.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How much is told.
    #[arg(long, value_enum, default_value_t = DumpDetail::Records)]
    pub detail: DumpDetail,
}

/// How much a dump tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DumpDetail {
    /// Batches.
    Batches,
    /// And their records.
    Records,
    /// And keys and values, as text.
    Contents,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub at: Bootstrap,
    /// Controllers to ask about the quorum, HOST:PORT, separated by commas; left out, brokers are asked where they are.
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        env = "MILLRACE_CONTROLLERS"
    )]
    pub controllers: Vec<Address>,
    /// End with exit code 1, and say why, when something is wrong or cannot be asked; with 0 when all is well.
    ///
    /// Wrong is: no controller leads, a controller is silent or serves reads only, a broker is fenced or does not answer for
    /// its disks, a log directory is full or offline, a partition has no leader, or fewer in-sync replicas than
    /// min.insync.replicas. A partition that is not on all of its replicas is shown and not wrong: after a start replicas
    /// catch up, and every write is safe meanwhile.
    #[arg(long)]
    pub check: bool,
    /// Show it again and again until Ctrl-C, every so many seconds; every 2 unless given.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", conflicts_with = "check",
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watch: Option<u64>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn up_starts_three_and_three_in_one_place_unless_told_otherwise() {
        let Command::Up(args) = Cli::parse_from(["millrace", "up"]).command else {
            panic!("up is up")
        };
        assert_eq!((args.controllers, args.brokers, args.port), (3, 3, 9092));
        assert_eq!(args.dir, PathBuf::from("./millrace-data"));
    }

    #[test]
    fn settings_may_be_repeated_and_hold_equals_signs() {
        let line = ["millrace", "up", "--set", "a.b=c=d", "--set", "e="];
        let Command::Up(args) = Cli::parse_from(line).command else {
            panic!("up is up")
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(args.sets, [(text("a.b"), text("c=d")), (text("e"), text(""))]);
    }

    #[test]
    fn several_brokers_may_be_named_and_json_goes_anywhere() {
        let line = [
            "millrace",
            "topic",
            "list",
            "--bootstrap",
            "a:1,[::1]:2",
            "--json",
        ];
        let cli = Cli::parse_from(line);
        let Command::Topic {
            command: TopicCommand::List { at },
        } = cli.command
        else {
            panic!("list is list")
        };
        assert_eq!(
            at.bootstrap.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a:1", "[::1]:2"]
        );
        assert!(cli.json);
    }

    #[test]
    fn whose_configuration_is_said_in_one_word() {
        for text in ["topic:orders", "topic:a:b", "broker:3", "brokers"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_watch_without_seconds_looks_every_two() {
        let Command::Status(args) = Cli::parse_from(["millrace", "status", "--watch"]).command else {
            panic!("status is status")
        };
        assert_eq!(args.watch, Some(2));
    }

    #[test]
    fn an_offset_before_the_end_looks_like_an_option_and_is_none() {
        let line = ["millrace", "consume", "t", "--offset", "-5"];
        let Command::Consume(args) = Cli::parse_from(line).command else {
            panic!("consume is consume")
        };
        assert_eq!(args.start(), Place::BeforeEnd(5));
    }

    #[test]
    fn what_is_not_understood_ends_with_code_two() {
        for line in [
            &["millrace"][..],
            &["millrace", "down"],
            &["millrace", "up", "--set", "novalue"],
            &["millrace", "up", "--brokers", "0"],
            &["millrace", "topic", "delete"],
            &["millrace", "topic", "create", "t", "--partitions", "0"],
            &["millrace", "status", "--bootstrap", "nowhere"],
            &["millrace", "status", "--watch", "--check"],
            &["millrace", "produce"],
            &["millrace", "produce", "t", "--acks", "2"],
            &["millrace", "produce", "t", "--compression", "zip"],
            &["millrace", "consume", "t", "--offset", "middle"],
            &["millrace", "consume", "t", "--group", "g", "--partition", "1"],
            &["millrace", "consume", "t", "--format", "%x"],
            &["millrace", "config", "get", "orders"],
            &["millrace", "config", "set", "broker:x", "a=b"],
            &["millrace", "log", "dump"],
            &["millrace", "completion", "abacus"],
        ] {
            assert_eq!(Cli::try_parse_from(line).unwrap_err().exit_code(), 2, "{line:?}");
        }
    }
}

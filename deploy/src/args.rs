//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::address::Address;

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
    /// Show the quorum, the brokers, and partitions without a leader or too few in-sync replicas.
    Status(StatusArgs),
    /// Print every configuration key: what is served, refused and without effect.
    Keys,
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
    /// How many controllers to start.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub controllers: u8,
    /// How many brokers to start.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub brokers: u8,
    /// Where everything is kept.
    #[arg(long, value_name = "DIR", default_value = "./millrace-data")]
    pub dir: PathBuf,
    /// Port of the first broker; the other brokers and then the controllers follow.
    #[arg(long, value_name = "PORT", default_value_t = 9092, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// A configuration key for every node; may be repeated.
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
    /// End with exit code 1 when something is wrong with what is shown.
    #[arg(long)]
    pub check: bool,
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
    fn what_is_not_understood_ends_with_code_two() {
        for line in [
            &["millrace"][..],
            &["millrace", "down"],
            &["millrace", "up", "--set", "novalue"],
            &["millrace", "up", "--brokers", "0"],
            &["millrace", "topic", "delete"],
            &["millrace", "topic", "create", "t", "--partitions", "0"],
            &["millrace", "status", "--bootstrap", "nowhere"],
        ] {
            assert_eq!(Cli::try_parse_from(line).unwrap_err().exit_code(), 2, "{line:?}");
        }
    }
}

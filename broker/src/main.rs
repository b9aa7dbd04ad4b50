//! `millrace-broker`: reads its configuration, serves, stops in order.
//!
//! Exit codes: 0 after an orderly stop, 1 when the node could not go on, 2 when it could not begin: the configuration is
//! wrong, a port is taken, a directory is another node's. Nothing was changed then.
#![allow(
    clippy::print_stderr,
    reason = "what is wrong at the start is told before there is a log"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use broker::run::{self, Outcome};
use clap::Parser;
use metadata::config::NodeConfig;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Millrace broker.
#[derive(Debug, Parser)]
#[command(name = "millrace-broker", version)]
struct Arguments {
    /// The configuration, in the format of server.properties.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A setting that wins over the file and the environment.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    sets: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Thousands of idle replicas would take several times the memory.
    let small_pages = host::without_huge_pages();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let (filter, reload) = tracing_subscriber::reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(host::stderr_takes_colour());
    tracing_subscriber::registry().with(filter).with(lines).init();
    broker::log_level::install(reload);
    if let Err(error) = small_pages {
        tracing::debug!(%error, "memory may be backed by huge pages, and more of it than is in use");
    }
    let config = match resolve(&arguments) {
        Ok(config) => config,
        Err(lines) => {
            lines.iter().for_each(|line| eprintln!("{line}"));
            return ExitCode::from(2);
        }
    };
    match run::run(config) {
        Outcome::Stopped => ExitCode::SUCCESS,
        Outcome::Failed(why) => {
            eprintln!("millrace-broker: {why}");
            ExitCode::from(1)
        }
        Outcome::NotBegun(lines) => {
            lines.iter().for_each(|line| eprintln!("{line}"));
            ExitCode::from(2)
        }
    }
}

fn resolve(arguments: &Arguments) -> Result<NodeConfig, Vec<String>> {
    let text = match &arguments.config {
        Some(path) => {
            let read = host::read_config_file(path);
            Some(read.map_err(|error| vec![format!("--config {}: {error}", path.display())])?)
        }
        None => None,
    };
    NodeConfig::resolve(text.as_deref(), &host::environment(), &arguments.sets)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

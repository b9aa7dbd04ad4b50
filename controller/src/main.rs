//! `millrace-controller`: reads its configuration, runs a controller, and stops in order on SIGTERM or SIGINT.
//!
//! Ends with 2 when the configuration or what it names is wrong, having said so in one line each and changed nothing;
//! with 1 when it cannot go on; with 0 when it was asked to stop.
#![allow(
    clippy::print_stderr,
    reason = "what is wrong at the start is told before there is a log"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use controller::node::{Machine, Node};
use host::{Clock, OsClock, OsDisk, OsEntropy};
use metadata::config::{ControllerSettings, NodeConfig};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

const WRONG: u8 = 2;
/// The consensus library tells much that is no change of state of the node.
const LOG_DEFAULT: &str = "info,openraft=error,sled=warn";

/// A Millrace controller.
#[derive(Parser)]
#[command(name = "millrace-controller", version)]
struct Args {
    /// Configuration in Kafka's format (server.properties).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One more setting; stronger than MILLRACE_CONF_* variables, which are stronger than the file.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    sets: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is expected")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// Lines for the operator, and that nothing was started.
struct Wrong(Vec<String>);

fn main() -> ExitCode {
    let args = Args::parse();
    let (config, settings) = match configuration(&args) {
        Ok(read) => read,
        Err(Wrong(lines)) => {
            lines.iter().for_each(|line| eprintln!("{line}"));
            return ExitCode::from(WRONG);
        }
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_DEFAULT));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(host::stderr_takes_colour())
        .with_target(false)
        .init();
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(&settings, config)),
        Err(fault) => {
            eprintln!("no runtime: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn configuration(args: &Args) -> Result<(Arc<NodeConfig>, ControllerSettings), Wrong> {
    let environment = host::environment();
    #[cfg(feature = "mutants")]
    if let Some((_, name)) = environment.iter().find(|(key, _)| key == "MILLRACE_MUTANT")
        && !controller::mutants::select(name)
    {
        return Err(Wrong(vec![format!(
            "MILLRACE_MUTANT={name}: there is none of that name"
        )]));
    }
    let text = match &args.config {
        None => None,
        Some(path) => {
            let read = host::read_config_file(path);
            Some(read.map_err(|fault| Wrong(vec![format!("--config {}: {fault}", path.display())]))?)
        }
    };
    let lines =
        |errors: Vec<metadata::config::ConfigError>| Wrong(errors.iter().map(ToString::to_string).collect());
    let config = NodeConfig::resolve(text.as_deref(), &environment, &args.sets).map_err(lines)?;
    let settings = ControllerSettings::from_config(&config).map_err(lines)?;
    Ok((Arc::new(config), settings))
}

async fn run(settings: &ControllerSettings, config: Arc<NodeConfig>) -> ExitCode {
    let clock = Arc::new(OsClock::new());
    let began = clock.now();
    let machine = Machine {
        disk: Arc::new(OsDisk),
        clock: clock.clone(),
        entropy: Arc::new(OsEntropy),
    };
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        eprintln!("signals cannot be waited for");
        return ExitCode::FAILURE;
    };
    let mut node = match Node::start(settings, config, machine).await {
        Ok(node) => node,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(WRONG);
        }
    };
    let start_ms = clock.now().since(began).as_millis();
    tracing::info!(id = %settings.node_id, addresses = ?node.addresses(), start_ms, "ready");
    tokio::select! {
        why = node.died() => {
            tracing::error!(why, "cannot go on");
            return ExitCode::FAILURE;
        }
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
    node.stop().await;
    tracing::info!("stopped");
    ExitCode::SUCCESS
}

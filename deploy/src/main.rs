//! Entry point: reads the command line, carries it out, and says by the exit code how it ended.

use std::process::ExitCode;

use clap::Parser as _;
use millrace::args::{Cli, Command};
use millrace::outcome::Failure;
use millrace::terminal::tell;
use millrace::topic::Style;
use millrace::{keys, status, topic, up};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let style = if cli.json { Style::Json } else { Style::Text };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(&cli.command, style)),
        Err(error) => Err(Failure::machine("no threads to run on", &error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if style == Style::Json {
                tell(&serde_json::json!({ "error": failure.to_string() }).to_string());
            } else {
                failure
                    .to_string()
                    .lines()
                    .for_each(|line| tell(&format!("millrace: {line}")));
            }
            ExitCode::from(failure.code())
        }
    }
}

async fn run(command: &Command, style: Style) -> Result<(), Failure> {
    match command {
        Command::Up(args) => up::run(args, style).await,
        Command::Topic { command } => topic::run(command, style).await,
        Command::Status(args) => status::run(args, style).await,
        Command::Keys => {
            keys::run(style);
            Ok(())
        }
    }
}

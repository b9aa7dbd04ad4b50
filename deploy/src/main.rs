//! Entry point: reads the command line, carries it out, and says by the exit code how it ended.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use millrace::args::{Cli, Command, LogCommand};
use millrace::outcome::Failure;
use millrace::terminal::{self, Answers, tell};
use millrace::topic::Style;
use millrace::{bench, config, consume, group, keys, produce, segment, status, topic, up};

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
        Err(failure @ Failure::ReaderGone) => ExitCode::from(failure.code()),
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
    carry_out(command, style).await?;
    match command {
        // The cluster is not there for whoever read where it is, and a reader of records may have had enough.
        Command::Up(_) | Command::Consume(_) => Ok(()),
        _ => terminal::delivered(),
    }
}

async fn carry_out(command: &Command, style: Style) -> Result<(), Failure> {
    match command {
        Command::Up(args) => up::run(args, style).await,
        Command::Topic { command } => topic::run(command, style).await,
        Command::Produce(args) => produce::run(args, style).await,
        Command::Consume(args) => consume::run(args, style).await,
        Command::Config { command } => config::run(command, style).await,
        Command::Group { command } => group::run(command, style).await,
        Command::Log {
            command: LogCommand::Dump(args),
        } => segment::run(args, style),
        Command::Status(args) => status::run(args, style).await,
        Command::Bench(args) => bench::run(args, style).await,
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "millrace", &mut script);
            // Why it was not taken is remembered.
            let _ = Answers.write_all(&script);
            Ok(())
        }
        Command::Keys => {
            keys::run(style);
            Ok(())
        }
    }
}

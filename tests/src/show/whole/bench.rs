//! `millrace bench compare`: that every cell is measured on both systems, the client is not the limit, and where we
//! stand. How good is good enough stands in the issues; here only what would make the figures worthless fails a row.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::binaries::binary;
use crate::kafka;
use crate::show::{Board, at_least};

/// The names of all cells, as `--cell` takes them.
const CELLS: [&str; 8] = [
    "rf1-100b-full",
    "rf1-100b-half",
    "rf1-1k-full",
    "rf1-1k-half",
    "rf3-100b-full",
    "rf3-100b-half",
    "rf3-1k-full",
    "rf3-1k-half",
];

/// How long all of it may take.
const MINUTES_MAX: u64 = 30;

/// One row a cell, from one run of the command; and one for the run.
pub fn rows(board: &mut Board) {
    if !board.wants_some_of("bench") {
        return;
    }
    let wanted: Vec<&str> = CELLS
        .into_iter()
        .filter(|cell| board.wants(&format!("bench {cell}")))
        .collect();
    let mut compared = None;
    board.row("bench compare", || {
        let began = Instant::now();
        let (all, shown) = compare(&wanted)?;
        let minutes = began.elapsed().as_secs() / 60;
        ensure!(
            minutes < MINUTES_MAX,
            "{minutes} minutes, {MINUTES_MAX} are allowed"
        );
        let summary = all["summary"].as_array().context("a summary")?;
        let lines: Vec<&str> = summary.iter().filter_map(Value::as_str).collect();
        let figure = format!("{minutes} minutes, {} cells\n{}", wanted.len(), lines.join("\n"));
        compared = Some(all);
        Ok(format!("{figure}\n{shown}"))
    });
    for cell in wanted {
        let all = compared.as_ref();
        board.row(&format!("bench {cell}"), || {
            judged(all.context("nothing was compared")?, cell)
        });
    }
}

fn compare(cells: &[&str]) -> Result<(Value, String)> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(binary("millrace")?);
    command.args(["bench", "compare", "--json", "--cell", &cells.join(",")]);
    command
        .arg("--dir")
        .arg(folder.path())
        .env("KAFKA_LIB", kafka::jars()?);
    let output = command.stderr(Stdio::piped()).output()?;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}\n{complaints}", output.status);
    let all: Value = serde_json::from_slice(&output.stdout).context("what the command prints")?;
    let starts = all["starts"].as_array().context("starts")?;
    let lines = starts.iter().map(|start| {
        format!(
            "start of {}, {} brokers: {:.2} s",
            start["system"],
            start["brokers"],
            start["seconds"].as_f64().unwrap_or(-1.0)
        )
    });
    Ok((all.clone(), lines.collect::<Vec<_>>().join("\n")))
}

/// The figures of a cell: twice of each system, of enough records.
fn judged(all: &Value, cell: &str) -> Result<String> {
    let cells = all["cells"].as_array().context("cells")?;
    let outcome = cells
        .iter()
        .find(|one| one["cell"] == cell)
        .context("the cell is missing")?;
    let figures = outcome["figures"].as_array().context("figures")?;
    let mut lines = Vec::new();
    for figure in figures {
        let values = |system: &str| -> Vec<f64> {
            let all = figure[system].as_array().into_iter().flatten();
            all.filter_map(Value::as_f64).collect()
        };
        let (theirs, ours) = (values("kafka"), values("millrace"));
        ensure!(
            theirs.len() == 2 && ours.len() == 2,
            "{figure}: not measured twice on both"
        );
        let name = figure["figure"].as_str().unwrap_or_default();
        if name == "records/s acknowledged" {
            let least = theirs
                .iter()
                .chain(&ours)
                .fold(f64::MAX, |least, value| least.min(*value));
            at_least("records/s", least as u64, 1000_u64)?;
        }
        let ratio = figure["times_better"].as_f64();
        if let Some(ratio) = ratio {
            lines.push(format!(
                "{name}: {ratio:.2} times better ({ours:.2?} instead of {theirs:.2?})"
            ));
        }
    }
    ensure!(6 <= lines.len(), "only {} figures of {cell}", lines.len());
    Ok(lines.join("\n"))
}

//! What a comparison comes to: the figures of both systems side by side, and how many times better ours are.

use serde_json::{Value, json};

use super::cells::{Cell, Drive};
use super::systems::System;
use crate::bench::args::ShapeArgs;
use crate::bench::load::{Load, Measured};
use crate::bench::report::{Better, Figure, described, figures, number};
use crate::table::{counted, table};

/// By which figure cells are put in order.
const HEADLINES: [&str; 2] = ["records/s acknowledged", "end to end p99 ms"];

/// One start of a cluster.
#[derive(Debug, Clone)]
pub struct Start {
    /// Whose.
    pub system: System,
    /// How many brokers, and as many controllers.
    pub replicas: u8,
    /// How long it took.
    pub seconds: f64,
    /// Memory of all its processes together, when it served.
    pub rss_bytes: Option<u64>,
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Comparison {
    shape: ShapeArgs,
    cells: Vec<CellOutcome>,
    /// All starts, in order.
    pub starts: Vec<Start>,
    /// What each system's broker was told, by the number of brokers.
    pub configurations: Vec<(System, u8, Vec<String>)>,
}

#[derive(Debug)]
struct CellOutcome {
    cell: Cell,
    load: Vec<String>,
    runs: Vec<(System, Vec<Figure>)>,
}

/// One figure of both systems.
#[derive(Debug, Clone, PartialEq)]
struct Pair {
    name: &'static str,
    kafka: Vec<f64>,
    millrace: Vec<f64>,
    /// How many times better ours is, of the means; below 1 it is worse.
    ratio: Option<f64>,
}

/// A run in a few words, while others go on.
pub fn brief(load: &Load, measured: &Measured) -> String {
    let shown = figures(load, measured);
    let few = shown.iter().filter(|one| {
        one.name.contains("records/s") || one.name.contains("p99 ms") || one.name.contains("brokers' CPU")
    });
    few.map(|one| format!("{} {}", number(one.value), one.name))
        .collect::<Vec<_>>()
        .join(", ")
}

impl Comparison {
    /// Of these cells; nothing is measured yet.
    pub fn new(cells: &[Cell], shape: &ShapeArgs) -> Self {
        let cells = cells.iter().map(|cell| CellOutcome {
            cell: *cell,
            load: Vec::new(),
            runs: Vec::new(),
        });
        Self {
            shape: shape.clone(),
            cells: cells.collect(),
            starts: Vec::new(),
            configurations: Vec::new(),
        }
    }

    /// Takes a run.
    pub fn add(&mut self, cell: &Cell, system: System, load: &Load, measured: &Measured) {
        if let Some(outcome) = self.cells.iter_mut().find(|one| one.cell == *cell) {
            outcome.load = described(load);
            outcome.runs.push((system, figures(load, measured)));
        }
    }

    /// As lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.configuration_lines();
        lines.extend(self.start_lines());
        for outcome in &self.cells {
            lines.push(String::new());
            lines.push(format!(
                "{}: 12 partitions, {}",
                outcome.cell.name,
                counted(outcome.cell.replicas, "broker")
            ));
            lines.extend(outcome.load.iter().map(|line| format!("  {line}")));
            let rows: Vec<Vec<String>> = outcome.pairs().iter().map(row).collect();
            let heading = ["figure", "Apache Kafka", "Millrace", "times better"];
            lines.extend(table(&heading, &rows).iter().map(|line| format!("  {line}")));
        }
        lines.push(String::new());
        lines.extend(self.summary());
        lines
    }

    fn configuration_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (system, replicas, configuration) in &self.configurations {
            lines.push(format!(
                "{}, {} and {}; broker 1:",
                system.name(),
                counted(*replicas, "broker"),
                counted(*replicas, "controller")
            ));
            lines.extend(configuration.iter().map(|line| format!("  {line}")));
        }
        lines.push(format!(
            "rounds: Apache Kafka, Millrace, Apache Kafka, Millrace, each on an empty disk and alone; {} s of every \
             load before {} s that count",
            self.shape.warm_up, self.shape.seconds
        ));
        lines.push(String::new());
        lines
    }

    fn start_lines(&self) -> Vec<String> {
        let row = |start: &Start| {
            let memory = start.rss_bytes.map_or_else(
                || "-".to_owned(),
                |bytes| number(bytes as f64 / f64::from(1 << 20)),
            );
            vec![
                start.system.name().to_owned(),
                start.replicas.to_string(),
                number(start.seconds),
                memory,
            ]
        };
        let rows: Vec<_> = self.starts.iter().map(row).collect();
        table(
            &[
                "start of",
                "brokers",
                "seconds to serving",
                "MiB of all processes",
            ],
            &rows,
        )
    }

    fn summary(&self) -> Vec<String> {
        let mut ranked: Vec<(&str, Pair)> = self
            .cells
            .iter()
            .filter_map(|outcome| Some((outcome.cell.name, outcome.headline()?)))
            .collect();
        ranked.sort_by(|(_, one), (_, other)| {
            one.ratio
                .partial_cmp(&other.ratio)
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let line = |what: &str, (name, pair): &(&str, Pair)| {
            let ratio = pair.ratio.map_or_else(|| "-".to_owned(), number);
            format!("{what} cell: {name}, {} {ratio} times better", pair.name)
        };
        match ranked.as_slice() {
            [] => Vec::new(),
            [only] => vec![line("only", only)],
            [worst, .., best] => vec![line("worst", worst), line("best", best)],
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let pair = |pair: &Pair| json!({ "figure": pair.name, "kafka": pair.kafka, "millrace": pair.millrace, "times_better": pair.ratio });
        let cells = self.cells.iter().map(|outcome| {
            let pairs: Vec<Value> = outcome.pairs().iter().map(pair).collect();
            json!({ "cell": outcome.cell.name, "load": outcome.load, "figures": pairs })
        });
        let starts = self.starts.iter().map(|start| {
            json!({
                "system": start.system.name(),
                "brokers": start.replicas,
                "seconds": start.seconds,
                "rss_bytes": start.rss_bytes,
            })
        });
        let configurations = self.configurations.iter().map(|(system, replicas, lines)| {
            json!({ "system": system.name(), "brokers": replicas, "configuration": lines })
        });
        json!({
            "cells": cells.collect::<Vec<_>>(),
            "starts": starts.collect::<Vec<_>>(),
            "configurations": configurations.collect::<Vec<_>>(),
            "summary": self.summary(),
        })
    }
}

impl CellOutcome {
    fn pairs(&self) -> Vec<Pair> {
        let first = self
            .runs
            .first()
            .map(|(_, figures)| figures.as_slice())
            .unwrap_or_default();
        first.iter().map(|figure| self.pair(figure)).collect()
    }

    fn pair(&self, figure: &Figure) -> Pair {
        let of = |system: System| -> Vec<f64> {
            let runs = self.runs.iter().filter(|(ran, _)| *ran == system);
            runs.flat_map(|(_, figures)| figures.iter().filter(|one| one.name == figure.name))
                .map(|one| one.value)
                .collect()
        };
        let (kafka, millrace) = (of(System::Kafka), of(System::Millrace));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (good, bad) = match figure.better {
            Better::More => (mean(&millrace), mean(&kafka)),
            Better::Less => (mean(&kafka), mean(&millrace)),
        };
        // The client's own cost says how much the figures are worth, not which system is better.
        let judged = !figure.name.starts_with("this client") && !kafka.is_empty() && !millrace.is_empty();
        let ratio = (judged && 0.0 < bad).then_some(good / bad);
        Pair {
            name: figure.name,
            kafka,
            millrace,
            ratio,
        }
    }

    fn headline(&self) -> Option<Pair> {
        let wanted = match self.cell.drive {
            Drive::Full => HEADLINES[0],
            Drive::Half => HEADLINES[1],
        };
        self.pairs()
            .into_iter()
            .find(|pair| pair.name == wanted && pair.ratio.is_some())
    }
}

fn row(pair: &Pair) -> Vec<String> {
    let shown = |values: &[f64]| {
        values
            .iter()
            .map(|value| number(*value))
            .collect::<Vec<_>>()
            .join(" / ")
    };
    let ratio = pair.ratio.map_or_else(|| "-".to_owned(), number);
    vec![
        pair.name.to_owned(),
        shown(&pair.kafka),
        shown(&pair.millrace),
        ratio,
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use crate::bench::compare::cells::CELLS;

    fn outcome(
        cell: usize,
        name: &'static str,
        better: Better,
        kafka: &[f64],
        millrace: &[f64],
    ) -> CellOutcome {
        let run = |system, value: &f64| {
            (
                system,
                vec![Figure {
                    name,
                    value: *value,
                    better,
                }],
            )
        };
        let mut runs: Vec<_> = kafka.iter().map(|value| run(System::Kafka, value)).collect();
        runs.extend(millrace.iter().map(|value| run(System::Millrace, value)));
        CellOutcome {
            cell: CELLS[cell],
            load: vec![],
            runs,
        }
    }

    #[test]
    fn more_is_better_or_less_is_and_the_means_are_compared() {
        let rate = outcome(0, HEADLINES[0], Better::More, &[100.0, 300.0], &[400.0, 400.0])
            .headline()
            .unwrap();
        assert_eq!(rate.ratio, Some(2.0));
        let time = outcome(1, HEADLINES[1], Better::Less, &[4.0, 6.0], &[10.0, 10.0])
            .headline()
            .unwrap();
        assert_eq!(time.ratio, Some(0.5));
    }

    #[test]
    fn the_clients_own_cost_is_shown_and_not_judged() {
        let own = outcome(
            0,
            "this client's CPU s per million records",
            Better::Less,
            &[1.0],
            &[2.0],
        );
        assert_eq!(own.pairs()[0].ratio, None);
    }

    #[test]
    fn the_worst_and_the_best_cell_are_named() {
        let shape = <crate::args::Cli as clap::Parser>::parse_from(["millrace", "bench"]);
        let crate::args::Command::Bench(args) = shape.command else {
            panic!("bench is bench")
        };
        let mut comparison = Comparison::new(&[], &args.run.shape);
        comparison.cells = vec![
            outcome(0, HEADLINES[0], Better::More, &[100.0], &[300.0]),
            outcome(1, HEADLINES[1], Better::Less, &[5.0], &[10.0]),
        ];
        assert_eq!(
            comparison.summary(),
            [
                "worst cell: rf1-100b-half, end to end p99 ms 0.50 times better",
                "best cell: rf1-100b-full, records/s acknowledged 3.00 times better"
            ]
        );
    }
}

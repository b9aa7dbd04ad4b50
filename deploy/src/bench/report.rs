//! What was measured, for people and for scripts.

use serde_json::{Value, json};

use super::figures::Quantiles;
use super::load::{Cost, Load, Measured};
use crate::table::table;

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The more the better.
    More,
    /// The less the better.
    Less,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: &'static str,
    /// How much.
    pub value: f64,
    /// Which way it is good.
    pub better: Better,
}

/// The figures of a load, those that people ask for first in front.
pub fn figures(load: &Load, measured: &Measured) -> Vec<Figure> {
    let mut all = vec![figure(
        "records/s acknowledged",
        measured.records as f64 / measured.seconds,
        Better::More,
    )];
    let names = match load.rate {
        Some(_) => [
            "ack p50 ms, from due",
            "ack p99 ms, from due",
            "ack p99.9 ms, from due",
            "ack max ms, from due",
        ],
        None => [
            "ack p50 ms, from sent",
            "ack p99 ms, from sent",
            "ack p99.9 ms, from sent",
            "ack max ms, from sent",
        ],
    };
    all.extend(times(names, measured.ack));
    let names = [
        "end to end p50 ms",
        "end to end p99 ms",
        "end to end p99.9 ms",
        "end to end max ms",
    ];
    all.extend(times(names, measured.end_to_end));
    let names = [
        "brokers' CPU s per million records",
        "this client's CPU s per million records",
    ];
    all.extend(cost(names, &measured.cost, measured.records));
    all.extend(rss(&measured.cost));
    if let Some(read) = &measured.read {
        all.push(figure(
            "records/s read",
            read.records as f64 / read.seconds,
            Better::More,
        ));
        let names = [
            "brokers' CPU s per million read",
            "this client's CPU s per million read",
        ];
        all.extend(cost(names, &read.cost, read.records));
    }
    all
}

const fn figure(name: &'static str, value: f64, better: Better) -> Figure {
    Figure { name, value, better }
}

fn times(names: [&'static str; 4], quantiles: Option<Quantiles>) -> Vec<Figure> {
    let Some(one) = quantiles else { return Vec::new() };
    let values = [one.p50_ms, one.p99_ms, one.p999_ms, one.max_ms];
    names
        .into_iter()
        .zip(values)
        .map(|(name, value)| figure(name, value, Better::Less))
        .collect()
}

fn cost(names: [&'static str; 2], cost: &Cost, records: u64) -> Vec<Figure> {
    let millions = records as f64 / 1e6;
    let each = names.into_iter().zip([cost.brokers_cpu, cost.own_cpu]);
    each.filter_map(|(name, cpu)| Some(figure(name, cpu? / millions, Better::Less)))
        .collect()
}

fn rss(cost: &Cost) -> Option<Figure> {
    Some(figure(
        "brokers' memory MiB",
        cost.brokers_rss? as f64 / f64::from(1 << 20),
        Better::Less,
    ))
}

/// What was done, in words.
pub fn described(load: &Load) -> Vec<String> {
    let shape = &load.shape;
    let rate = load.rate.map_or_else(
        || {
            format!(
                "as many records as it takes, {} requests in flight to each broker",
                shape.in_flight
            )
        },
        |rate| {
            format!(
                "{rate} records/s, due evenly, linger {} ms, at most {} requests in flight",
                shape.linger_ms, shape.in_flight
            )
        },
    );
    let idempotent = match (shape.acks, shape.no_idempotence) {
        (crate::args::Acks::All, false) => "idempotent",
        _ => "not idempotent",
    };
    vec![
        format!(
            "values of {} bytes, batches up to {} bytes, not compressed; {rate}",
            load.record_size, shape.batch_size
        ),
        format!(
            "acks={}, {idempotent}; {} s measured after {} s of the same",
            shape.acks.number(),
            shape.seconds,
            shape.warm_up
        ),
    ]
}

/// As lines.
pub fn lines(load: &Load, measured: &Measured) -> Vec<String> {
    let mut lines = described(load);
    let rows: Vec<Vec<String>> = figures(load, measured)
        .iter()
        .map(|figure| vec![figure.name.to_owned(), number(figure.value)])
        .collect();
    lines.extend(table(&["figure", ""], &rows));
    if measured.cost.brokers_cpu.is_none() {
        lines.push(
            "the brokers' CPU is unknown: name their processes with --pid, or their pages with --metrics"
                .into(),
        );
    }
    lines
}

/// As JSON.
pub fn json(load: &Load, measured: &Measured) -> Value {
    let all = figures(load, measured);
    let figures: serde_json::Map<String, Value> = all
        .iter()
        .map(|figure| (figure.name.to_owned(), figure.value.into()))
        .collect();
    json!({ "load": described(load), "seconds": measured.seconds, "records": measured.records, "figures": figures })
}

/// Three digits that matter, and thousands told apart.
pub fn number(value: f64) -> String {
    match value.abs() {
        small if small < 0.1 => format!("{value:.4}"),
        few if few < 10.0 => format!("{value:.2}"),
        some if some < 1000.0 => format!("{value:.1}"),
        _ => {
            let digits = format!("{value:.0}");
            let groups: Vec<&str> = digits
                .as_bytes()
                .rchunks(3)
                .rev()
                .map(|group| std::str::from_utf8(group).unwrap_or_default())
                .collect();
            groups.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_what_matters_of_them() {
        let shown = [0.012_34, 1.234, 56.78, 1_234_567.8].map(number);
        assert_eq!(shown, ["0.0123", "1.23", "56.8", "1,234,568"]);
    }
}

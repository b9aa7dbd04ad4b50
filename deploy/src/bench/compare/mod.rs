//! `millrace bench compare`: Apache Kafka and Millrace on this machine, in turn and twice each, under the same load.
//!
//! Only one of them runs at a time. Both get the same configuration, the same load, the same warm-up; what is printed
//! says all of it, so that a reader can judge.

pub mod cells;
mod outcome;
mod systems;

use std::collections::BTreeMap;
use std::path::PathBuf;

use host::{Disk as _, OsDisk};

use super::args::{CompareArgs, ShapeArgs};
use super::load::{self, Load, Measured};
use super::topic;
use crate::outcome::Failure;
use crate::table::counted;
use crate::terminal::{say, say_json, tell};
use crate::topic::Style;

use cells::{CELLS, Cell, Drive};
use outcome::{Comparison, Start};
use systems::{Ground, KAFKA, Running, System};

/// Partitions of every topic.
const PARTITIONS: i32 = 12;

/// In which order the systems run.
const ROUNDS: [System; 4] = [System::Kafka, System::Millrace, System::Kafka, System::Millrace];

/// Compares and shows.
///
/// # Errors
/// With exit code 2 where Apache Kafka's jars are missing; else when a cluster does not serve or loses a record.
pub async fn run(args: &CompareArgs, style: Style) -> Result<(), Failure> {
    let here = std::env::current_dir().map_err(|error| Failure::machine("the current directory", &error))?;
    let ground = Ground {
        jars: jars(args)?,
        dir: here.join(&args.dir),
        port: args.port,
    };
    let chosen: Vec<Cell> = match args.cells.is_empty() {
        true => CELLS.to_vec(),
        false => CELLS
            .iter()
            .filter(|cell| args.cells.iter().any(|some| some.contains(cell)))
            .copied()
            .collect(),
    };
    let mut comparison = Comparison::new(&chosen, &args.shape);
    for replicas in [1, 3] {
        let cells: Vec<Cell> = chosen
            .iter()
            .filter(|cell| cell.replicas == replicas)
            .copied()
            .collect();
        if cells.is_empty() {
            continue;
        }
        for system in [System::Kafka, System::Millrace] {
            comparison
                .configurations
                .push((system, replicas, ground.configuration(system, replicas)?));
        }
        let mut rates = BTreeMap::new();
        for (round, system) in ROUNDS.into_iter().enumerate() {
            tell(&format!(
                "round {} of {}, {}: {}",
                round + 1,
                ROUNDS.len(),
                counted(replicas, "broker"),
                system.name()
            ));
            let running = ground.start(system, replicas).await?;
            comparison.starts.push(Start {
                system,
                replicas,
                seconds: running.start_seconds,
                rss_bytes: running.everything.usage().map(|usage| usage.rss_bytes),
            });
            let ended = round_of(&running, system, &cells, &args.shape, &mut rates, &mut comparison).await;
            running.stop().await?;
            ended?;
        }
    }
    match style {
        Style::Json => say_json(&comparison.json()),
        Style::Text => comparison.lines().iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// All cells of one topology on one system.
async fn round_of(
    running: &Running,
    system: System,
    cells: &[Cell],
    shape: &ShapeArgs,
    rates: &mut BTreeMap<usize, u64>,
    comparison: &mut Comparison,
) -> Result<(), Failure> {
    for cell in cells {
        if cell.drive == Drive::Half && !rates.contains_key(&cell.record_size) {
            // Its full load was not asked for, but half of it must be known.
            let full = Cell {
                drive: Drive::Full,
                ..*cell
            };
            let (_, measured) = one(running, &full, shape, None).await?;
            rates.insert(cell.record_size, half_of(&measured));
        }
        let rate = match cell.drive {
            Drive::Full => None,
            Drive::Half => rates.get(&cell.record_size).copied(),
        };
        let (load, measured) = one(running, cell, shape, rate).await?;
        if cell.drive == Drive::Full {
            rates
                .entry(cell.record_size)
                .or_insert_with(|| half_of(&measured));
        }
        tell(&format!("  {}: {}", cell.name, outcome::brief(&load, &measured)));
        comparison.add(cell, system, &load, &measured);
    }
    Ok(())
}

fn half_of(measured: &Measured) -> u64 {
    ((measured.records as f64 / measured.seconds / 2.0) as u64).max(1)
}

async fn one(
    running: &Running,
    cell: &Cell,
    shape: &ShapeArgs,
    rate: Option<u64>,
) -> Result<(Load, Measured), Failure> {
    let load = Load {
        record_size: cell.record_size,
        rate,
        shape: shape.clone(),
    };
    let name = topic::ensure(&running.bootstrap, None, PARTITIONS, i16::from(cell.replicas)).await?;
    let measured = load::run(&running.bootstrap, &name, &load, &running.brokers).await?;
    topic::delete(&running.bootstrap, &name).await?;
    Ok((load, measured))
}

/// The folder with Apache Kafka's jars.
fn jars(args: &CompareArgs) -> Result<PathBuf, Failure> {
    let environment: BTreeMap<String, String> = host::environment().into_iter().collect();
    let cache = environment.get("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        environment
            .get("HOME")
            .map(|home| PathBuf::from(home).join(".cache"))
    });
    let cached = || cache.map(|cache| cache.join(format!("millrace/kafka-{KAFKA}")));
    let missing = |line: String| Failure::Usage(vec![line]);
    let folder = args.kafka_lib.clone().or_else(cached);
    let folder =
        folder.ok_or_else(|| missing("--kafka-lib: name the folder with Apache Kafka's jars".into()))?;
    let wanted = format!("kafka_2.13-{KAFKA}.jar");
    let found = OsDisk
        .list(&folder)
        .is_ok_and(|entries| entries.iter().any(|entry| entry.name == wanted));
    if found {
        return Ok(folder);
    }
    Err(missing(format!(
        "{wanted} is not in {folder}; name its folder with --kafka-lib or KAFKA_LIB, or fetch it and what it needs, in \
         Millrace's source: mvn -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory={folder}",
        folder = folder.display()
    )))
}

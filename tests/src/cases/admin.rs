//! Names and assignments from hell: BC-154.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::expect;
use crate::ask;
use crate::cluster::Cluster;
use crate::raw::Connection;
use crate::raw::requests::{NewTopic, code};

/// BC-154: topics that must not be made, and nothing outside the data directories.
pub fn names_from_hell(cluster: &Cluster) -> Result<String> {
    let bootstrap = cluster.bootstrap();
    let outside = entries(cluster.folder())?;
    let mut connection = Connection::open(bootstrap.split(',').next().context("an address")?)?;
    let mut create = |topic: NewTopic| -> Result<i16> {
        Ok(connection
            .create_topics(&[topic])?
            .first()
            .context("an answer")?
            .1)
    };
    let long = "x".repeat(250);
    for name in ["..", ".", "a/b", &long, "", "a b", "a\0b", "../../escape"] {
        let what = format!("{:?}", &name[..name.len().min(20)]);
        expect(
            &what,
            create(NewTopic::new(name, 1, 1))?,
            &[code::INVALID_TOPIC_EXCEPTION],
        )?;
    }
    ask::create(&bootstrap, NewTopic::new("bc.154", 1, 1))?;
    let clash = create(NewTopic::new("bc_154", 1, 1))?;
    expect(
        "a name that differs by a dot",
        clash,
        &[code::INVALID_TOPIC_EXCEPTION],
    )?;
    expect(
        "the same name again",
        create(NewTopic::new("bc.154", 1, 1))?,
        &[code::TOPIC_ALREADY_EXISTS],
    )?;
    let holes = NewTopic::new("bc-154-holes", 2, 1).on(&[(0, &[1]), (2, &[1])]);
    expect(
        "partitions 0 and 2",
        create(holes)?,
        &[code::INVALID_REPLICA_ASSIGNMENT],
    )?;
    let twice = NewTopic::new("bc-154-twice", 1, 1).on(&[(0, &[1, 1])]);
    expect(
        "a replica twice",
        create(twice)?,
        &[code::INVALID_REPLICA_ASSIGNMENT],
    )?;
    expect(
        "no partitions",
        create(NewTopic::new("bc-154-zero", 0, 1))?,
        &[code::INVALID_PARTITIONS],
    )?;
    let absurd = NewTopic::new("bc-154-config", 1, 1).with("retention.ms", "soon");
    expect(
        "a config of the wrong type",
        create(absurd)?,
        &[code::INVALID_CONFIG],
    )?;
    ensure!(
        entries(cluster.folder())? == outside,
        "something was written outside the data directories"
    );
    Ok("14 requests refused, nothing outside the data directories".to_owned())
}

/// The names right below `folder`.
fn entries(folder: &Path) -> Result<Vec<String>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

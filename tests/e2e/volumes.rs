//! Volumes as file systems, operators and power cuts leave them: BC-046, BC-047, BC-084, BC-085.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tests::binaries::binary;
use tests::cluster::{Cluster, NodeId, broker};
use tests::raw::Connection;
use tests::raw::batch::Batch;
use tests::raw::requests::NewTopic;
use tests::{ask, clients, wait};

const LIMIT: Duration = Duration::from_secs(60);
/// Where a batch holds its length, and where its format.
const LENGTH_AT: usize = 8;
const MAGIC_AT: usize = 16;

/// BC-046: what a file system puts into the root of a volume, and what people leave there, is nobody's business.
#[test]
fn a_volume_may_hold_what_is_no_log() {
    let mut cluster = Cluster::builder().start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("orders", 1, 1)).unwrap();
    clients::kcat_produce(&bootstrap, "orders", "none", b"one\n").unwrap();
    cluster.term(broker(1)).unwrap();
    let data = cluster.data(broker(1)).unwrap();
    // The last one was once taken for `orders-0`, which then lay in one directory twice.
    for name in ["lost+found", "foo", ".snapshot", "orders-000"] {
        fs::create_dir(data.join(name)).unwrap();
    }
    fs::write(data.join("a stray file"), b"left here").unwrap();
    let mode = |mode| fs::set_permissions(data.join("lost+found"), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o000);

    cluster.start(broker(1)).unwrap();
    cluster.wait_until_serving().unwrap();

    let read = clients::kcat_consume(&bootstrap, "orders", 0, 1).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), "one\n");
    for name in ["lost+found", "foo", ".snapshot", "orders-000", "a stray file"] {
        assert!(data.join(name).exists(), "{name} is gone");
    }
    mode(0o700);
}

/// BC-047: a volume of another node or another cluster ends the start, and is left as it is.
#[test]
fn a_volume_of_somebody_else_is_left_as_it_is() {
    let mut cluster = Cluster::builder().brokers(2).start().unwrap();
    ask::create(&cluster.bootstrap(), NewTopic::new("orders", 2, 2)).unwrap();
    for id in cluster.brokers() {
        cluster.term(id).unwrap();
    }
    let (first, second) = (cluster.data(broker(1)).unwrap(), cluster.data(broker(2)).unwrap());
    let aside = cluster.folder().join("aside");
    fs::rename(&first, &aside).unwrap();
    fs::rename(&second, &first).unwrap();
    fs::rename(&aside, &second).unwrap();
    for id in cluster.brokers() {
        let before = files(&cluster.data(id).unwrap());
        refuses(&begin(&cluster, id), "belongs to node");
        assert_eq!(files(&cluster.data(id).unwrap()), before, "broker {id}");
    }

    let identity = second.join("meta.properties");
    let text = fs::read_to_string(&identity).unwrap();
    let strange = text.lines().map(|line| match line.split_once('=') {
        Some(("cluster.id", _)) => "cluster.id=c29tZWJvZHktZWxzZS1pZA".to_owned(),
        Some(("node.id", _)) => "node.id=2".to_owned(),
        _ => line.to_owned(),
    });
    let strange: Vec<String> = strange.collect();
    fs::write(&identity, strange.join("\n")).unwrap();
    let before = files(&second);
    refuses(&begin(&cluster, broker(2)), "cluster");
    assert_eq!(without_marks(files(&second)), without_marks(before));
}

/// Tries to start a broker, whose end it waits for.
fn begin(cluster: &Cluster, id: NodeId) -> Output {
    let mut command = Command::new("timeout");
    command.arg("20").arg(binary("millrace-broker").unwrap());
    let file = cluster.folder().join(format!("node-{id}.properties"));
    command
        .arg("--config")
        .arg(file)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn refuses(ended: &Output, why: &str) {
    let text = String::from_utf8_lossy(&ended.stderr);
    let code = ended.status.code();
    // 124 is a broker that went on.
    assert!(![Some(0), Some(124), None].contains(&code), "{code:?}: {text}");
    assert!(text.contains(why), "{text}");
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Without the mark of a clean end, which is taken before the cluster is asked.
fn without_marks(files: BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_mark = |path: &Path| path.ends_with(".kafka_cleanshutdown");
    files.into_iter().filter(|(path, _)| !is_mark(path)).collect()
}

/// What is torn: where in a batch, and what stands there then.
type Damage = (&'static str, usize, &'static [u8]);

/// BC-084, BC-085: a tail that a power cut left torn goes, and no more than that; where others have it, it comes back.
#[test]
fn a_torn_tail_goes_and_comes_back_where_others_have_it() {
    let mut cluster = Cluster::builder().brokers(3).start().unwrap();
    let bootstrap = cluster.bootstrap();
    for (topic, replicas) in [("copied", &[1, 2, 3][..]), ("alone", &[3]), ("whole", &[3])] {
        ask::create(&bootstrap, NewTopic::new(topic, 1, 1).on(&[(0, replicas)])).unwrap();
    }
    let batch = Batch::of(&[b"one record"]).bytes();
    for topic in ["copied", "alone", "whole"] {
        let mut leader = ask::leader(&bootstrap, topic, 0).unwrap();
        for _ in 0..12 {
            assert_eq!(leader.produce(topic, 0, -1, &batch).unwrap().error, 0);
        }
    }
    let data = cluster.data(broker(3)).unwrap();
    let segment = |topic: &str| data.join(format!("{topic}-0/00000000000000000000.log"));
    let whole = fs::read(segment("copied")).unwrap();
    assert_eq!(whole.len(), 12 * batch.len());
    let damages: [Damage; 4] = [
        ("a huge length", LENGTH_AT, &[0x7f, 0xff, 0xff, 0xff]),
        ("no length", LENGTH_AT, &[0, 0, 0, 0]),
        ("a negative length", LENGTH_AT, &[0xff, 0xff, 0xff, 0xfb]),
        ("an unknown format", MAGIC_AT, &[9]),
    ];
    let mut left: i64 = 12;
    for (what, at, bytes) in damages {
        cluster.kill(broker(3)).unwrap();
        for (topic, count) in [("copied", 12), ("alone", left)] {
            let mut log = fs::read(segment(topic)).unwrap();
            let begins = usize::try_from(count - 3).unwrap() * batch.len() + at;
            log[begins..begins + bytes.len()].copy_from_slice(bytes);
            fs::write(segment(topic), log).unwrap();
        }
        left -= 3;
        cluster.start(broker(3)).unwrap();
        cluster.wait_until_serving().unwrap();
        ask::everything_in_sync(&bootstrap, "copied", LIMIT).unwrap();
        wait::until_equal("the tail is back", LIMIT, true, || {
            Ok(fs::read(segment("copied"))? == whole)
        })
        .unwrap();
        let end_of = |topic: &str| {
            let mut leader: Connection = ask::leader(&bootstrap, topic, 0).unwrap();
            leader.list_offset(topic, 0, -1).unwrap().2
        };
        assert_eq!(end_of("alone"), left, "{what}");
        assert_eq!(end_of("whole"), 12, "{what}");
    }
    let log = cluster.log(broker(3)).unwrap();
    assert!(log.contains("a damaged tail was cut off"), "{log}");
}

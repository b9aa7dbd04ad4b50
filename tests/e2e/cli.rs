//! The operator's command against a running cluster: records in and out, and what stands on disk.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tests::ask;
use tests::binaries::binary;
use tests::clients;
use tests::cluster::{Cluster, NodeId};
use tests::raw::requests::NewTopic;

fn millrace(bootstrap: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(binary("millrace").unwrap());
    command.args(arguments).env("MILLRACE_BOOTSTRAP", bootstrap);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn done(output: Output) -> String {
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    String::from_utf8(output.stdout).unwrap()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_is_produced_is_consumed_with_each_codec_and_stands_on_disk() {
    let cluster = Cluster::builder().brokers(3).start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("orders", 4, 3)).unwrap();
    let lines: String = (0..20_000)
        .map(|n| format!("line {n} {}\n", "x".repeat(n % 90)))
        .collect();

    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let written = done(millrace(
            &bootstrap,
            &["produce", "orders", "--compression", codec, "--json"],
            lines.as_bytes(),
        ));
        let written: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(written["records"], 20_000);
    }

    let read = done(millrace(
        &bootstrap,
        &[
            "consume",
            "orders",
            "--from-beginning",
            "--max-messages",
            "100000",
        ],
        b"",
    ));
    let mut expected: Vec<&str> = std::iter::repeat_n(lines.lines(), 5).flatten().collect();
    expected.sort_unstable();
    assert!(
        sorted(&read) == expected,
        "{} lines came back of {}",
        read.lines().count(),
        expected.len()
    );

    let mut dumped = 0;
    for partition in 0..4 {
        let (leader, ..) = leader(&cluster, "orders", partition);
        let segment = cluster
            .data(leader)
            .unwrap()
            .join(format!("orders-{partition}/00000000000000000000.log"));
        let shown = done(millrace(
            &bootstrap,
            &["log", "dump", "--json", segment.to_str().unwrap()],
            b"",
        ));
        let batches = shown
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        for batch in batches {
            assert_eq!(batch["valid"], true);
            dumped += batch["count"].as_u64().unwrap();
        }
        let text = done(millrace(
            &bootstrap,
            &["log", "dump", segment.to_str().unwrap()],
            b"",
        ));
        assert!(text.contains("isvalid: true"), "{text}");
    }
    assert_eq!(dumped, 100_000);
}

/// `millrace consume --group g | head -1`: what was fetched and could not be printed was committed all the same, and
/// nobody in the group ever saw it.
#[test]
fn a_group_commits_nothing_that_its_reader_did_not_take_in() {
    let builder = Cluster::builder().set("offsets.topic.replication.factor", 1);
    let cluster = builder.start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("pages", 1, 1)).unwrap();
    let lines: String = (0..20_000).map(|n| format!("{n:0100}\n")).collect();
    done(millrace(&bootstrap, &["produce", "pages"], lines.as_bytes()));

    let mut command = Command::new(binary("millrace").unwrap());
    let arguments = ["consume", "pages", "--from-beginning", "--group", "readers"];
    command.args(arguments).env("MILLRACE_BOOTSTRAP", &bootstrap);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 101];
    let mut stdout = child.stdout.take().unwrap();
    std::io::Read::read_exact(&mut stdout, &mut first).unwrap();
    drop(stdout);
    assert!(child.wait().unwrap().success());

    let rest = done(millrace(
        &bootstrap,
        &[
            "consume",
            "pages",
            "--from-beginning",
            "--group",
            "readers",
            "--exit-at-end",
        ],
        b"",
    ));
    // A pipe holds 64 KiB: so much may have been taken for read.
    assert!(
        19_000 < rest.lines().count(),
        "{} lines were left",
        rest.lines().count()
    );
}

/// Who leads, as the command says it.
fn leader(cluster: &Cluster, topic: &str, partition: usize) -> (NodeId, serde_json::Value) {
    let described = done(millrace(
        &cluster.bootstrap(),
        &["topic", "describe", topic, "--json"],
        b"",
    ));
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    let leader = described[0]["partitions"][partition]["leader"].as_u64().unwrap();
    let id = cluster
        .brokers()
        .into_iter()
        .find(|id| u64::from(id.0) == leader)
        .unwrap();
    (id, described)
}

#[test]
fn keys_go_where_other_clients_send_them_and_come_back_in_order() {
    let cluster = Cluster::builder().start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("keyed", 6, 1)).unwrap();
    let lines: String = (0..600).map(|n| format!("key-{}:value {n}\n", n % 20)).collect();

    done(millrace(
        &bootstrap,
        &["produce", "keyed", "--key-separator", ":"],
        lines.as_bytes(),
    ));

    let format = r"%p %k %v\n";
    let read = done(millrace(
        &bootstrap,
        &[
            "consume",
            "keyed",
            "--from-beginning",
            "--exit-at-end",
            "--format",
            format,
        ],
        b"",
    ));
    assert_eq!(read.lines().count(), 600);
    for key in 0..20 {
        let of_key = format!(" key-{key} ");
        let mine: Vec<&str> = read.lines().filter(|line| line.contains(&of_key)).collect();
        let values: Vec<String> = mine
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap().to_owned())
            .collect();
        let expected: Vec<String> = (0..30).map(|n| (key + 20 * n).to_string()).collect();
        assert_eq!(values, expected, "key-{key}");
        assert!(
            mine.iter()
                .all(|line| line.split(' ').next() == mine[0].split(' ').next()),
            "{mine:?}"
        );
    }
}

#[test]
fn kcat_reads_what_the_command_writes_and_the_other_way_round() {
    let cluster = Cluster::builder().start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("both", 1, 1)).unwrap();
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();

    done(millrace(
        &bootstrap,
        &["produce", "both", "--acks", "1"],
        lines.as_bytes(),
    ));
    assert_eq!(
        clients::kcat_consume(&bootstrap, "both", 0, 1000).unwrap(),
        lines.as_bytes()
    );

    clients::kcat_produce(&bootstrap, "both", "lz4", lines.as_bytes()).unwrap();
    let read = done(millrace(
        &bootstrap,
        &["consume", "both", "--offset", "1000", "--max-messages", "1000"],
        b"",
    ));
    assert_eq!(read, lines);
    let last = done(millrace(
        &bootstrap,
        &["consume", "both", "--offset", "-1", "--max-messages", "1"],
        b"",
    ));
    assert_eq!(last, "line 999\n");
}

#[test]
fn scripts_are_told_by_the_exit_code() {
    let cluster = Cluster::builder().start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("empty", 1, 1)).unwrap();

    let missing = millrace(&bootstrap, &["produce", "nowhere"], b"x\n");
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nowhere: UNKNOWN_TOPIC_OR_PARTITION"));
    let silent = millrace(
        &bootstrap,
        &["consume", "empty", "--from-beginning", "--timeout", "0.3"],
        b"",
    );
    assert_eq!(silent.status.code(), Some(1));
    let keyless = millrace(
        &bootstrap,
        &["produce", "empty", "--key-separator", ":"],
        b"no key\n",
    );
    assert_eq!(keyless.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&keyless.stderr).contains("line 1 has no key"));
}

#[test]
fn a_status_does_not_wait_for_a_stopped_broker() {
    let mut cluster = Cluster::builder().controllers(3).brokers(3).start().unwrap();
    let bootstrap = cluster.bootstrap();
    let first = cluster.brokers()[0];
    let stopped = cluster.address(first).unwrap();
    assert!(
        bootstrap.starts_with(&stopped),
        "{stopped} is the first of {bootstrap}"
    );
    cluster.stop(first).unwrap();

    let began = Instant::now();
    let shown = done(millrace(&bootstrap, &["status"], b""));
    let took = began.elapsed();

    cluster.cont(first).unwrap();
    assert!(shown.contains("brokers: 3"), "{shown}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_bench_measures_what_was_acknowledged_and_what_it_cost() {
    let cluster = Cluster::builder().start().unwrap();
    let bootstrap = cluster.bootstrap();
    let run = |extra: &[&str]| -> serde_json::Value {
        let line = [
            "bench",
            "--seconds",
            "2",
            "--warm-up",
            "0",
            "--record-size",
            "100",
            "--json",
        ];
        let shown = done(millrace(&bootstrap, &[&line[..], extra].concat(), b""));
        serde_json::from_str(&shown).unwrap()
    };

    let full = run(&[]);
    let figure = |shown: &serde_json::Value, name: &str| shown["figures"][name].as_f64().unwrap();
    assert!(1000.0 < figure(&full, "records/s acknowledged"), "{full}");
    assert!(1000.0 < figure(&full, "records/s read"), "{full}");
    assert!(
        0.0 < figure(&full, "brokers' CPU s per million records"),
        "{full}"
    );

    let half = run(&["--rate", "1000"]);
    let rate = figure(&half, "records/s acknowledged");
    assert!((900.0..=1100.0).contains(&rate), "{half}");
    assert!(
        figure(&half, "ack p50 ms, from due") <= figure(&half, "end to end p99 ms"),
        "{half}"
    );
    let topics = done(millrace(&bootstrap, &["topic", "list"], b""));
    assert_eq!(topics, "no topics\n", "what a bench makes it takes away");
}

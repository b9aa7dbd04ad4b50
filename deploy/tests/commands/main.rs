//! The command against a broker made up here: what is asked, what is shown, and how it ends.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod made_up;
mod records;
mod refusals;
mod waiting;

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;
use wire::ApiKey;

use made_up::Broker;

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

const TOPICS: &[ApiKey] = &[
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::Metadata,
];

#[tokio::test]
async fn a_topic_is_created_with_what_was_said_and_nothing_else() {
    let broker = Broker::serving(TOPICS).await;

    let plain = broker.command(&["topic", "create", "orders"]).await;
    let full = [
        "topic",
        "create",
        "orders",
        "--partitions",
        "4",
        "--replication-factor",
        "2",
        "--config",
        "a=b",
        "--json",
    ];
    let full = broker.command(&full).await;

    assert_eq!((plain.status.code(), err(&plain)), (Some(0), String::new()));
    assert!(
        out(&plain).starts_with("created orders: 4 partitions, replication factor 2, id "),
        "{}",
        out(&plain)
    );
    assert_eq!(json(&full)["partitions"], 4);
    assert_eq!(
        broker.asked(),
        ["CreateTopics orders -1 -1 0", "CreateTopics orders 4 2 1"]
    );
}

#[tokio::test]
async fn a_refusal_is_told_in_the_brokers_words_and_ends_with_one() {
    let broker = Broker::serving(TOPICS).await;

    let refused = broker.command(&["topic", "create", "taken"]).await;
    let allowed = broker
        .command(&["topic", "create", "taken", "--if-not-exists"])
        .await;

    assert_eq!((refused.status.code(), out(&refused)), (Some(1), String::new()));
    assert_eq!(
        err(&refused),
        "millrace: taken: TOPIC_ALREADY_EXISTS: it is there; `millrace topic describe` shows it\n"
    );
    assert_eq!(
        (allowed.status.code(), out(&allowed)),
        (Some(0), "taken exists already\n".to_owned())
    );
}

#[tokio::test]
async fn of_several_deletions_each_is_told_and_one_refusal_ends_with_one() {
    let broker = Broker::serving(TOPICS).await;

    let mixed = broker.command(&["topic", "delete", "orders", "gone"]).await;
    let lenient = broker
        .command(&["topic", "delete", "orders", "gone", "--if-exists"])
        .await;

    assert_eq!(
        (mixed.status.code(), out(&mixed)),
        (Some(1), "deleted orders\n".to_owned())
    );
    assert_eq!(
        err(&mixed),
        "millrace: gone: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic or partition; `millrace topic list` shows \
         what there is\n"
    );
    assert_eq!(
        (lenient.status.code(), out(&lenient)),
        (Some(0), "there is no gone\ndeleted orders\n".to_owned())
    );
    assert_eq!(broker.asked()[0], "DeleteTopics orders gone");
}

#[tokio::test]
async fn a_key_that_this_cluster_does_not_act_on_is_kept_with_a_warning() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::DescribeConfigs,
        ApiKey::IncrementalAlterConfigs,
    ];
    let broker = Broker::serving(APIS).await;
    let set = |topic: &'static str, pair: &'static str| {
        let broker = &broker;
        async move { broker.command(&["config", "set", topic, pair]).await }
    };

    let idle = set("topic:ours", "preallocate=true").await;
    assert!(idle.status.success(), "{idle:?}");
    assert_eq!(
        err(&idle).trim(),
        "warning: preallocate is kept, but has no effect in this cluster"
    );
    let acted_on = set("topic:theirs", "preallocate=true").await;
    assert!(
        acted_on.status.success() && err(&acted_on).is_empty(),
        "{acted_on:?}"
    );
    let served = set("topic:ours", "retention.ms=1000").await;
    assert!(served.status.success() && err(&served).is_empty(), "{served:?}");
}

#[tokio::test]
async fn topics_are_listed() {
    let broker = Broker::serving(TOPICS).await;
    let listed = broker.command(&["topic", "list"]).await;
    let lines: Vec<String> = out(&listed).lines().map(str::to_owned).collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["topic", "partitions", "replicas", "id"]
    );
    assert_eq!(
        lines[1].split_whitespace().take(3).collect::<Vec<_>>(),
        ["orders", "2", "2"]
    );
}

#[tokio::test]
async fn a_description_is_put_together_from_its_pages() {
    let broker = Broker::serving(&[ApiKey::ApiVersions, ApiKey::DescribeTopicPartitions]).await;
    let described = broker.command(&["topic", "describe", "orders", "--json"]).await;
    let topics = json(&described);
    assert_eq!(topics.as_array().unwrap().len(), 1);
    assert_eq!(topics[0]["partitions"].as_array().unwrap().len(), 2);
    assert_eq!(
        topics[0]["overrides"],
        serde_json::Value::Null,
        "this broker serves no DescribeConfigs"
    );
    assert_eq!(
        broker.asked(),
        [
            "DescribeTopicPartitions from None",
            "DescribeTopicPartitions from Some(1)"
        ]
    );
}

#[tokio::test]
async fn a_broker_that_cannot_page_is_asked_for_metadata() {
    let broker = Broker::serving(TOPICS).await;
    let described = broker.command(&["topic", "describe", "orders"]).await;
    assert_eq!(described.status.code(), Some(0), "{}", err(&described));
    assert!(out(&described).contains("1          none"), "{}", out(&described));
}

#[tokio::test]
async fn a_status_says_what_it_could_not_ask() {
    let broker = Broker::serving(&[ApiKey::ApiVersions, ApiKey::DescribeCluster, ApiKey::Metadata]).await;

    let shown = broker.command(&["status"]).await;
    let checked = broker.command(&["status", "--check", "--json"]).await;

    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    let text = out(&shown);
    for part in [
        "cluster c1",
        "quorum: unknown",
        "fenced",
        "without a leader 1",
        "under min.insync.replicas unknown",
        "orders-1: broker 2 may lead; look again in a moment",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(json(&checked)["partitions"]["leaderless"][0]["partition"], 1);
    assert_eq!(
        json(&checked)["partitions"]["under_min_in_sync"],
        serde_json::Value::Null
    );
    assert!(
        err(&checked).contains("1 partition without a leader"),
        "{}",
        err(&checked)
    );
}

#[tokio::test]
async fn a_status_finds_the_controllers_by_the_broker_that_knows_them() {
    let apis = &[
        ApiKey::ApiVersions,
        ApiKey::DescribeCluster,
        ApiKey::Metadata,
        ApiKey::DescribeConfigs,
    ];
    let broker = Broker::serving(apis).await;
    let shown = broker.command(&["status"]).await;
    let text = out(&shown);
    for part in [
        "quorum: no controller answers",
        "127.0.0.1:1",
        "does not answer: ",
        "under min.insync.replicas 2",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// A broker with a full disk serves reads, so nothing else was wrong, and the check was content.
#[tokio::test]
async fn a_full_disk_and_a_dead_one_are_trouble_with_their_broker_and_directory() {
    let apis = &[
        ApiKey::ApiVersions,
        ApiKey::DescribeCluster,
        ApiKey::DescribeLogDirs,
    ];
    let broker = Broker::serving(apis).await;

    let checked = broker.command(&["status", "--check", "--json"]).await;

    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(json(&checked)["log_dirs"][1]["usable_bytes"], 10_u64 << 30);
    let why = err(&checked);
    for part in [
        "broker 1: the disk of /full is full: 4.0 KiB of 20.0 GiB can be written",
        "broker 1: /dead is offline: KAFKA_STORAGE_ERROR",
    ] {
        assert!(why.contains(part), "{part} in {why}");
    }
    assert!(!why.contains("/roomy") && !why.contains("the disks of"), "{why}");
}

/// Without a quorum a broker cannot describe it, and nothing at all was shown.
#[tokio::test]
async fn a_status_without_a_quorum_shows_what_the_broker_knows() {
    let apis = &[
        ApiKey::ApiVersions,
        ApiKey::DescribeCluster,
        ApiKey::DescribeQuorum,
        ApiKey::Metadata,
        ApiKey::DescribeConfigs,
    ];
    let broker = Broker::serving(apis).await;

    let shown = broker.command(&["status"]).await;
    let checked = broker.command(&["status", "--check"]).await;

    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    let text = out(&shown);
    for part in [
        "cluster c1",
        "quorum: no controller answers",
        "brokers: 2",
        "partitions: 2",
        "unknown: the quorum: ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(checked.status.code(), Some(1));
    assert!(err(&checked).contains("the quorum: "), "{}", err(&checked));
}

#[tokio::test]
async fn a_status_without_brokers_or_controllers_fails_but_shows_who_was_asked() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["status", "--bootstrap", &gone, "--controllers", &gone])
        .env_clear()
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = out(&output);
    for part in [
        "quorum: no controller answers",
        "does not answer: ",
        "brokers: unknown",
        "partitions: unknown",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// A stopped process still accepts connections; only its answers do not come.
#[tokio::test]
async fn a_broker_that_never_answers_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let broker = Broker::serving(TOPICS).await;
    let both = format!("{},{}", silent.local_addr().unwrap(), broker.address);

    let listed = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["topic", "list", "--bootstrap", &both])
        .env_clear()
        .output();
    let listed = tokio::time::timeout(std::time::Duration::from_secs(4), listed).await;

    assert_eq!(listed.unwrap().unwrap().status.code(), Some(0));
}

#[tokio::test]
async fn an_api_that_is_not_served_is_said_to_be_so() {
    let broker = Broker::serving(&[ApiKey::ApiVersions]).await;
    let refused = broker.command(&["topic", "create", "orders"]).await;
    assert_eq!(refused.status.code(), Some(1));
    let line = format!(
        "millrace: {} does not serve CreateTopics in a version that this command speaks\n",
        broker.address
    );
    assert_eq!(err(&refused), line);
}

#[tokio::test]
async fn when_nobody_listens_every_address_is_named() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["topic", "list", "--bootstrap", &gone])
        .env_clear()
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).starts_with(&format!("millrace: no broker answers: {gone}: ")),
        "{}",
        err(&output)
    );
}

#[tokio::test]
async fn the_keys_are_printed_as_the_page_has_them() {
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .arg("keys")
        .output()
        .await
        .unwrap();
    assert_eq!(out(&output), include_str!("../../CONFIG.md"));
}

#[tokio::test]
async fn each_shell_gets_its_completion() {
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef millrace"),
        ("fish", "complete -c millrace"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["completion", shell])
            .output()
            .await
            .unwrap();
        assert!(out(&output).contains(part), "{shell}: {}", out(&output));
        assert!(out(&output).contains("consume"), "{shell}");
    }
}

#[tokio::test]
async fn a_damaged_segment_is_shown_and_ends_with_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000000.log");
    let mut builder = wire::batch::BatchBuilder::new(wire::codec::Codec::Zstd);
    builder.append(1000, Some(b"k"), Some(b"v"), &[]);
    let mut bytes = builder.build().to_vec();
    std::fs::write(&path, &bytes).unwrap();
    let dump = |json: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command
            .args(["log", "dump", "--detail", "contents"])
            .arg(&path)
            .args(json.then_some("--json"));
        async move { command.output().await.unwrap() }
    };

    let sound = dump(true).await;
    assert_eq!(sound.status.code(), Some(0), "{}", err(&sound));
    assert_eq!(
        (&json(&sound)["codec"], &json(&sound)["records"][0]["value"]),
        (&"zstd".into(), &"v".into())
    );

    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes.extend(b"torn");
    std::fs::write(&path, &bytes).unwrap();
    let damaged = dump(false).await;
    assert_eq!(damaged.status.code(), Some(1));
    assert!(out(&damaged).contains("isvalid: false"), "{}", out(&damaged));
    assert!(
        err(&damaged).contains("damaged batches: 1 of 1"),
        "{}",
        err(&damaged)
    );
    assert!(
        err(&damaged).contains("4 bytes at the end without a batch"),
        "{}",
        err(&damaged)
    );
}

/// A dump complained of a broken pipe, a completion panicked, and a status went on for nobody.
#[tokio::test]
async fn a_command_whose_reader_has_gone_away_ends_quietly() {
    let apis = &[ApiKey::ApiVersions, ApiKey::DescribeCluster, ApiKey::Metadata];
    let broker = Broker::serving(apis).await;
    let dir = tempfile::tempdir().unwrap();
    let segment = dir.path().join("00000000000000000000.log");
    let mut builder = wire::batch::BatchBuilder::new(wire::codec::Codec::None);
    builder.append(1000, Some(b"k"), Some(b"v"), &[]);
    std::fs::write(&segment, builder.build()).unwrap();
    let segment = segment.to_str().unwrap();

    for line in [
        &["log", "dump", segment][..],
        &["log", "dump", segment, "--json"],
        &["topic", "list"],
        &["topic", "list", "--json"],
        &["status"],
        &["status", "--watch"],
        &["status", "--watch", "--json"],
        &["keys"],
        &["keys", "--json"],
        &["completion", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = told_to(&broker, line, writer.into()).await;
        assert_eq!(
            (output.status.code(), err(&output).as_str()),
            (Some(141), ""),
            "{line:?}"
        );
    }
}

/// It ended with 0, and what was asked for was nowhere.
#[tokio::test]
async fn an_answer_that_cannot_be_written_is_a_failure() {
    let broker = Broker::serving(TOPICS).await;
    for line in [&["keys"][..], &["topic", "list"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = told_to(&broker, line, full.into()).await;
        assert_eq!(output.status.code(), Some(1), "{line:?}");
        let why = err(&output);
        assert!(why.starts_with("millrace: standard output: "), "{line:?}: {why}");
    }
}

/// What comes of a command line whose answer goes there.
async fn told_to(broker: &Broker, line: &[&str], answer: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let child = command
        .args(line)
        .env_clear()
        .env("MILLRACE_BOOTSTRAP", &broker.address)
        .stdout(answer)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ended = timeout(Duration::from_secs(20), child.wait_with_output()).await;
    ended.unwrap_or_else(|_| panic!("{line:?} goes on")).unwrap()
}

#[tokio::test]
async fn what_is_no_segment_by_its_name_is_not_dumped() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["00000000000000000000.index", "db"] {
        let path = dir.path().join(name);
        std::fs::write(&path, b"").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["log", "dump"])
            .arg(&path)
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert_eq!(out(&output), "");
        assert!(
            err(&output).contains(&format!("{name}: not a segment")),
            "{}",
            err(&output)
        );
        assert!(err(&output).contains("end in .log"), "{}", err(&output));
    }
}

/// A lone broker that keeps the default never gets its offsets topic; the reader was silent for half a minute.
#[tokio::test]
async fn a_reader_that_waits_for_a_coordinator_says_what_is_probably_missing() {
    let broker = Broker::serving(&[ApiKey::ApiVersions, ApiKey::Metadata, ApiKey::FindCoordinator]).await;
    let mut reader = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args([
            "consume",
            "orders",
            "--group",
            "g",
            "--bootstrap",
            &broker.address,
        ])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut told = BufReader::new(reader.stderr.take().unwrap()).lines();
    let line = told.next_line().await.unwrap().unwrap();
    assert!(line.contains("no coordinator of g yet"), "{line}");
    assert!(line.contains("offsets.topic.replication.factor"), "{line}");
}

/// On a fresh cluster the answer was COORDINATOR_LOAD_IN_PROGRESS and no more.
#[tokio::test]
async fn a_coordinator_that_still_reads_its_log_is_asked_again() {
    let apis = &[
        ApiKey::ApiVersions,
        ApiKey::FindCoordinator,
        ApiKey::DescribeGroups,
    ];
    let broker = Broker::serving(apis).await;
    let described = broker.command(&["group", "describe", "nope"]).await;
    assert_eq!(described.status.code(), Some(1));
    let line = "millrace: nope: GROUP_ID_NOT_FOUND: there is no such group; `millrace group list` shows what there is\n";
    assert_eq!(err(&described), line);
    assert_eq!(broker.asked(), ["DescribeGroups ", "DescribeGroups "]);
}

/// It began to count when records were asked for, and what comes before that may take half a minute: a coordinator, or a
/// leader whose log's bounds are needed.
#[tokio::test]
async fn a_reader_with_a_timeout_waits_no_longer_for_whatever_it_is() {
    let apis = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::FindCoordinator,
        ApiKey::ListOffsets,
    ];
    let broker = Broker::serving(apis).await;
    let read = |more: &'static [&'static str]| {
        let line = [&["consume", "orders", "--timeout", "3"], more].concat();
        let broker = &broker;
        async move {
            let ended = timeout(Duration::from_secs(20), broker.command(&line)).await;
            let output = ended.expect("it ends long before a coordinator or a leader is given up");
            (output.status.code(), err(&output))
        }
    };

    let in_group = read(&["--group", "g"]).await;
    // Partition 1 has no leader.
    let alone = read(&["--from-beginning"]).await;

    let expected = |why: &str| {
        let text = format!("millrace: no record for 3 s; 0 records read; it waited: {why}\n");
        (Some(1), text)
    };
    let joining = "joining g: a new group gives others the time of group.initial.rebalance.delay.ms to come, \
                   3 s unless set; one that others are in waits until they have joined again";
    assert_eq!(in_group, expected(joining));
    assert_eq!(
        alone,
        expected("orders-1 has no leader; `millrace status` says why")
    );
}

/// It was silent, then gave up; with an offset it was silent for ever.
#[tokio::test]
async fn a_reader_of_a_partition_without_a_leader_says_so_and_waits() {
    let apis = &[ApiKey::ApiVersions, ApiKey::Metadata, ApiKey::ListOffsets];
    let broker = Broker::serving(apis).await;
    for start in [&["--from-beginning", "--exit-at-end"][..], &["--offset", "7"]] {
        let mut reader = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["consume", "orders", "--partition", "1"])
            .args(["--bootstrap", &broker.address])
            .args(start)
            .env_clear()
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut told = BufReader::new(reader.stderr.take().unwrap()).lines();
        let line = told.next_line().await.unwrap().unwrap();
        assert_eq!(
            line,
            "waiting: orders-1 has no leader; `millrace status` says why"
        );
        assert_eq!(reader.try_wait().unwrap(), None, "it waits");
    }
}

#[tokio::test]
async fn up_without_its_programs_begins_nothing() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = dir.path().join("millrace");
    std::fs::hard_link(env!("CARGO_BIN_EXE_millrace"), &alone).unwrap();
    let place = dir.path().join("cluster");
    let output = Command::new(&alone)
        .args(["up", "--dir"])
        .arg(&place)
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(
        err(&output).contains("millrace-controller: missing"),
        "{}",
        err(&output)
    );
    assert!(!place.exists(), "a mistake leaves nothing behind");
}

/// "Connection reset by peer" was all that was said at a controller's address.
#[tokio::test]
async fn who_closes_at_the_first_question_is_perhaps_a_controller() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { drop(listener.accept().await.unwrap()) });
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["topic", "list", "--bootstrap", &address])
        .env_clear()
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why = err(&output);
    assert!(
        why.contains("perhaps this is the address of a controller"),
        "{why}"
    );
}

/// The first bytes were taken for a length, and the complaint was about a frame of 1213486160 bytes.
#[tokio::test]
async fn what_speaks_another_protocol_is_told_by_its_first_bytes() {
    for (greeting, part) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "it speaks HTTP"),
        (&[0x15, 0x03, 0x03, 0, 2, 2, 10][..], "it speaks TLS"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(greeting).await.unwrap();
            // Read to the end, so that closing does not take back what was sent.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["topic", "list", "--bootstrap", &address])
            .env_clear()
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains(part), "{}", err(&output));
    }
}

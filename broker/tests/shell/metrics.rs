//! What operators and probes see of a broker.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::{ApiVersionsRequest, FetchRequest};

use crate::frames::{create, produced};
use crate::harness::Broker;

/// The status line and the body.
fn ask(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn value(text: &str, series: &str) -> Option<f64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn a_broker_is_watched_where_its_configuration_says() {
    let broker = Broker::start(&["metrics.listener=127.0.0.1:0"]);
    let port = broker.metrics.unwrap();

    assert_eq!(ask(port, "/livez").0, "HTTP/1.1 200 OK");
    assert_eq!(ask(port, "/readyz"), ("HTTP/1.1 200 OK".into(), "ready\n".into()));
    let mut peer = broker.connect();
    peer.ask(4, &ApiVersionsRequest::default());
    peer.ask(4, &ApiVersionsRequest::default());
    create(&mut peer, "orders");
    peer.ask(9, &produced("orders", b"one"));

    let (_, text) = ask(port, "/metrics");
    let asked = "kafka_network_requestmetrics_requests_total{request=\"ApiVersions\",version=\"4\"}";
    assert_eq!(value(&text, asked), Some(2.0), "{text}");
    let times = "kafka_network_requestmetrics_totaltimems_count{request=\"ApiVersions\"}";
    assert_eq!(value(&text, times), Some(2.0), "{text}");
    assert_eq!(
        value(&text, "kafka_server_replicamanager_partitioncount"),
        Some(1.0),
        "{text}"
    );
    let of_dir = |name: &str| {
        let dir = broker.data();
        value(&text, &format!("{name}{{logDirectory=\"{}\"}}", dir.display()))
    };
    assert_eq!(
        of_dir("kafka_log_logmanager_logdirectoryoffline"),
        Some(0.0),
        "{text}"
    );
    let usable = of_dir("millrace_log_directory_usable_bytes").unwrap();
    let total = of_dir("millrace_log_directory_total_bytes").unwrap();
    assert!(0.0 < usable && usable <= total, "{text}");
    assert_eq!(
        value(&text, "kafka_server_replicamanager_leadercount"),
        Some(1.0),
        "{text}"
    );
    assert_eq!(
        value(&text, "kafka_server_replicamanager_underreplicatedpartitions"),
        Some(0.0),
        "{text}"
    );
    assert_eq!(
        value(&text, "kafka_server_socket_server_metrics_connection_count"),
        Some(1.0),
        "{text}"
    );
    assert_eq!(
        value(&text, "kafka_server_kafkaserver_brokerstate"),
        Some(3.0),
        "{text}"
    );
}

/// A scraper may refuse a text in which a name is explained twice, and then sees nothing of the broker.
#[test]
fn every_name_is_explained_once_whatever_has_several_values() {
    let disks = tempfile::tempdir().unwrap();
    let paths: Vec<String> = ["a", "b", "c"]
        .iter()
        .map(|name| disks.path().join(name).display().to_string())
        .collect();
    let log_dirs = format!("log.dirs={}", paths.join(","));
    let broker = Broker::start(&["metrics.listener=127.0.0.1:0", &log_dirs]);
    let mut peer = broker.connect();
    create(&mut peer, "orders");
    create(&mut peer, "payments");
    peer.ask(9, &produced("orders", b"one"));
    peer.ask(9, &produced("payments", b"one"));
    peer.ask(4, &ApiVersionsRequest::default());

    let (_, text) = ask(broker.metrics.unwrap(), "/metrics");

    for about in ["# TYPE ", "# HELP "] {
        let lines = text.lines().filter_map(|line| line.strip_prefix(about));
        let mut names: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
        assert!(40 < names.len(), "{text}");
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{about}{twice:?}");
    }
    for path in &paths {
        for name in [
            "kafka_log_logmanager_logdirectoryoffline",
            "millrace_log_directory_usable_bytes",
            "millrace_log_directory_total_bytes",
        ] {
            let series = format!("{name}{{logDirectory=\"{path}\"}}");
            assert!(value(&text, &series).is_some(), "{series}");
        }
    }
}

/// Looks until the numbers are these.
fn becomes(port: u16, wanted: &[(&str, f64)]) {
    let began = Instant::now();
    loop {
        let (_, text) = ask(port, "/metrics");
        if wanted
            .iter()
            .all(|(series, number)| value(&text, series) == Some(*number))
        {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{wanted:?} not in {text}"
        );
    }
}

#[test]
fn what_waits_is_seen_while_it_waits_and_errors_are_counted() {
    let broker = Broker::start(&["metrics.listener=127.0.0.1:0"]);
    let port = broker.metrics.unwrap();
    let mut peer = broker.connect();
    create(&mut peer, "orders");
    let fetch = |topic: &str, max_wait_ms| FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        topics: vec![FetchTopic {
            topic: topic.into(),
            partitions: vec![FetchPartition {
                partition_max_bytes: 1000,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let delayed = "kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation=\"Fetch\"}";
    becomes(port, &[(delayed, 0.0)]);

    peer.start(11, &fetch("orders", 600_000));
    becomes(port, &[(delayed, 1.0)]);
    broker.connect().ask(9, &produced("orders", b"one"));
    peer.receive::<FetchRequest>(11);
    peer.ask(11, &fetch("nowhere", 0));

    let error =
        "kafka_network_requestmetrics_errors_total{request=\"Fetch\",error=\"UNKNOWN_TOPIC_OR_PARTITION\"}";
    becomes(port, &[(delayed, 0.0), (error, 1.0)]);
    let (_, text) = ask(port, "/metrics");
    for threads in [
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    ] {
        let idle = value(&text, threads).unwrap();
        assert!((0.0..=1.0).contains(&idle), "{threads} {idle}");
    }
    let lag = "kafka_server_replicafetchermanager_maxlag{clientId=\"Replica\"}";
    assert_eq!(value(&text, lag), Some(0.0), "{text}");
}

#[test]
fn nothing_is_served_where_no_listener_is_configured() {
    assert_eq!(Broker::start(&[]).metrics, None);
}

//! What operators and probes see of a broker.

use std::io::{Read, Write};
use std::net::TcpStream;

use wire::messages::ApiVersionsRequest;

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

#[test]
fn nothing_is_served_where_no_listener_is_configured() {
    assert_eq!(Broker::start(&[]).metrics, None);
}

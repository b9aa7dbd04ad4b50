//! What operators and probes see of controllers.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use support::{Controllers, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The body of the answer, once it has this status.
async fn ask(port: u16, path: &str, status: u16) -> Option<String> {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let body = answer.split_once("\r\n\r\n")?.1.to_owned();
    answer.starts_with(&format!("HTTP/1.1 {status} ")).then_some(body)
}

fn value(text: &str, series: &str) -> Option<f64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn one_controller_is_active_and_all_are_ready_while_there_is_a_quorum() {
    let mut controllers = Controllers::start(3);
    let active = controllers.active().await;
    controllers.register(7).await;

    let mut sum = 0.0;
    for at in 0..3 {
        let port = controllers.metrics(at).await;
        eventually("it is ready", async || ask(port, "/readyz", 200).await).await;
        let text = eventually("it has seen the broker", async || {
            let text = ask(port, "/metrics", 200).await?;
            let fenced = value(&text, "kafka_controller_kafkacontroller_fencedbrokercount");
            (fenced == Some(1.0)).then_some(text)
        })
        .await;
        assert_eq!(
            value(&text, "kafka_server_raft_metrics_number_of_voters"),
            Some(3.0)
        );
        assert_eq!(
            value(&text, "kafka_controller_kafkacontroller_globalpartitioncount"),
            Some(0.0)
        );
        sum += value(&text, "kafka_controller_kafkacontroller_activecontrollercount").unwrap();
    }
    assert!((0.9..1.1).contains(&sum), "one is active, not {sum}");

    // Without a majority nothing is committed, and the one that is left says so.
    let left = (0..3).find(|at| *at != active).unwrap();
    (0..3)
        .filter(|at| *at != left)
        .for_each(|at| controllers.kill(at));
    let port = controllers.metrics(left).await;
    let why = eventually("it is not ready", async || ask(port, "/readyz", 503).await).await;
    assert!(
        why.contains("no leader is known") || why.contains("nothing was committed"),
        "{why}"
    );
    eventually("it is alive", async || ask(port, "/livez", 200).await).await;
}

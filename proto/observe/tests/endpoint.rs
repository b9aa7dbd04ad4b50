//! The endpoint as a probe and a scraper see it.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::OsClock;
use observe::{Counter, Metrics, NotReady, Watched, bind};
use tokio::runtime::Runtime;

struct Process {
    metrics: Metrics,
    works: Counter,
    is_ready: AtomicBool,
}

impl Watched for Process {
    fn metrics(&self) -> Result<String, String> {
        self.metrics.text()
    }

    fn ready(&self) -> Result<(), NotReady> {
        match self.is_ready.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(NotReady("fenced by the controller".into())),
        }
    }
}

fn served() -> (Runtime, SocketAddr, Arc<Process>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let metrics = Metrics::new(Arc::new(OsClock::new()));
    let process = Arc::new(Process {
        works: metrics.counter("kafka_test_works_total", "Works done."),
        metrics,
        is_ready: AtomicBool::new(false),
    });
    let endpoint = bind("127.0.0.1", 0).unwrap();
    let address = endpoint.address();
    runtime.spawn(endpoint.serve(process.clone()));
    (runtime, address, process)
}

/// The status and the body of an answer.
fn ask(address: SocketAddr, line: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.lines().next().unwrap().to_owned();
    (status, body.to_owned())
}

#[test]
fn a_process_that_is_not_ready_is_alive_and_says_why() {
    let (_runtime, address, process) = served();
    let (status, body) = ask(address, "GET /livez");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "alive\n"));
    let (status, body) = ask(address, "GET /readyz");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(body, "fenced by the controller\n");

    process.is_ready.store(true, Ordering::Relaxed);
    let (status, body) = ask(address, "GET /readyz");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "ready\n"));
}

#[test]
fn what_is_counted_is_scraped_with_its_name_and_kind() {
    let (_runtime, address, process) = served();
    process.works.inc_by(3);
    process.metrics.gathered(|gathered| {
        gathered.gauge_of("kafka_test_size", "A size.", &[("of", "a\"b")], 1.5);
        gathered.gauge_of("kafka_test_size", "A size.", &[("of", "c")], 2.0);
    });
    let times = process
        .metrics
        .times_of("kafka_test_timems", "A time.", "request");
    times.of("Fetch").record(Duration::from_millis(8));

    let (status, body) = ask(address, "GET /metrics");

    assert_eq!(status, "HTTP/1.1 200 OK");
    for line in [
        "# HELP kafka_test_works_total Works done.",
        "# TYPE kafka_test_works_total counter",
        "kafka_test_works_total 3",
        "# TYPE kafka_test_size gauge",
        "kafka_test_size{of=\"a\\\"b\"} 1.5",
        "kafka_test_size{of=\"c\"} 2",
        "# TYPE kafka_test_timems summary",
        "kafka_test_timems_count{request=\"Fetch\"} 1",
        "kafka_test_timems_sum{request=\"Fetch\"} 8",
        "# TYPE process_resident_memory_bytes gauge",
    ] {
        assert!(body.lines().any(|has| has == line), "no {line} in\n{body}");
    }
    assert!(
        body.contains("kafka_test_timems{request=\"Fetch\",quantile=\"0.99\"} 8."),
        "{body}"
    );
}

#[test]
fn what_is_no_get_of_a_known_path_is_refused() {
    let (_runtime, address, _process) = served();
    assert_eq!(ask(address, "GET /").0, "HTTP/1.1 404 Not Found");
    assert_eq!(ask(address, "POST /livez").0, "HTTP/1.1 405 Method Not Allowed");
}

#[test]
fn connections_that_say_nothing_or_read_nothing_keep_no_probe_waiting() {
    let (_runtime, address, _process) = served();
    let silent = (0..100).map(|_| TcpStream::connect(address).unwrap());
    let deaf = (0..100).map(|_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        // Questions without end, whose answers are never taken in. It may be closed meanwhile.
        let _ = stream.write_all(&b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100));
        stream
    });
    let _held: Vec<TcpStream> = silent.chain(deaf).collect();

    assert_eq!(ask(address, "GET /livez").0, "HTTP/1.1 200 OK");
}

#[test]
fn a_taken_port_is_refused() {
    let (_runtime, address, _process) = served();
    let refused = bind("127.0.0.1", address.port()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
}

//! How a broker begins, or does not, and how it ends in order.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::Broker;

/// Exit code and what was printed.
fn run(sets: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-broker"));
    for set in sets {
        command.args(["--set", set]);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn minimal(dir: &Path, port: u16) -> Vec<String> {
    vec![
        "process.roles=broker".to_owned(),
        "node.id=1".to_owned(),
        "controller.quorum.voters=100@127.0.0.1:9".to_owned(),
        "controller.listener.names=CONTROLLER".to_owned(),
        format!("listeners=PLAINTEXT://127.0.0.1:{port}"),
        format!("log.dirs={}", dir.display()),
    ]
}

#[test]
fn a_wrong_configuration_is_told_line_by_line_and_opens_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let mut sets = minimal(&dir, 0);
    sets.extend(["nodde.id=1".to_owned(), "num.partitions=many".to_owned()]);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();

    let (code, told) = run(&sets);

    assert_eq!(code, Some(2));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("nodde.id=1: unknown key"), "{told}");
    assert!(lines[1].starts_with("num.partitions=many: wrong type"), "{told}");
    assert!(!dir.exists());
}

/// Thousands of idle replicas took four times the memory that was in use.
#[test]
fn no_memory_is_backed_by_huge_pages() {
    let broker = Broker::start(&[]);
    let status = broker.kernel_status();
    assert!(status.lines().any(|line| line == "THP_enabled:\t0"), "{status}");
}

#[test]
fn a_port_that_is_taken_is_told_and_nothing_is_opened() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let sets = minimal(&dir, taken.local_addr().unwrap().port());
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();

    let (code, told) = run(&sets);

    assert_eq!(code, Some(2));
    assert!(told.starts_with("listeners=PLAINTEXT://127.0.0.1:"), "{told}");
    assert!(told.contains("cannot be bound"), "{told}");
    assert!(told.contains("another process listens there: stop it"), "{told}");
    assert!(!dir.exists());
}

#[test]
fn a_directory_of_another_node_is_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let identity = "version=1\ncluster.id=c\nnode.id=7\ndirectory.id=ASNFZ4mrze_-3LqYdlQyEA\n";
    std::fs::write(home.path().join("meta.properties"), identity).unwrap();
    let sets = minimal(home.path(), 0);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();

    let (code, told) = run(&sets);

    assert_eq!(code, Some(2));
    assert!(told.contains("belongs to node 7, this is node 1"), "{told}");
    let names: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["meta.properties"]);
    assert_eq!(
        std::fs::read_to_string(home.path().join("meta.properties")).unwrap(),
        identity
    );
}

/// A broker that reached no controller said nothing at all: neither one on an empty disk, which does not know its cluster,
/// nor one that does.
#[test]
fn a_broker_that_reaches_no_controller_says_whom_it_tries_and_why_that_fails() {
    let home = tempfile::tempdir().unwrap();
    let known = home.path().join("known");
    std::fs::create_dir(&known).unwrap();
    let identity = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=ASNFZ4mrze_-3LqYdlQyEA\n";
    std::fs::write(known.join("meta.properties"), identity).unwrap();
    for dir in [home.path().join("empty"), known] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-broker"));
        for set in minimal(&dir, 0) {
            command.args(["--set", &set]);
        }
        let mut process = command
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();

        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        let told = said
            .map_while(Result::ok)
            .find(|line| line.contains("no controller answers"));

        process.kill().unwrap();
        process.wait().unwrap();
        let told = told.unwrap();
        for part in [
            "WARN",
            "127.0.0.1:9: ",
            "Connection refused",
            "controller.quorum.voters",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
    }
}

#[test]
fn a_broker_that_is_asked_to_stop_marks_its_directory_clean() {
    let broker = Broker::start(&[]);
    let mark = broker.data().join(".kafka_cleanshutdown");
    assert!(!mark.exists());

    let ended = broker.terminate();

    assert_eq!(ended.status.code(), Some(0));
    let mark = std::fs::read_to_string(&mark).unwrap();
    assert!(mark.contains("\"brokerEpoch\":3"), "{mark}");
}

/// A figure of the line that a broker ends with.
fn figure(said: &str, key: &str) -> u64 {
    let last = said.lines().rfind(|line| line.contains(" stopped ")).unwrap();
    let value = last.split(&format!(" {key}=")).nth(1).unwrap();
    value.split(' ').next().unwrap().parse().unwrap()
}

/// R1.16: it waits to be let go, minutes if it must, and whoever asks again does not want to wait. What its last line gave
/// for the time that this took was the closing of its logs alone, and it said that the time was up.
#[test]
fn a_broker_that_is_asked_to_stop_twice_waits_no_longer_and_still_ends_in_order() {
    let mut broker = Broker::start(&[]);
    broker.controller().let_nobody_go();
    broker.ask_to_stop();
    // The pauses before the fifth question are 50, 100, 200 and 400 ms.
    broker.asks_to_be_let_go(5);

    broker.ask_to_stop();
    let (status, said) = broker.ends();

    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("stopping without being let go"), "{said}");
    assert!(said.contains("cause=AskedAgain"), "{said}");
    assert!(750 <= figure(&said, "took_ms"), "{said}");
    assert!(
        figure(&said, "closing_ms") + 750 <= figure(&said, "took_ms"),
        "{said}"
    );
    let mark = std::fs::read_to_string(broker.data().join(".kafka_cleanshutdown")).unwrap();
    assert!(mark.contains("\"brokerEpoch\":3"), "{mark}");
}

/// R1.27, R1.16: brokers whose controllers were gone waited for them five minutes.
#[test]
fn a_broker_that_no_controller_answers_stops_after_a_session_timeout_and_in_order() {
    let mut broker = Broker::start(&[
        "broker.session.timeout.ms=1500",
        "broker.heartbeat.interval.ms=400",
    ]);
    broker.controller().fall_silent();

    broker.ask_to_stop();
    let (status, said) = broker.ends();

    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("stopping without being let go"), "{said}");
    assert!(said.contains("cause=NoControllerAnswers"), "{said}");
    assert!(1500 <= figure(&said, "took_ms"), "{said}");
    let mark = std::fs::read_to_string(broker.data().join(".kafka_cleanshutdown")).unwrap();
    assert!(mark.contains("\"brokerEpoch\":3"), "{mark}");
}

/// R1.15: its registration may be decided when it is gone, and would count as one after a kill. It served nothing, so it leaves
/// the mark that it found, and its name; whoever comes next says so.
#[test]
fn a_broker_that_is_stopped_before_it_is_registered_leaves_the_mark_that_it_found_and_its_name() {
    let ended = Broker::start(&[]).terminate();

    let (first, status) = ended.again_without_an_answer();
    assert_eq!(status.code(), Some(0));
    assert_eq!((first.previous_epoch, first.unserved.len()), (Some(3), 0));

    let (second, status) = ended.again_without_an_answer();
    assert_eq!(status.code(), Some(0));
    assert_eq!(second.previous_epoch, Some(3));
    assert_eq!(second.unserved, std::slice::from_ref(&first.incarnation));

    let (third, _) = ended.again_without_an_answer();
    assert_eq!(third.unserved, [first.incarnation, second.incarnation]);
}

/// L-55: a broker without a disk serves nobody. It stayed unfenced and said that it was ready.
#[test]
fn a_broker_whose_only_log_directory_fails_says_so_and_ends() {
    let mut broker = Broker::start(&["replica.high.watermark.checkpoint.interval.ms=100"]);
    let data = broker.data();
    std::fs::rename(&data, data.with_extension("gone")).unwrap();

    let (status, said) = broker.ends();

    assert_eq!(status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("ERROR")).collect();
    let told = errors
        .iter()
        .filter(|line| line.contains("every log directory is offline"));
    assert_eq!(told.count(), 1, "{said}");
    assert!(
        said.contains("see to the disks of log.dirs, then start this broker again"),
        "{said}"
    );
    assert!(errors.len() <= 4, "{said}");
}

/// Several directories that failed in one moment were told of one by one, and that they were all of them as often.
#[test]
fn a_broker_whose_log_directories_all_fail_at_once_says_so_once() {
    let home = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "c"].map(|name| home.path().join(name));
    let listed = dirs.each_ref().map(|dir| dir.display().to_string()).join(",");
    let mut broker = Broker::start(&[
        &format!("log.dirs={listed}"),
        "replica.high.watermark.checkpoint.interval.ms=100",
    ]);
    std::fs::rename(home.path(), home.path().with_extension("gone")).unwrap();

    let (status, said) = broker.ends();

    std::fs::remove_dir_all(home.path().with_extension("gone")).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    let told = said.lines().filter(|line| line.contains("ERROR"));
    let told = told.filter(|line| line.contains("every log directory is offline"));
    assert_eq!(told.count(), 1, "{said}");
}

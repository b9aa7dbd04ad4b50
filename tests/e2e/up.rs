//! `millrace up` with real nodes, where its stand-ins cannot tell what becomes of them.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tests::binaries::binary;
use tests::cluster::ports;
use tests::process::{Process, figures};
use tests::wait;

const LIMIT: Duration = Duration::from_secs(60);

/// One controller and two brokers from `port` on, in `dir`, with a log called `name`.
fn up(dir: &Path, port: u16, name: &str) -> Process {
    let mut command = Command::new(binary("millrace").unwrap());
    command
        .args(["up", "--json", "--controllers", "1", "--brokers", "2"])
        .args(["--port", &port.to_string(), "--dir"])
        .arg(dir.join("cluster"))
        .args(["--set", "broker.session.timeout.ms=4000"]);
    Process::start(command, &dir.join(name)).unwrap()
}

/// The process ids of the nodes, once they serve.
fn serving(dir: &Path, name: &str) -> Vec<u32> {
    wait::until("it serves", LIMIT, || {
        let log = std::fs::read_to_string(dir.join(name))?;
        let line = log
            .lines()
            .find(|line| line.starts_with('{'))
            .context(log.clone())?;
        let told: serde_json::Value = serde_json::from_str(line)?;
        let pids = told["pids"].as_object().context("process ids")?;
        let pids: Option<Vec<u32>> = pids.values().map(|pid| pid.as_u64()?.try_into().ok()).collect();
        pids.context("numbers")
    })
    .unwrap()
}

fn shell(port: u16, line: &str) -> Output {
    let program = binary("millrace").unwrap().display().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", &line.replace("millrace", &program)]);
    command
        .env("MILLRACE_BOOTSTRAP", format!("127.0.0.1:{port}"))
        .output()
        .unwrap()
}

/// Its controllers ended at once, and its brokers waited five minutes to be let go by them, with their ports and directories.
#[test]
fn brokers_end_in_order_soon_after_a_command_that_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let port = ports::row(6).unwrap();
    let mut first = up(dir.path(), port, "first");
    let nodes = serving(dir.path(), "first");
    let written = shell(
        port,
        "millrace topic create orders --replication-factor 2 && seq 100 | millrace produce orders",
    );
    assert!(written.status.success(), "{written:?}");

    first.kill().unwrap();
    wait::until("no node runs", LIMIT, || {
        let left: Vec<u32> = nodes
            .iter()
            .copied()
            .filter(|pid| figures(*pid).is_ok())
            .collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .unwrap();

    for broker in ["broker-1", "broker-2"] {
        let node = dir.path().join("cluster").join(broker);
        let log = std::fs::read_to_string(node.join("node.log")).unwrap();
        // The controller is told at the same moment, and may still let one go.
        let causes = ["NoControllerAnswers", "Released"];
        let said = causes
            .iter()
            .any(|cause| log.contains(&format!("cause={cause} ")));
        assert!(said, "{log}");
        assert!(node.join("data/.kafka_cleanshutdown").exists(), "{log}");
    }
    let mut second = up(dir.path(), port, "second");
    serving(dir.path(), "second");
    let read = shell(
        port,
        "millrace consume orders --from-beginning --exit-at-end | wc -l",
    );
    assert_eq!(String::from_utf8_lossy(&read.stdout), "100\n", "{read:?}");
    assert!(second.terminate(LIMIT).unwrap().success());
}

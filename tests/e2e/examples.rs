//! The configuration files that an operator starts from: right as they are, but for the ports.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use tests::binaries::{binary, workspace};
use tests::cluster::ports;
use tests::process::Process;
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the node of a role from its example, below `dir`, with a broker at `port` and a controller behind it.
fn start(role: &str, dir: &Path, port: u16) -> Process {
    let example = workspace().join(format!("deploy/examples/{role}.properties"));
    let text = std::fs::read_to_string(example).unwrap();
    let text = text
        .replace("9093", &(port + 1).to_string())
        .replace("9092", &port.to_string());
    let file = dir.join(format!("{role}.properties"));
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(binary(&format!("millrace-{role}")).unwrap());
    command.arg("--config").arg(file).current_dir(dir);
    Process::start(command, &dir.join(format!("{role}.log"))).unwrap()
}

#[test]
fn the_examples_are_a_cluster_that_keeps_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let port = ports::row(2).unwrap();
    let mut controller = start("controller", dir.path(), port);
    let mut broker = start("broker", dir.path(), port);
    let bootstrap = format!("127.0.0.1:{port}");
    let millrace = |line: &str| {
        let mut shell = Command::new("sh");
        let program = binary("millrace").unwrap().display().to_string();
        shell.args(["-c", &line.replace("millrace", &program)]);
        shell.env("MILLRACE_BOOTSTRAP", &bootstrap).output().unwrap()
    };
    wait::until("both serve", PATIENCE, || {
        let status = millrace("millrace status --check");
        ensure!(status.status.success(), "{status:?}");
        Ok(())
    })
    .unwrap();

    let written = millrace("millrace topic create orders && echo one | millrace produce orders");
    assert!(written.status.success(), "{written:?}");
    let read = millrace("millrace consume orders --from-beginning --exit-at-end");
    assert_eq!(String::from_utf8_lossy(&read.stdout), "one\n", "{read:?}");
    assert!(broker.terminate(PATIENCE).unwrap().success());
    assert!(controller.terminate(PATIENCE).unwrap().success());
    let data = dir.path().join("millrace-data");
    assert!(data.join("broker").is_dir() && data.join("controller").is_dir());
}

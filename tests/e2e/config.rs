//! A configuration that cannot be right ends the process with status 2 and one line: key, value, what is allowed.

use std::process::{Command, Output};

use tests::binaries::binary;
use tests::cluster::{Cluster, broker, ports};

fn broker_with(pairs: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let port = ports::free().unwrap();
    let file = folder.path().join("server.properties");
    let data = folder.path().join("data");
    let text = format!(
        "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=101@127.0.0.1:{}\n\
         listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={}\n",
        ports::free().unwrap(),
        data.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("timeout");
    command
        .args(["20"])
        .arg(binary("millrace-broker").unwrap())
        .arg("--config")
        .arg(&file);
    for pair in pairs {
        command.args(["--set", pair]);
    }
    let output = command.env_remove("NO_COLOR").output().unwrap();
    assert!(!data.exists(), "something was opened with {pairs:?}");
    let coloured = output.stderr.contains(&b'\x1b');
    assert!(!coloured, "colour codes, and no terminal: {output:?}");
    output
}

/// The line that says why, which has to name every one of `parts`.
fn refused(pairs: &[&str], parts: &[&str]) {
    let output = broker_with(pairs);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{pairs:?}: {text}");
    // One line for each key; what another line complains of may follow from the first.
    let mut lines = text.lines().filter(|line| !line.contains(" WARN "));
    let named = lines
        .clone()
        .any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(named, "no line with {parts:?} in: {text}");
    assert!(lines.all(|line| line.contains('=')), "{pairs:?}: {text}");
}

#[test]
fn a_configuration_that_cannot_be_right_ends_with_status_2() {
    refused(&["num.network.thraeds=3"], &["num.network.thraeds", "3"]);
    refused(&["log.segment.bytes=many"], &["log.segment.bytes", "many"]);
    refused(&["log.segment.bytes=-1"], &["log.segment.bytes", "-1"]);
    refused(&["node.id=-7"], &["node.id", "-7"]);
    refused(&["process.roles=conductor"], &["process.roles", "conductor"]);
}

#[test]
fn a_key_that_promises_a_protection_not_given_is_refused() {
    let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    refused(
        &[&format!("authorizer.class.name={authorizer}")],
        &["authorizer.class.name", authorizer],
    );
    refused(
        &["listeners=SASL_PLAINTEXT://127.0.0.1:29092"],
        &["listeners", "SASL_PLAINTEXT"],
    );
}

#[test]
fn the_data_of_another_node_is_refused() {
    let mut cluster = Cluster::builder().start().unwrap();
    cluster.term(broker(1)).unwrap();
    let file = cluster.folder().join("node-1.properties");
    let stranger = Command::new("timeout")
        .arg("20")
        .arg(binary("millrace-broker").unwrap())
        .arg("--config")
        .arg(&file)
        .args(["--set", "node.id=2"])
        .output()
        .unwrap();
    assert_eq!(
        stranger.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&stranger.stderr)
    );
}

#[test]
fn a_taken_port_is_a_clear_end() {
    let cluster = Cluster::builder().start().unwrap();
    let listener = format!("listeners=PLAINTEXT://{}", cluster.bootstrap());
    // With a line of the log in front: a key that has no effect.
    let output = broker_with(&[&listener, "num.replica.alter.log.dirs.threads=3"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let port = cluster.bootstrap().rsplit(':').next().unwrap().to_owned();
    assert!(text.contains(&port), "{text}");
    assert!(text.contains(" WARN "), "{text}");
}

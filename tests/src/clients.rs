//! Stock clients as their users run them: kcat, an old librdkafka.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
    let mut stdin = child.stdin.take().context("its input is piped")?;
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output()?;
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{complaints}",
        output.status
    );
    Ok(output.stdout)
}

/// Produces one record for each line of `lines`, compressed with `codec`, acks=all.
pub fn kcat_produce(bootstrap: &str, topic: &str, codec: &str, lines: &[u8]) -> Result<()> {
    let mut command = Command::new("kcat");
    command.args([
        "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-z", codec, "-X", "acks=all",
    ]);
    command.args(["-X", "message.timeout.ms=30000"]);
    run(command, lines).map(drop)
}

/// Reads `count` records from `offset` of partition 0, a line each.
pub fn kcat_consume(bootstrap: &str, topic: &str, offset: i64, count: usize) -> Result<Vec<u8>> {
    let mut command = Command::new("timeout");
    command.args([
        "60", "kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-p", "0", "-o",
    ]);
    command.args([
        &offset.to_string(),
        "-c",
        &count.to_string(),
        "-X",
        "check.crcs=true",
    ]);
    run(command, &[])
}

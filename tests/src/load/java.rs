//! Kafka's own verifiable producer beside the load: a stock Java client that says of every record how it ended.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::gaps::Acknowledgements;
use crate::{kafka, wait};

/// Keys by which the records are spread over the partitions.
const KEYS: &str = "96";
/// Records a second.
const PACE: &str = "1200";
/// How long the last acknowledgements may take after it was asked to end.
const END_WITHIN: Duration = Duration::from_secs(60);

/// What it has said.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Acknowledged records.
    pub acknowledgements: Acknowledgements,
    /// Records that the client gave up, each with the error that it surfaced.
    pub errors: Vec<String>,
}

/// A producer that runs until it is stopped.
pub struct JavaLoad {
    child: Child,
    said: Arc<Mutex<Said>>,
    reader: Option<JoinHandle<()>>,
    _settings: tempfile::NamedTempFile,
}

impl JavaLoad {
    /// Starts it with the client's defaults: idempotent, acks=all, retries without end. (The tool itself would switch
    /// retries off.)
    pub fn start(bootstrap: &str, topic: &str) -> Result<JavaLoad> {
        let settings = tempfile::NamedTempFile::new()?;
        std::fs::write(settings.path(), "retries=2147483647\nenable.idempotence=true\n")?;
        let mut command = kafka::tool("kafka-verifiable-producer")?;
        command.args(["--bootstrap-server", bootstrap, "--topic", topic]);
        command.args(["--throughput", PACE, "--repeating-keys", KEYS]);
        command.arg("--command-config").arg(settings.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let said = Arc::new(Mutex::new(Said::default()));
        let heard = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().expect("no holder panics").hear(&line);
            }
        });
        Ok(JavaLoad {
            child,
            said,
            reader: Some(reader),
            _settings: settings,
        })
    }

    /// Everything so far.
    pub fn said(&self) -> Said {
        self.said.lock().expect("no holder panics").clone()
    }

    /// Waits for so many further acknowledgements.
    pub fn wait_for_more(&self, count: usize, limit: Duration) -> Result<()> {
        let wanted = self.said().acknowledgements.count() + count;
        wait::until(
            &format!("{count} acknowledgements of the Java client"),
            limit,
            || {
                let got = self.said().acknowledgements.count();
                anyhow::ensure!(got >= wanted, "{got} of {wanted}");
                Ok(())
            },
        )
    }

    /// Asks it to end, which it does when everything that it sent has ended.
    pub fn finish(mut self) -> Result<Said> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        wait::until("the end of the Java client", END_WITHIN, || {
            self.child.try_wait()?.context("it still runs")
        })?;
        if let Some(reader) = self.reader.take() {
            reader
                .join()
                .map_err(|_| anyhow::anyhow!("the reader panicked"))?;
        }
        Ok(self.said())
    }
}

impl Drop for JavaLoad {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    fn hear(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else {
            return;
        };
        match event["name"].as_str() {
            Some("producer_send_success") => {
                let partition = event["partition"].as_i64().and_then(|it| i32::try_from(it).ok());
                self.acknowledgements
                    .record(Instant::now(), partition.unwrap_or(-1));
            }
            Some("producer_send_error") => {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                self.errors
                    .push(format!("{}: {}", text("exception"), text("message")));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_well_and_what_did_not_is_told_apart() {
        let mut said = Said::default();
        said.hear(r#"{"timestamp":1,"name":"startup_complete"}"#);
        said.hear(r#"{"timestamp":2,"name":"producer_send_success","key":"1","value":"5","offset":7,"partition":3,"topic":"t"}"#);
        said.hear(r#"{"timestamp":3,"name":"producer_send_error","exception":"class X","message":"gone","topic":"t"}"#);
        said.hear("no json");
        assert_eq!(said.acknowledgements.count(), 1);
        assert_eq!(said.errors, ["class X: gone"]);
    }
}

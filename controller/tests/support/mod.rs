//! Controllers as processes, and a client for each of their services.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(
    clippy::print_stderr,
    missing_docs,
    reason = "it reports to a terminal, and only to the tests beside it"
)]
#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use millrace_proto::v1;
use millrace_proto::v1::metadata_client::MetadataClient;
use millrace_proto::v1::session_client::SessionClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// Far longer than anything takes, so that only a fault is ever cut off.
const PATIENCE: Duration = Duration::from_secs(60);

/// A quorum of processes below one folder.
pub struct Controllers {
    pub dir: tempfile::TempDir,
    pub ports: Vec<u16>,
    processes: Vec<Option<Child>>,
}

impl Controllers {
    /// Starts `count` controllers on free ports.
    pub fn start(count: usize) -> Controllers {
        let mut controllers = Controllers::configured(count);
        (0..count).for_each(|at| controllers.run(at));
        controllers
    }

    /// Free ports and a folder for `count` controllers, none of which runs.
    pub fn configured(count: usize) -> Controllers {
        let holders: Vec<_> = (0..count)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports = holders
            .iter()
            .map(|held| held.local_addr().unwrap().port())
            .collect();
        drop(holders);
        Controllers {
            dir: tempfile::tempdir().unwrap(),
            ports,
            processes: (0..count).map(|_| None).collect(),
        }
    }

    /// Starts one that does not run.
    pub fn run(&mut self, at: usize) {
        let mut command = self.command(at);
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join(format!("{at}.log")))
            .unwrap();
        self.processes[at] = Some(command.stderr(log).spawn().unwrap());
    }

    /// The command that starts one.
    pub fn command(&self, at: usize) -> Command {
        let voters: Vec<String> = (self.ports.iter().enumerate())
            .map(|(at, port)| format!("{}@127.0.0.1:{port}", 101 + at))
            .collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-controller"));
        let mut set = |pair: String| {
            command.args(["--set", &pair]);
        };
        set("process.roles=controller".into());
        set(format!("node.id={}", 101 + at));
        set(format!("controller.quorum.voters={}", voters.join(",")));
        set("controller.listener.names=CONTROLLER".into());
        set(format!("listeners=CONTROLLER://127.0.0.1:{}", self.ports[at]));
        set(format!("log.dirs={}", self.data(at).display()));
        set("metrics.listener=127.0.0.1:0".into());
        command.stdin(Stdio::null());
        command
    }

    /// Where one is watched, as it says itself.
    pub async fn metrics(&self, at: usize) -> u16 {
        let log = self.dir.path().join(format!("{at}.log"));
        eventually("it serves metrics", async || {
            let text = std::fs::read_to_string(&log).ok()?;
            let line = text
                .lines()
                .rfind(|line| line.contains("metrics and probes are served"))?;
            let digits = line.rsplit_once("127.0.0.1:")?.1;
            digits.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()
        })
        .await
    }

    /// The data directory of one.
    pub fn data(&self, at: usize) -> PathBuf {
        self.dir.path().join(format!("data-{at}"))
    }

    /// SIGKILL.
    pub fn kill(&mut self, at: usize) {
        let mut process = self.processes[at].take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(&mut self, at: usize) {
        let mut process = self.processes[at].take().expect("it runs");
        let sent = Command::new("kill")
            .arg(process.id().to_string())
            .status()
            .unwrap();
        assert!(sent.success());
        assert!(process.wait().unwrap().success(), "an orderly stop ends with 0");
    }

    /// Sends a signal by its name.
    pub fn signal(&mut self, at: usize, name: &str) {
        let id = self.processes[at].as_ref().expect("it runs").id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Which of them run.
    pub fn running(&self) -> Vec<usize> {
        (0..self.processes.len())
            .filter(|at| self.processes[*at].is_some())
            .collect()
    }

    pub fn address(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[at])
    }

    pub fn channel(&self, at: usize) -> Channel {
        Endpoint::from_shared(self.address(at)).unwrap().connect_lazy()
    }

    /// What one says of itself, if it answers.
    pub async fn status(&self, at: usize) -> Option<v1::StatusReply> {
        let mut client = MetadataClient::new(self.channel(at));
        let asked = tokio::time::timeout(Duration::from_secs(1), client.status(v1::StatusRequest {}));
        Some(asked.await.ok()?.ok()?.into_inner())
    }

    /// The active controller, as soon as there is one.
    pub async fn active(&self) -> usize {
        eventually("a controller is active", async || {
            for at in self.running() {
                if self.status(at).await.is_some_and(|status| status.active) {
                    return Some(at);
                }
            }
            None
        })
        .await
    }

    /// Registers a broker with the active controller, whoever that becomes meanwhile: one metadata commit.
    pub async fn register(&self, broker: i32) -> i64 {
        eventually("a broker is registered", async || {
            for at in self.running() {
                if let Some(epoch) = self.try_register(at, broker).await {
                    return Some(epoch);
                }
            }
            None
        })
        .await
    }

    async fn try_register(&self, at: usize, broker: i32) -> Option<i64> {
        let asked = tokio::time::timeout(Duration::from_secs(1), self.ask_to_register(at, broker));
        asked.await.ok()?
    }

    async fn ask_to_register(&self, at: usize, broker: i32) -> Option<i64> {
        let mut session = Session::open(self.channel(at)).await?;
        session.say(registration(broker)).await;
        match session.hear().await? {
            v1::controller_says::Says::Registered(registered) => {
                session.say(v1::broker_says::Says::Goodbye(v1::Goodbye {})).await;
                Some(registered.epoch)
            }
            _ => None,
        }
    }

    /// The end of the committed metadata as one knows it.
    pub async fn committed_end(&self, at: usize) -> i64 {
        eventually("it answers", async || Some(self.status(at).await?.committed_end)).await
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            for at in 0..self.processes.len() {
                let log = std::fs::read_to_string(self.dir.path().join(format!("{at}.log")));
                eprintln!("--- controller {}\n{}", 101 + at, log.unwrap_or_default());
            }
        }
    }
}

/// Asks until there is an answer.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    let answered = tokio::time::timeout(PATIENCE, asking).await;
    answered.unwrap_or_else(|_| panic!("never: {what}"))
}

/// A broker's session.
pub struct Session {
    says: mpsc::Sender<v1::BrokerSays>,
    hears: Streaming<v1::ControllerSays>,
}

impl Session {
    pub async fn open(channel: Channel) -> Option<Session> {
        let (says, outbound) = mpsc::channel(4);
        let opened = SessionClient::new(channel)
            .open(ReceiverStream::new(outbound))
            .await;
        Some(Session {
            says,
            hears: opened.ok()?.into_inner(),
        })
    }

    pub async fn say(&mut self, says: v1::broker_says::Says) {
        // A controller that has gone shows when it is heard.
        let _ = self.says.send(v1::BrokerSays { says: Some(says) }).await;
    }

    pub async fn hear(&mut self) -> Option<v1::controller_says::Says> {
        self.hears.message().await.ok()??.says
    }
}

/// What a broker that was just started says.
pub fn registration(broker: i32) -> v1::broker_says::Says {
    let id = |low: u128| metadata::uuid::Uuid::from_random_bits((1 << 100) + low).to_string();
    let number = u128::try_from(broker).unwrap();
    v1::broker_says::Says::Register(v1::Register {
        broker,
        incarnation: id(number),
        endpoints: vec![v1::BrokerEndpoint {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            security: 0,
        }],
        features: features(),
        directories: vec![id(1_000 + number)],
        ..Default::default()
    })
}

fn features() -> Vec<v1::FeatureRange> {
    let served = metadata::feature::served().into_iter();
    let range = |(name, levels): (String, metadata::record::LevelRange)| v1::FeatureRange {
        name,
        min: i32::from(levels.min),
        max: i32::from(levels.max),
    };
    served.map(range).collect()
}

/// Follows one from a position until `enough` says so, and returns the batches.
pub async fn follow(
    channel: Channel,
    next_offset: i64,
    last_term: u64,
    mut enough: impl FnMut(&v1::FollowEvent) -> bool,
) -> Vec<v1::FollowEvent> {
    let request = v1::FollowRequest {
        next_offset,
        last_term,
        ..Default::default()
    };
    let following = async {
        let mut events = Vec::new();
        let mut stream = MetadataClient::new(channel)
            .follow(request)
            .await
            .unwrap()
            .into_inner();
        while let Some(event) = stream.message().await.unwrap() {
            let done = enough(&event);
            events.push(event);
            if done {
                break;
            }
        }
        events
    };
    tokio::time::timeout(PATIENCE, following)
        .await
        .expect("the stream goes on")
}

/// Cuts a file to a part of its length.
pub fn cut(path: &Path, len: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

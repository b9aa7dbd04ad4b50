//! A broker process beside a stand-in controller, and a bare socket to speak to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use millrace_proto::v1;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use wire::{ApiVersion, CorrelationId, Request, frame};

use crate::fake_controller::FakeController;

/// Patience with a process that does not do what it must; far above what any step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running broker; it ends with the test.
pub struct Broker {
    process: Child,
    /// Its Kafka port.
    pub port: u16,
    /// Where it is watched, if it is.
    pub metrics: Option<u16>,
    dir: TempDir,
    /// What it says after it is ready.
    rest: Option<JoinHandle<Vec<String>>>,
    sets: Vec<String>,
    controller: FakeController,
    runtime: Runtime,
}

impl Broker {
    /// What the kernel says of its process.
    pub fn kernel_status(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap()
    }

    /// Starts one and waits until it serves.
    pub fn start(sets: &[&str]) -> Broker {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (controller, controllers) = runtime.block_on(FakeController::start());
        let dir = tempfile::tempdir().unwrap();
        let own = [
            "process.roles=broker".to_owned(),
            "node.id=1".to_owned(),
            "listeners=PLAINTEXT://127.0.0.1:0".to_owned(),
            format!("controller.quorum.voters=100@127.0.0.1:{controllers}"),
            "controller.listener.names=CONTROLLER".to_owned(),
            format!("log.dirs={}", dir.path().join("data").display()),
        ];
        let more = sets.iter().map(|set| (*set).to_owned());
        let sets: Vec<String> = own.into_iter().chain(more).collect();
        let mut process = spawn(&sets);
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut seen = Vec::new();
        let ready = lines.by_ref().map_while(Result::ok).find(|line| {
            seen.push(line.clone());
            line.contains("ready")
        });
        let Some(ready) = ready else {
            panic!("the broker ended before it served:\n{}", seen.join("\n"))
        };
        let port_in = |line: &str| -> u16 {
            let address = line.split("127.0.0.1:").nth(1).unwrap();
            let digits: String = address.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        let watched = seen
            .iter()
            .find(|line| line.contains("metrics and probes are served"));
        let (port, metrics) = (port_in(&ready), watched.map(|line| port_in(line)));
        // The rest of what it says is read, or the pipe would fill up.
        let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect());
        Broker {
            process,
            port,
            metrics,
            dir,
            rest: Some(rest),
            sets,
            controller,
            runtime,
        }
    }

    /// A fresh connection.
    pub fn connect(&self) -> Peer {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { stream, next: 0 }
    }

    /// Its log directory.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The controller beside it.
    pub fn controller(&self) -> &FakeController {
        &self.controller
    }

    /// Asks it to stop.
    pub fn ask_to_stop(&self) {
        ask_to_stop(&self.process);
    }

    /// Waits until it has asked so often to be let go.
    pub fn asks_to_be_let_go(&self, count: usize) {
        self.runtime.block_on(self.controller.asked_to_let_go(count));
    }

    /// Waits until it ends by itself: how, and what it said.
    pub fn ends(&mut self) -> (ExitStatus, String) {
        let status = self.process.wait().unwrap();
        let said = self.rest.take().unwrap().join().unwrap();
        (status, said.join("\n"))
    }

    /// Asks it to stop and waits until it has; its directory stays while the result lives.
    pub fn terminate(mut self) -> Ended {
        let status = stopped(&mut self.process);
        Ended { status, broker: self }
    }

    /// Resident memory of the process, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A broker that has ended.
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    broker: Broker,
}

impl Ended {
    /// The next process on the same directory asks to be registered, is not answered, and is asked to stop: what it asked
    /// for, and how it ended.
    pub fn again_without_an_answer(&self) -> (v1::Register, ExitStatus) {
        let Broker {
            controller, runtime, ..
        } = &self.broker;
        controller.fall_silent();
        let before = controller.registration_count();
        let mut process = spawn(&self.broker.sets);
        let stderr = process.stderr.take().unwrap();
        let read = std::thread::spawn(move || BufReader::new(stderr).lines().count());
        let asked = runtime.block_on(controller.registration_after(before));
        let status = stopped(&mut process);
        read.join().unwrap();
        (asked, status)
    }
}

fn spawn(sets: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-broker"));
    for set in sets {
        command.args(["--set", set]);
    }
    command
        .env("NO_COLOR", "1")
        .env("RUST_LOG", "info")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn ask_to_stop(process: &Child) {
    let pid = rustix::process::Pid::from_child(process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

/// Asks a process to stop and waits until it has.
fn stopped(process: &mut Child) -> ExitStatus {
    ask_to_stop(process);
    process.wait().unwrap()
}

/// The client's end of a connection.
pub struct Peer {
    stream: TcpStream,
    next: i32,
}

impl Peer {
    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        // A peer that has closed already is what many tests want to see.
        let _ = self.stream.write_all(bytes);
    }

    /// Sends the same again and again until the broker takes nothing more in.
    pub fn fill(&mut self, bytes: &[u8]) {
        let short = Some(Duration::from_millis(100));
        self.stream.set_write_timeout(short).unwrap();
        let many = bytes.repeat(1000);
        while self.stream.write_all(&many).is_ok() {}
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Whether the broker closes the connection without a word.
    pub fn is_closed(&mut self) -> bool {
        let mut one = [0];
        match self.stream.read(&mut one) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Sends a request.
    pub fn start<R: Request>(&mut self, version: i16, request: &R) {
        let id = CorrelationId(self.next);
        self.next += 1;
        let bytes = frame::request(ApiVersion(version), id, Some("test"), request)
            .unwrap()
            .into_bytes();
        self.send(&bytes);
    }

    /// The next answer.
    pub fn receive<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        let frame = self.receive_frame();
        let (id, response) = frame::parse_response::<R>(ApiVersion(version), frame).unwrap();
        (id.0, response)
    }

    /// The next answer's bytes.
    pub fn receive_frame(&mut self) -> Bytes {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).unwrap();
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(prefix)).unwrap()];
        self.stream.read_exact(&mut frame).unwrap();
        frame.into()
    }

    /// Sends a request and waits for its answer.
    pub fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.start(version, request);
        self.receive::<R>(version).1
    }
}

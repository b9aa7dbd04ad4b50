//! `millrace up` with programs that stand in for the nodes: how it begins, what it reports, how it ends.
//! The nodes themselves are tested with the real ones in `tests/`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// A directory with the command and its stand-ins, and a place for a cluster.
struct Place {
    dir: TempDir,
    port: u16,
}

impl Place {
    fn new() -> Self {
        Self::of(3)
    }

    /// With ports for so many nodes.
    fn of(nodes: u16) -> Self {
        // Linked, not copied: a copy could still be open for writing in a process that another test just forked.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let stand_ins = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_ins");
        for name in ["millrace-broker", "millrace-controller"] {
            std::os::unix::fs::symlink(stand_ins.join(name), dir.path().join(name)).unwrap();
        }
        std::fs::hard_link(env!("CARGO_BIN_EXE_millrace"), dir.path().join("millrace")).unwrap();
        Self {
            dir,
            port: free_ports(2 * nodes),
        }
    }

    fn cluster(&self) -> std::path::PathBuf {
        self.dir.path().join("cluster")
    }

    fn up(&self, extra: &[&str]) -> Up {
        self.up_with("1", extra)
    }

    fn up_with(&self, controllers: &str, extra: &[&str]) -> Up {
        let mut child = Command::new(self.dir.path().join("millrace"))
            .args([
                "up",
                "--json",
                "--controllers",
                controllers,
                "--brokers",
                "2",
                "--port",
                &self.port.to_string(),
                "--dir",
            ])
            .arg(self.cluster())
            .args(extra)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Up { child, out, err }
    }
}

/// The first of `count` ports in a row that are free now, below those that outgoing connections take, above those
/// of the cluster harness, and never the same twice in one process. They are bound to see that they are free but
/// never listened on: a child that is being started would inherit the listener and keep it for a moment.
fn free_ports(count: u16) -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 130).unwrap() * 20;
    let free = |port: u16| {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&address.into()).is_ok()
    };
    loop {
        let offset = start.wrapping_add(TAKEN.fetch_add(count, Ordering::Relaxed)) % 2_600;
        let first = 30_000 + offset;
        if (first..first + count).all(free) {
            return first;
        }
    }
}

/// A running `millrace up`.
struct Up {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Up {
    /// The line that is printed when the cluster serves.
    async fn serving(&mut self) -> serde_json::Value {
        let line = self
            .out
            .next_line()
            .await
            .unwrap()
            .expect("it serves before it ends");
        serde_json::from_str(&line).unwrap()
    }

    /// Progress up to and with the first line that holds `part`.
    async fn told(&mut self, part: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.err.next_line().await.unwrap() {
            let found = line.contains(part);
            lines.push(line);
            if found {
                return lines;
            }
        }
        panic!("{part:?} is not in {lines:#?}");
    }

    fn terminate(&self) {
        signal(self.child.id().unwrap(), Signal::TERM);
    }

    /// The exit code, and everything that was told until the end.
    async fn end(mut self) -> (Option<i32>, Vec<String>) {
        let mut lines = Vec::new();
        while let Some(line) = self.err.next_line().await.unwrap() {
            lines.push(line);
        }
        (self.child.wait().await.unwrap().code(), lines)
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// The process id that is printed for a node.
fn pid(serving: &serde_json::Value, name: &str) -> u32 {
    u32::try_from(serving["pids"][name].as_u64().unwrap()).unwrap()
}

/// A node that somebody begins with this line and that serves.
async fn by_hand(line: &str) -> Child {
    let words: Vec<&str> = line.split(' ').collect();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some("ready"));
    child
}

fn position(lines: &[String], part: &str) -> usize {
    lines
        .iter()
        .position(|line| line.contains(part))
        .unwrap_or_else(|| panic!("{part:?} is not in {lines:#?}"))
}

#[tokio::test]
async fn a_cluster_serves_and_stops_brokers_first_and_starts_again_as_the_same() {
    let place = Place::new();
    let mut up = place.up(&[]);

    let serving = up.serving().await;
    up.terminate();
    let (code, lines) = up.end().await;

    assert_eq!(
        serving["bootstrap"],
        format!("127.0.0.1:{},127.0.0.1:{}", place.port, place.port + 1)
    );
    assert_eq!(serving["controllers"], format!("127.0.0.1:{}", place.port + 2));
    assert_eq!(serving["pids"].as_object().unwrap().len(), 3);
    assert_eq!(code, Some(0), "{lines:#?}");
    let last_broker = position(&lines, "broker-1 stopped").max(position(&lines, "broker-2 stopped"));
    assert!(
        last_broker < position(&lines, "stopping controllers: controller-101"),
        "{lines:#?}"
    );
    position(&lines, "controller-101 stopped");

    let mut again = place.up(&[]);
    assert_eq!(again.serving().await["cluster_id"], serving["cluster_id"]);
    again.terminate();
    assert_eq!(again.end().await.0, Some(0));
}

#[tokio::test]
async fn a_node_that_cannot_start_is_shown_with_its_last_words_and_ends_the_start() {
    let place = Place::new();
    let (code, lines) = place.up(&["--set", "broker.rack=broken"]).end().await;
    assert_eq!(code, Some(1), "{lines:#?}");
    position(&lines, "ended by itself: exit code 1");
    position(&lines, "  | the disk is on fire");
    position(&lines, "controller-101 stopped");
}

#[tokio::test]
async fn a_node_that_is_killed_is_reported_and_the_others_go_on() {
    let place = Place::new();
    let mut up = place.up(&[]);
    let serving = up.serving().await;

    signal(
        u32::try_from(serving["pids"]["broker-2"].as_u64().unwrap()).unwrap(),
        Signal::KILL,
    );

    let told = up.told("the others go on").await;
    position(&told, "broker-2 ended by itself: killed by signal 9");
    position(&told, "broker-2/server.properties");
    up.terminate();
    let (code, lines) = up.end().await;
    assert_eq!(code, Some(0), "{lines:#?}");
    position(&lines, "stopping brokers: broker-1");
}

#[tokio::test]
async fn nodes_end_with_a_command_that_is_killed() {
    let place = Place::new();
    let mut up = place.up(&[]);
    up.serving().await;
    let mut connection = TcpStream::connect(("127.0.0.1", place.port)).await.unwrap();

    signal(up.child.id().unwrap(), Signal::KILL);

    let read = connection.read(&mut [0; 1]).await;
    assert!(
        matches!(read, Ok(0) | Err(_)),
        "the broker is gone, and its connection with it"
    );
}

#[tokio::test]
async fn two_cannot_run_in_one_directory() {
    let place = Place::new();
    let mut up = place.up(&[]);
    up.serving().await;

    let (code, lines) = place.up(&[]).end().await;

    assert_eq!(code, Some(2), "{lines:#?}");
    position(&lines, "another `millrace up` runs there");
    up.terminate();
    assert_eq!(up.end().await.0, Some(0));
}

#[tokio::test]
async fn a_taken_port_begins_nothing() {
    let place = Place::new();
    let held = TcpListener::bind(("127.0.0.1", place.port + 1)).unwrap();
    let (code, lines) = place.up(&[]).end().await;
    drop(held);
    assert_eq!(code, Some(2), "{lines:#?}");
    position(
        &lines,
        &format!(
            "127.0.0.1:{} for broker-2: another process listens there",
            place.port + 1
        ),
    );
    assert!(!place.cluster().exists(), "nothing was made");
}

#[tokio::test]
async fn a_start_that_is_refused_leaves_no_lock_in_a_directory_that_was_there() {
    let place = Place::new();
    std::fs::create_dir(place.cluster()).unwrap();
    let held = TcpListener::bind(("127.0.0.1", place.port + 1)).unwrap();
    let (code, lines) = place.up(&[]).end().await;
    drop(held);
    assert_eq!(code, Some(2), "{lines:#?}");
    position(&lines, "another process listens there");
    assert_eq!(
        std::fs::read_dir(place.cluster()).unwrap().count(),
        0,
        "nothing was made"
    );
}

#[tokio::test]
async fn a_wrong_setting_begins_nothing() {
    let place = Place::new();
    let (code, lines) = place.up(&["--set", "num.partitions=0"]).end().await;
    assert_eq!(code, Some(2), "{lines:#?}");
    position(
        &lines,
        "num.partitions=0: not allowed; a whole number of 1 or more",
    );
    assert!(!place.cluster().exists(), "nothing was made");
}

#[tokio::test]
async fn the_number_of_controllers_stays() {
    let place = Place::new();
    let mut up = place.up(&[]);
    up.serving().await;
    up.terminate();
    assert_eq!(up.end().await.0, Some(0));
    let (code, lines) = place.up_with("3", &[]).end().await;
    assert_eq!(code, Some(2), "{lines:#?}");
    position(&lines, "holds a cluster of 1 controller, not 3");
}

/// With fewer brokers than the cluster was begun with it started silently, and its partitions lacked their replicas.
#[tokio::test]
async fn no_broker_that_holds_data_is_left_out() {
    let place = Place::new();
    let mut up = place.up(&[]);
    up.serving().await;
    up.terminate();
    assert_eq!(up.end().await.0, Some(0));
    std::fs::create_dir_all(place.cluster().join("broker-3/data")).unwrap();

    let (code, lines) = place.up(&[]).end().await;

    assert_eq!(code, Some(2), "{lines:#?}");
    position(
        &lines,
        "holds data of 3 brokers, and --brokers 2 would leave 3 out; use --brokers 3 or another --dir",
    );
}

#[tokio::test]
async fn a_setting_that_comes_too_late_is_said_to() {
    const LATE: &[&str] = &["--set", "min.insync.replicas=2"];
    let place = Place::new();
    let mut first = place.up(LATE);
    first.serving().await;
    first.terminate();
    let (_, lines) = first.end().await;
    assert!(
        !lines.iter().any(|line| line.contains("has no effect")),
        "{lines:#?}"
    );

    let mut again = place.up(LATE);
    again.serving().await;
    again.terminate();

    let (_, lines) = again.end().await;
    position(&lines, "warning: --set min.insync.replicas=2 has no effect");
    position(&lines, "millrace config set brokers min.insync.replicas=2");
}

/// Brokers wait for controllers to take their leaderships over; where none runs that was a long and silent wait.
#[tokio::test]
async fn without_controllers_brokers_that_wait_for_them_are_stopped_soon() {
    let place = Place::new();
    let mut up = place.up(&["--set", "broker.rack=stubborn"]);
    let serving = up.serving().await;
    signal(
        u32::try_from(serving["pids"]["controller-101"].as_u64().unwrap()).unwrap(),
        Signal::KILL,
    );
    up.told("the others go on").await;

    up.terminate();
    let (code, lines) = up.end().await;

    assert_eq!(code, Some(1), "{lines:#?}");
    let said = position(
        &lines,
        "no controller runs: nobody can take over from them; after 5 s they stop without that",
    );
    assert!(
        said < position(&lines, "asking again: broker-1, broker-2"),
        "{lines:#?}"
    );
    assert!(
        said < position(&lines, "killing broker-1, broker-2"),
        "{lines:#?}"
    );
}

/// They were killed, and the next start had to check their logs.
#[tokio::test]
async fn without_controllers_brokers_are_asked_again_and_end_in_order() {
    let place = Place::new();
    let mut up = place.up(&["--set", "broker.rack=patient"]);
    let serving = up.serving().await;
    signal(pid(&serving, "controller-101"), Signal::KILL);
    up.told("the others go on").await;

    up.terminate();
    up.told("after 5 s they stop without that").await;
    // Held up until both took the first signal: a second one would be one with it before.
    let command = up.child.id().unwrap();
    signal(command, Signal::STOP);
    for port in [place.port, place.port + 1] {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        connection.write_all(&[0; 4]).await.unwrap();
        assert_eq!(connection.read(&mut [0; 1]).await.unwrap(), 1);
    }
    signal(command, Signal::CONT);
    let (code, lines) = up.end().await;

    assert_eq!(code, Some(0), "{lines:#?}");
    position(&lines, "asking again: broker-1, broker-2");
    position(&lines, "broker-1 stopped (exit code 0)");
    position(&lines, "broker-2 stopped (exit code 0)");
}

/// The command that begins a node again made a process that Ctrl-C did not stop, and the next start found its port taken.
#[tokio::test]
async fn what_is_begun_again_by_hand_is_stopped_with_the_rest() {
    let place = Place::new();
    let mut up = place.up(&[]);
    let serving = up.serving().await;
    signal(pid(&serving, "broker-2"), Signal::KILL);
    let told = up.told("Ctrl-C here stops it with them: ").await;
    let mut again = by_hand(told.last().unwrap().split("with them: ").nth(1).unwrap()).await;

    up.terminate();
    let (code, lines) = up.end().await;

    assert_eq!(code, Some(0), "{lines:#?}");
    let line = format!(
        "broker-2 was begun by hand (process {}), and is stopped as well",
        again.id().unwrap()
    );
    assert!(position(&lines, &line) < position(&lines, "stopping brokers: broker-1, broker-2"));
    assert!(
        position(&lines, "broker-2 stopped (begun by hand)")
            < position(&lines, "stopping controllers: controller-101"),
        "{lines:#?}"
    );
    assert_eq!(again.wait().await.unwrap().code(), Some(0));
}

/// With the last node that it had begun it lost sight of those begun by hand: they ended, and it stayed with none.
#[tokio::test]
async fn the_end_of_the_last_node_is_noticed_where_that_was_begun_by_hand() {
    let place = Place::new();
    let mut up = place.up(&[]);
    let serving = up.serving().await;
    signal(pid(&serving, "broker-2"), Signal::KILL);
    let told = up.told("Ctrl-C here stops it with them: ").await;
    let mut again = by_hand(told.last().unwrap().split("with them: ").nth(1).unwrap()).await;
    for name in ["controller-101", "broker-1"] {
        signal(pid(&serving, name), Signal::KILL);
        up.told("the others go on").await;
    }

    signal(again.id().unwrap(), Signal::TERM);

    let (code, lines) = up.end().await;
    assert_eq!(code, Some(1), "{lines:#?}");
    position(&lines, "broker-2 ended by itself: begun by hand");
    position(&lines, "no node is left");
    assert_eq!(again.wait().await.unwrap().code(), Some(0));
}

/// "Another process listens there; choose other ports", it said, and with other ports the directory was taken.
#[tokio::test]
async fn nodes_of_the_same_cluster_that_still_run_are_named() {
    let place = Place::new();
    let mut up = place.up(&[]);
    up.serving().await;
    up.terminate();
    assert_eq!(up.end().await.0, Some(0));
    let program = place.dir.path().join("millrace-broker");
    let config = place.cluster().join("broker-1/server.properties");
    let mut left = by_hand(&format!("{} --config {}", program.display(), config.display())).await;

    let (code, lines) = place.up(&[]).end().await;

    assert_eq!(code, Some(2), "{lines:#?}");
    let process = left.id().unwrap();
    position(
        &lines,
        &format!("still running without a `millrace up`: broker-1 (process {process});"),
    );
    position(&lines, &format!("`kill {process}`"));
    assert!(
        !lines.iter().any(|line| line.contains("another process")),
        "{lines:#?}"
    );
    signal(process, Signal::TERM);
    assert_eq!(left.wait().await.unwrap().code(), Some(0));
    let mut again = place.up(&[]);
    again.serving().await;
    again.terminate();
    assert_eq!(again.end().await.0, Some(0));
}

/// Every write with acks=all waited once a broker was away, and nothing had told so.
#[tokio::test]
async fn a_minimum_that_so_few_brokers_cannot_reach_is_warned_of_when_it_is_taken() {
    const HIGH: &[&str] = &["--set", "min.insync.replicas=5"];
    let warning = "warning: min.insync.replicas=5: with 2 brokers";
    let place = Place::new();
    let mut first = place.up(HIGH);
    first.serving().await;
    first.terminate();
    let (_, lines) = first.end().await;
    position(&lines, warning);
    position(
        &lines,
        "use --brokers 5, or `millrace config set brokers min.insync.replicas=1 ",
    );

    let mut again = place.up(HIGH);
    again.serving().await;
    again.terminate();

    let (_, lines) = again.end().await;
    assert!(!lines.iter().any(|line| line.contains(warning)), "{lines:#?}");
}

/// One controller of three can take nothing over either, and was waited for a minute.
#[tokio::test]
async fn brokers_that_wait_for_too_few_controllers_are_stopped_soon() {
    let place = Place::of(5);
    let mut up = place.up_with("3", &["--set", "broker.rack=stubborn"]);
    let serving = up.serving().await;
    for name in ["controller-101", "controller-103"] {
        let pid = serving["pids"][name].as_u64().unwrap();
        signal(u32::try_from(pid).unwrap(), Signal::KILL);
        up.told("the others go on").await;
    }

    up.terminate();
    let (code, lines) = up.end().await;

    assert_eq!(code, Some(1), "{lines:#?}");
    let why =
        "only 1 of 3 controllers runs: nobody can take over from them; after 5 s they stop without that";
    let said = position(&lines, why);
    assert!(
        said < position(&lines, "killing broker-1, broker-2"),
        "{lines:#?}"
    );
    position(&lines, "stopping controllers: controller-102");
}

/// A shell, an editor or a debugger whose words name a node was taken for that node: nothing could begin beside it, and at
/// the end of a command it was stopped.
#[tokio::test]
async fn a_process_that_only_names_a_node_is_let_alone() {
    let place = Place::new();
    let mut up = place.up(&[]);
    let serving = up.serving().await;
    let mut other = Command::new("sh")
        .args(["-c", "echo ready >&2; read word"])
        .arg(place.dir.path().join("millrace-broker"))
        .arg("--config")
        .arg(place.cluster().join("broker-2/server.properties"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(other.stderr.take().unwrap()).lines();
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some("ready"));
    signal(pid(&serving, "broker-2"), Signal::KILL);
    up.told("the others go on").await;
    up.terminate();
    let (code, lines) = up.end().await;
    assert_eq!(code, Some(0), "{lines:#?}");

    let mut again = place.up(&[]);
    again.serving().await;
    again.terminate();

    assert_eq!(again.end().await.0, Some(0));
    // It still reads, and ends only when nothing is left to read.
    assert_eq!(other.try_wait().unwrap(), None);
    drop(other.stdin.take());
    assert_eq!(other.wait().await.unwrap().code(), Some(1));
}

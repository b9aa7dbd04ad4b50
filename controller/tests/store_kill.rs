//! The store under SIGKILL and damage: a child process appends and is killed; copies of its store get damaged tails.
//!
//! Law: what was acknowledged is there after a kill; a damaged store holds everything acknowledged or is not started
//! on, and never has a hole. `STORE_KILL_ROUNDS` and `STORE_DAMAGE_ROUNDS` set how often; `STORE_SEED` the choices.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it reports to a terminal"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use bytes::Bytes;
use controller::quorum::drill::Drill;
use host::{Entropy, OsDisk, SeededEntropy};

const WRITER: &str = "--write-until-killed";
const BATCH: u64 = 16;
const DAMAGE_BYTES_MAX: u64 = 9 * 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, verb, dir] = &arguments[..]
        && verb == WRITER
    {
        write_until_killed(Path::new(dir));
    }
    let number = |name: &str, usual: u64| {
        let given = std::env::var(name).ok();
        given.map_or(usual, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{name}={text} is no number"))
        })
    };
    let (kills, damages) = (number("STORE_KILL_ROUNDS", 12), number("STORE_DAMAGE_ROUNDS", 24));
    let chance = SeededEntropy::new(number("STORE_SEED", 1));
    let mut tally = Tally::default();
    let dir = tempfile::tempdir().unwrap();
    let damages_per_kill = damages.div_ceil(kills.max(1));
    for round in 0..kills {
        let acknowledged = kill_a_writer(dir.path(), &chance);
        let drill = Drill::open(&OsDisk, dir.path());
        let drill = drill.unwrap_or_else(|why| panic!("round {round}: a killed store does not open: {why}"));
        check(&drill, acknowledged);
        tally.kills += 1;
        tally.entries = drill.next_index();
        let (held, next) = (drill.entries().len() as u64, drill.next_index());
        drop(drill);
        for _ in 0..damages_per_kill.min(damages - tally.damages()) {
            damage_a_copy(dir.path(), next, held, &chance, &mut tally);
        }
    }
    println!("{tally}");
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Tally {
    kills: u64,
    entries: u64,
    refused: u64,
    whole: u64,
}

impl Tally {
    fn damages(&self) -> u64 {
        self.refused + self.whole
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "store: {} kills, {} entries acknowledged and there; {} damaged tails: {} refused, {} whole; \
             lost entries 0, holes 0",
            self.kills,
            self.entries,
            self.damages(),
            self.refused,
            self.whole
        )
    }
}

/// The bytes of an entry say which one it is; its length varies, now and then beyond one value of the store.
fn payload(index: u64) -> Bytes {
    let length = match index % 97 {
        0 => 40_000,
        other => 60 + 7 * usize::try_from(other).unwrap(),
    };
    let mut bytes = index.to_be_bytes().to_vec();
    bytes.resize(length, u8::try_from(index % 251).unwrap());
    Bytes::from(bytes)
}

/// Appends for ever, and says on standard output what is durable.
fn write_until_killed(dir: &Path) -> ! {
    let mut drill = Drill::open(&OsDisk, dir).unwrap();
    let mut out = std::io::stdout();
    let mut vote = drill.voted_term().unwrap_or_default();
    loop {
        let first = drill.next_index();
        drill.append((first..first + BATCH).map(payload)).wait().unwrap();
        writeln!(out, "{}", first + BATCH - 1).unwrap();
        out.flush().unwrap();
        if first.is_multiple_of(BATCH * 8) {
            vote += 1;
            drill.vote(vote).wait().unwrap();
        }
        if first.is_multiple_of(BATCH * 32) && 2_000 < first {
            drill.purge(first - 1_000).wait().unwrap();
        }
    }
}

/// Starts a writer, kills it after a random number of batches, and returns the last index that it said is durable.
fn kill_a_writer(dir: &Path, chance: &SeededEntropy) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([WRITER.as_ref(), dir.as_os_str()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let batches = 1 + chance.below(200);
    let mut acknowledged = 0;
    for _ in 0..batches {
        acknowledged = lines
            .next()
            .expect("the writer writes until it is killed")
            .unwrap()
            .parse()
            .unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Whole lines still in the pipe were said before the kill. The last one may be cut.
    for line in lines {
        if let Ok(index) = line.unwrap().parse::<u64>()
            && acknowledged + BATCH == index
        {
            acknowledged = index;
        }
    }
    acknowledged
}

fn check(drill: &Drill, acknowledged: u64) {
    let entries = drill.entries();
    assert!(
        acknowledged < drill.next_index(),
        "entry {acknowledged} was acknowledged, and the log ends before {}",
        drill.next_index()
    );
    for pair in entries.windows(2) {
        assert_eq!(pair[0].0 + 1, pair[1].0, "a hole in the log");
    }
    for (index, bytes) in &entries {
        assert_eq!(*bytes, payload(*index), "entry {index} is not what was written");
    }
}

/// Damages the tail of the newest file of a copy, and opens it.
fn damage_a_copy(dir: &Path, next: u64, held: u64, chance: &SeededEntropy, tally: &mut Tally) {
    let copied = tempfile::tempdir().unwrap();
    let copy = copied.path();
    copy_all(dir, copy);
    let db = copy.join("raft/db");
    let mut bytes = std::fs::read(&db).unwrap();
    let damage = usize::try_from(1 + chance.below(DAMAGE_BYTES_MAX)).unwrap();
    // The file may end in space that was laid out and never written: the tail is what has content.
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let from = end.saturating_sub(damage);
    match chance.below(3) {
        0 => bytes.truncate(from),
        1 => bytes[from..end].fill(0),
        _ => chance.fill(&mut bytes[from..end]),
    }
    std::fs::write(&db, bytes).unwrap();
    match quietly(|| Drill::open(&OsDisk, copy)) {
        Err(_) => tally.refused += 1,
        Ok(drill) => {
            check(&drill, next - 1);
            assert!(
                held <= drill.entries().len() as u64,
                "entries are gone from a store that opened"
            );
            tally.whole += 1;
        }
    }
}

/// A damaged store may panic inside sled; the panic becomes an error, and its text is nobody's concern here.
fn quietly<T>(open: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let opened = open();
    std::panic::set_hook(hook);
    opened
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

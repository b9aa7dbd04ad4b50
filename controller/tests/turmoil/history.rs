//! What was seen of a simulated quorum, in order: all that the invariants may look at.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// One controller, counted from 0.
pub type At = usize;

/// An entry as it stands in a log: its term, and a checksum of its bytes.
pub type Entry = (u64, u32);

/// A log that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Entries with an index below this are only in a snapshot.
    pub begin: u64,
    /// By index.
    pub entries: BTreeMap<u64, Entry>,
}

/// Something that was seen.
#[derive(Clone, PartialEq, Eq)]
pub enum Fact {
    /// A process began, with a snapshot up to a position.
    Began { at: At, life: u32, position: u64 },
    /// A process that nobody had hurt ended, or could not start.
    Died { at: At, why: String },
    /// A vote became durable; `won` when it says whom the majority has chosen, which no vote of its own can undo.
    Voted {
        directory: String,
        term: u64,
        candidate: u64,
        won: bool,
    },
    /// A controller said that it leads, with this log.
    Led { at: At, term: u64, log: Log },
    /// A log was looked at.
    Logged { at: At, log: Log },
    /// A process was told that an entry is committed. `durable_on` counts the disks that would keep it then.
    Applied {
        at: At,
        life: u32,
        position: u64,
        term: u64,
        batch: Option<Bytes>,
        durable_on: usize,
        majority: usize,
    },
    /// A process was given a snapshot up to a position in place of entries.
    Replaced { at: At, life: u32, position: u64 },
    /// A process published an image.
    Published {
        at: At,
        life: u32,
        next_offset: i64,
        digest: u32,
    },
    /// A client was told that a block of producer ids is its own.
    Acknowledged { at: At, term: u64, first: i64 },
    /// A client was told that nothing came of its command here.
    Refused { at: At },
    /// The quorum was disturbed.
    Fault(String),
    /// Everything was healed long ago, and this is how far each one is.
    Healed { ends: Vec<Option<i64>>, voters: usize },
}

impl fmt::Debug for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { at, life, position } => write!(f, "{at}/{life} begins at {position}"),
            Self::Died { at, why } => write!(f, "{at} died: {why}"),
            Self::Voted {
                directory,
                term,
                candidate,
                won,
            } => {
                let how = if *won { "follows" } else { "votes for" };
                write!(f, "{directory} {how} {candidate} in term {term}")
            }
            Self::Led { at, term, log } => {
                let end = log
                    .entries
                    .last_key_value()
                    .map_or(log.begin, |(index, _)| index + 1);
                write!(f, "{at} leads term {term} with a log from {} to {end}", log.begin)
            }
            Self::Logged { at, .. } => write!(f, "{at}: its log was looked at"),
            Self::Applied {
                at,
                life,
                position,
                term,
                batch,
                durable_on,
                ..
            } => {
                let bytes = batch.as_ref().map_or(0, Bytes::len);
                write!(
                    f,
                    "{at}/{life} applies {position} of term {term}, {bytes} bytes, on {durable_on} disks"
                )
            }
            Self::Replaced { at, life, position } => {
                write!(f, "{at}/{life} is given a snapshot up to {position}")
            }
            Self::Published {
                at,
                life,
                next_offset,
                digest,
            } => write!(f, "{at}/{life} publishes offset {next_offset}, {digest:08x}"),
            Self::Acknowledged { at, term, first } => {
                write!(f, "{at} acknowledges ids from {first} in term {term}")
            }
            Self::Refused { at } => write!(f, "{at} refuses"),
            Self::Fault(what) => write!(f, "fault: {what}"),
            Self::Healed { ends, voters } => write!(f, "healed: {ends:?}, {voters} voters"),
        }
    }
}

/// Facts with their moments.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order in which they were seen.
    pub facts: Vec<(Duration, Fact)>,
}

impl History {
    /// Notes a fact.
    pub fn note(&mut self, when: Duration, fact: Fact) {
        self.facts.push((when, fact));
    }

    /// The facts without their moments.
    pub fn iter(&self) -> impl Iterator<Item = &Fact> {
        self.facts.iter().map(|(_, fact)| fact)
    }

    /// One number for all of it, equal for equal runs.
    pub fn digest(&self) -> u32 {
        (self.facts.iter()).fold(0, |so_far, (when, fact)| {
            crc32c::crc32c_append(so_far, format!("{when:?} {fact:?}\n").as_bytes())
        })
    }

    /// How many facts there are of a kind.
    pub fn count(&self, of: impl Fn(&Fact) -> bool) -> usize {
        self.iter().filter(|fact| of(fact)).count()
    }
}

#[cfg(test)]
impl FromIterator<Fact> for History {
    fn from_iter<I: IntoIterator<Item = Fact>>(facts: I) -> History {
        let seconds = |n: usize| Duration::from_secs(n as u64);
        let facts = facts.into_iter().enumerate();
        History {
            facts: facts.map(|(n, fact)| (seconds(n), fact)).collect(),
        }
    }
}

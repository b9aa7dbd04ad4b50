//! `millrace consume`: the records of a topic on standard output, alone or as a member of a group.

mod format;
mod member;
mod patience;
pub mod protocol;
mod reader;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::args::ConsumeArgs;
use crate::cluster::Cluster;
use crate::interrupt::Interrupt;
use crate::outcome::Failure;
use crate::table::counted;
use crate::terminal::{self, Answers, tell};
use crate::topic::Style;

pub use format::Template;
use member::{Member, Standing};
use patience::Patience;
use reader::{Reader, Record};

/// How often a member says that it lives: a third of what others use would still be enough (session timeout 45 s).
const HEARTBEAT: Duration = Duration::from_secs(3);

/// How often a member commits what it has printed.
const COMMIT: Duration = Duration::from_secs(5);

/// How long the group may take to hear what a member that ends has read.
const FAREWELL: Duration = Duration::from_secs(5);

/// Reads until enough has come, the end is reached, or it is told to stop.
///
/// # Errors
/// When the cluster refuses, or no record comes for as long as `--timeout` allows.
pub async fn run(args: &ConsumeArgs, style: Style) -> Result<(), Failure> {
    let mut interrupt = Interrupt::new()?;
    let patience = Rc::new(Patience::new(args.timeout));
    let mut printer = Printer::new(args, style, Rc::clone(&patience));
    match &args.group {
        None => drop(
            patience
                .within(&mut interrupt, alone(args, &mut printer, &patience))
                .await?,
        ),
        Some(group) => in_group(args, group, &mut printer, &patience, &mut interrupt).await?,
    }
    tell(&format!("{} read", counted(patience.printed(), "record")));
    match terminal::delivered() {
        // It has read enough.
        Err(Failure::ReaderGone) => Ok(()),
        ended => ended,
    }
}

async fn alone(args: &ConsumeArgs, printer: &mut Printer, patience: &Rc<Patience>) -> Result<(), Failure> {
    let mut cluster = Cluster::connect(&args.at.bootstrap).await?;
    let topic = cluster.topic(&args.topic).await?;
    for partition in &args.partitions {
        topic.expect_partition(*partition)?;
    }
    let wanted: Vec<i32> = match args.partitions.is_empty() {
        true => topic.leaders.keys().copied().collect(),
        false => args.partitions.clone(),
    };
    let mut reader = Reader::new(cluster, topic, args, Rc::clone(patience));
    reader.read_from(&wanted, BTreeMap::new());
    while !printer.has_enough(&reader) {
        let records = reader.next().await?;
        printer.print(&records);
    }
    Ok(())
}

async fn in_group(
    args: &ConsumeArgs,
    group: &str,
    printer: &mut Printer,
    patience: &Rc<Patience>,
    interrupt: &mut Interrupt,
) -> Result<(), Failure> {
    let introduction = async {
        let mut cluster = Cluster::connect(&args.at.bootstrap).await?;
        let topic = cluster.topic(&args.topic).await?;
        let connections = Cluster::connect(&args.at.bootstrap).await?;
        let reader = Reader::new(connections, topic, args, Rc::clone(patience));
        let member = Member::new(cluster, group, &args.topic, Rc::clone(patience));
        Ok((member, reader))
    };
    let Some((mut member, mut reader)) = patience.within(interrupt, introduction).await? else {
        return Ok(());
    };
    loop {
        let mut read = BTreeMap::new();
        let turn = turn(&mut member, &mut reader, printer, &mut read);
        match patience.within(interrupt, turn).await {
            Ok(Some(Share::Rebalanced)) => {}
            Ok(Some(Share::Lost)) => member.forget(),
            Ok(Some(Share::Done) | None) => return take_leave(&mut member, &read).await,
            Err(failure) => {
                // Why it ends is said already.
                let _ = take_leave(&mut member, &read).await;
                return Err(failure);
            }
        }
    }
}

/// Commits what was printed and leaves. A coordinator that is gone is not waited for: the group will miss this member.
async fn take_leave(member: &mut Member, read: &BTreeMap<i32, i64>) -> Result<(), Failure> {
    let mut committed = Err(Failure::Refused(format!(
        "what was read is not committed: the group did not answer within {} s",
        FAREWELL.as_secs()
    )));
    let words = async {
        committed = member.commit(read).await;
        member.leave().await;
    };
    let _ = timeout(FAREWELL, words).await;
    committed
}

/// Why a member's share of the partitions ended.
enum Share {
    /// Others came or went.
    Rebalanced,
    /// The group no longer knows this member.
    Lost,
    /// Nothing more is to be read.
    Done,
}

/// Joins, and reads until others come or go. What is printed moves `read` on, which is complete wherever this is left.
async fn turn(
    member: &mut Member,
    reader: &mut Reader,
    printer: &mut Printer,
    read: &mut BTreeMap<i32, i64>,
) -> Result<Share, Failure> {
    let partitions = member.join().await?;
    tell(&format!(
        "member {} of {}: partitions {partitions:?}",
        member.id(),
        member.group()
    ));
    *read = member.positions(&partitions).await?;
    reader.read_from(&partitions, read.clone());
    let ended = share(member, reader, printer, read).await?;
    if matches!(ended, Share::Rebalanced) {
        // Before others take the partitions over; what is refused is read once more.
        let _ = member.commit(read).await;
    }
    Ok(ended)
}

/// Reads this member's partitions.
async fn share(
    member: &mut Member,
    reader: &mut Reader,
    printer: &mut Printer,
    read: &mut BTreeMap<i32, i64>,
) -> Result<Share, Failure> {
    let (mut heartbeat, mut commit) = (ticks(HEARTBEAT), ticks(COMMIT));
    while !printer.has_enough(reader) {
        let records = {
            // Held while the others are listened to: what it began must not begin anew at every tick.
            let next = reader.next();
            tokio::pin!(next);
            loop {
                tokio::select! {
                    records = &mut next => break records?,
                    _ = commit.tick() => member.commit(read).await?,
                    _ = heartbeat.tick() => match member.heartbeat().await? {
                        Standing::Stable => {}
                        Standing::Rebalancing => return Ok(Share::Rebalanced),
                        Standing::Unknown => return Ok(Share::Lost),
                    },
                }
            }
        };
        let printed = printer.print(&records);
        if printed == records.len() {
            read.clone_from(&reader.positions);
        }
        // Enough came before the end of what was fetched: the rest belongs to whoever reads next.
        for record in records.iter().take(printed).filter(|_| printed < records.len()) {
            read.insert(record.partition, record.offset + 1);
        }
    }
    Ok(Share::Done)
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Writes records and knows when there are enough.
struct Printer {
    template: Option<Template>,
    style: Style,
    most: Option<u64>,
    patience: Rc<Patience>,
    reader_gone: bool,
}

impl Printer {
    fn new(args: &ConsumeArgs, style: Style, patience: Rc<Patience>) -> Self {
        Self {
            template: args.format.clone(),
            style,
            most: args.max_messages,
            patience,
            reader_gone: false,
        }
    }

    fn has_enough(&self, reader: &Reader) -> bool {
        self.reader_gone
            || self.most.is_some_and(|most| most <= self.patience.printed())
            || reader.is_at_end()
    }

    /// Writes as many of these as are wanted, and gives their number; none where nobody reads what is written.
    fn print(&mut self, records: &[Record]) -> usize {
        if records.is_empty() {
            return 0;
        }
        self.patience.renew(0);
        let mut text = Vec::new();
        let left = self
            .most
            .map_or(u64::MAX, |most| most.saturating_sub(self.patience.printed()));
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(records.len());
        for record in records.iter().take(take) {
            match (self.style, &self.template) {
                (Style::Json, _) => {
                    text.extend_from_slice(format::json(record).to_string().as_bytes());
                    text.push(b'\n');
                }
                (Style::Text, Some(template)) => template.write(record, &mut text),
                (Style::Text, None) => {
                    text.extend_from_slice(record.value.as_deref().unwrap_or_default());
                    text.push(b'\n');
                }
            }
        }
        if Answers.write_all(&text).and_then(|()| Answers.flush()).is_err() {
            // A reader that has gone away has read enough. What it did not take in must not be committed as read.
            self.reader_gone = true;
            return 0;
        }
        self.patience.renew(take as u64);
        take
    }
}

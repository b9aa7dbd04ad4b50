//! `millrace consume`: the records of a topic on standard output, alone or as a member of a group.

mod format;
mod member;
pub mod protocol;
mod reader;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use host::{Clock, Monotonic, OsClock};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::args::ConsumeArgs;
use crate::cluster::Cluster;
use crate::interrupt::Interrupt;
use crate::offsets::{self, Place};
use crate::outcome::Failure;
use crate::terminal::tell;
use crate::topic::Style;

pub use format::Template;
use member::{Member, Standing};
use reader::{Reader, Record};

/// How often a member says that it lives: a third of what others use would still be enough (session timeout 45 s).
const HEARTBEAT: Duration = Duration::from_secs(3);

/// How often a member commits what it has printed.
const COMMIT: Duration = Duration::from_secs(5);

/// How often the time without records is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// Reads until enough has come, the end is reached, or it is told to stop.
///
/// # Errors
/// When the cluster refuses, or no record comes for as long as `--timeout` allows.
pub async fn run(args: &ConsumeArgs, style: Style) -> Result<(), Failure> {
    let mut interrupt = Interrupt::new()?;
    let mut printer = Printer::new(args, style);
    let cluster = Cluster::connect(&args.at.bootstrap).await?;
    match &args.group {
        None => alone(args, cluster, &mut printer, &mut interrupt).await,
        Some(group) => in_group(args, group, cluster, &mut printer, &mut interrupt).await,
    }
}

async fn alone(
    args: &ConsumeArgs,
    mut cluster: Cluster,
    printer: &mut Printer,
    interrupt: &mut Interrupt,
) -> Result<(), Failure> {
    let topic = cluster.topic(&args.topic).await?;
    let missing = args
        .partitions
        .iter()
        .find(|one| !topic.leaders.contains_key(one));
    if let Some(missing) = missing {
        return Err(Failure::Refused(format!(
            "{} has no partition {missing}",
            args.topic
        )));
    }
    let wanted: Vec<i32> = match args.partitions.is_empty() {
        true => topic.leaders.keys().copied().collect(),
        false => args.partitions.clone(),
    };
    let start = offsets::of(&mut cluster, &topic, &wanted, args.start()).await?;
    printer.stop_at(args, &mut cluster, &start).await?;
    let mut reader = Reader::new(cluster, topic, args.start());
    reader.read_from(start);
    let mut glance = ticks(GLANCE);
    while !printer.has_enough(&reader.positions) {
        // Held while the others are listened to: what it began must not begin anew at every tick.
        let next = reader.next();
        tokio::pin!(next);
        let records = loop {
            tokio::select! {
                records = &mut next => break records?,
                _ = glance.tick() => printer.lose_patience(args)?,
                () = interrupt.next() => return printer.close(),
            }
        };
        printer.print(&records);
    }
    printer.close()
}

async fn in_group(
    args: &ConsumeArgs,
    group: &str,
    mut cluster: Cluster,
    printer: &mut Printer,
    interrupt: &mut Interrupt,
) -> Result<(), Failure> {
    let topic = cluster.topic(&args.topic).await?;
    let mut reader = Reader::new(Cluster::connect(&args.at.bootstrap).await?, topic, args.start());
    let mut member = Member::new(cluster, group, &args.topic);
    loop {
        let joined = tokio::select! {
            joined = member.join() => joined,
            () = interrupt.next() => Ok(Vec::new()),
        };
        if interrupt.came() {
            member.leave().await;
            return printer.close();
        }
        let partitions = joined?;
        tell(&format!(
            "member {} of {group}: partitions {partitions:?}",
            member.id()
        ));
        let start = member.positions(&partitions, args.start()).await?;
        printer.stop_at(args, member.cluster(), &start).await?;
        let mut read = start.clone();
        reader.read_from(start);
        let ended = share(
            args,
            &mut member,
            &mut reader,
            (&mut *printer, &mut read),
            interrupt,
        )
        .await;
        // What was printed is committed, also before others take the partitions over.
        let committed = member.commit(&read).await;
        match ended {
            Ok(Share::Rebalanced) => {}
            Ok(Share::Lost) => member.forget(),
            Ok(Share::Done) => {
                member.leave().await;
                committed?;
                return printer.close();
            }
            Err(failure) => {
                member.leave().await;
                return Err(failure);
            }
        }
    }
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

/// Reads this member's partitions. What is printed moves `read` on.
async fn share(
    args: &ConsumeArgs,
    member: &mut Member,
    reader: &mut Reader,
    (printer, read): (&mut Printer, &mut BTreeMap<i32, i64>),
    interrupt: &mut Interrupt,
) -> Result<Share, Failure> {
    let (mut heartbeat, mut commit, mut glance) = (ticks(HEARTBEAT), ticks(COMMIT), ticks(GLANCE));
    while !printer.has_enough(read) {
        let records = {
            let next = reader.next();
            tokio::pin!(next);
            loop {
                tokio::select! {
                    records = &mut next => break records?,
                    _ = glance.tick() => printer.lose_patience(args)?,
                    _ = commit.tick() => member.commit(read).await?,
                    _ = heartbeat.tick() => match member.heartbeat().await? {
                        Standing::Stable => {}
                        Standing::Rebalancing => return Ok(Share::Rebalanced),
                        Standing::Unknown => return Ok(Share::Lost),
                    },
                    () = interrupt.next() => return Ok(Share::Done),
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
    printed: u64,
    /// Where each partition ended when reading began, with `--exit-at-end`.
    ends: Option<BTreeMap<i32, i64>>,
    clock: OsClock,
    last: Monotonic,
    reader_gone: bool,
}

impl Printer {
    fn new(args: &ConsumeArgs, style: Style) -> Self {
        let clock = OsClock::new();
        Self {
            template: args.format.clone(),
            style,
            most: args.max_messages,
            printed: 0,
            ends: None,
            last: clock.now(),
            clock,
            reader_gone: false,
        }
    }

    async fn stop_at(
        &mut self,
        args: &ConsumeArgs,
        cluster: &mut Cluster,
        start: &BTreeMap<i32, i64>,
    ) -> Result<(), Failure> {
        if args.exit_at_end {
            let topic = cluster.topic(&args.topic).await?;
            let partitions: Vec<i32> = start.keys().copied().collect();
            self.ends = Some(offsets::of(cluster, &topic, &partitions, Place::End).await?);
        }
        Ok(())
    }

    fn has_enough(&self, positions: &BTreeMap<i32, i64>) -> bool {
        let at_end = |ends: &BTreeMap<i32, i64>| {
            ends.iter()
                .all(|(partition, end)| positions.get(partition).is_some_and(|at| end <= at))
        };
        self.reader_gone
            || self.most.is_some_and(|most| most <= self.printed)
            || self.ends.as_ref().is_some_and(at_end)
    }

    /// Writes as many of these as are wanted, and gives their number; none where nobody reads what is written.
    fn print(&mut self, records: &[Record]) -> usize {
        if records.is_empty() {
            return 0;
        }
        self.last = self.clock.now();
        let mut text = Vec::new();
        let left = self
            .most
            .map_or(u64::MAX, |most| most.saturating_sub(self.printed));
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
        let mut out = std::io::stdout().lock();
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            // A reader that has gone away has read enough. What it did not take in must not be committed as read.
            self.reader_gone = true;
            return 0;
        }
        self.printed += take as u64;
        take
    }

    fn lose_patience(&self, args: &ConsumeArgs) -> Result<(), Failure> {
        let silent = self.clock.now().since(self.last);
        match args.timeout {
            Some(limit) if Duration::from_secs_f64(limit) < silent => Err(Failure::Refused(format!(
                "no record for {limit} s; {} were read",
                self.printed
            ))),
            _ => Ok(()),
        }
    }

    fn close(&self) -> Result<(), Failure> {
        tell(&format!("{} records read", self.printed));
        Ok(())
    }
}

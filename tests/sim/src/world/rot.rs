//! Disks that damage what was written, or the batch that is written next: a byte of a record becomes another one, and
//! nobody is told.
//!
//! To a log's promise such a disk counts as one that has lost data: it is done to fewer than `min.insync.replicas` brokers,
//! so that every acknowledged record is whole at another in-sync replica. In the end the disk is replaced by an empty one,
//! as its operator would do. A batch's header is left alone: offset and leader epoch are outside of the checksum, in
//! Kafka's format, and whoever starts after a clean stop trusts the rest.

use std::path::{Path, PathBuf};
use std::time::Duration;

use host::{Disk, EntryKind, SimDisk};
use metadata::ids::BrokerId;
use wire::batch::{Batches, HEADER_SIZE};

use crate::chance::Chance;
use crate::fact::Fact;
use crate::marks::Mark;
use crate::message::NodeId;
use crate::plan::Fault;
use crate::streams::Address;

use super::{Happening, World};

/// A log of this simulation is far smaller.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Damage near the end of a log has more to meet: it is done there every other time.
const RECENT: usize = 4;

impl World {
    pub(super) fn rot(&mut self, broker: i32, fault: Fault) -> Option<String> {
        if !self.may_taint(broker) {
            return None;
        }
        let mut chance = Chance::of(fault.dice, "rot");
        let disk = &self.disks[&broker];
        let bit = (chance.bits() % 8) as u8;
        let what = if chance.per_mille(500) {
            disk.damage_next_write(".log", bit);
            "the next batch".to_owned()
        } else {
            let (path, at) = place(disk, &mut chance)?;
            disk.flip_bit(&path, at, bit).ok()?;
            format!("the byte at {at} of {}", path.display())
        };
        self.tainted.insert(broker, self.brokers[&broker].boot);
        self.rotten.insert(broker);
        self.judge(&Fact::Rotted {
            broker: BrokerId(broker),
        });
        Some(format!("the disk of broker {broker} damages {what}"))
    }

    /// The operator replaces a damaged disk, as soon as nobody needs what is on it.
    pub(super) fn replace_disk(&mut self, broker: i32) {
        if !self.rotten.contains(&broker) {
            return;
        }
        if !self.may_taint(broker) {
            let again = self.now + Duration::from_millis(500);
            return self.agenda.put(again, Happening::ReplaceDisk(broker));
        }
        self.crash(NodeId::Broker(broker), Duration::from_millis(200));
        self.empty_disk(broker);
        self.tell(format!("the damaged disk of broker {broker} is replaced"));
    }

    /// A rare branch was reached by a process.
    pub(super) fn reached(&mut self, by: Address, mark: Mark) {
        self.marks.reached(mark);
        if let NodeId::Broker(id) = by.node
            && mark == Mark::TailLost
            && self.rotten.contains(&id)
        {
            self.marks.reached(Mark::RotCutOff);
        }
    }
}

/// A byte of a record in some log on a disk.
fn place(disk: &SimDisk, chance: &mut Chance) -> Option<(PathBuf, u64)> {
    let mut files = Vec::new();
    let data = Path::new("/data");
    for dir in disk.list(data).ok()? {
        // What is set aside, or about to be removed, has a longer name.
        if dir.kind != EntryKind::Directory || dir.name.contains('.') {
            continue;
        }
        let dir = data.join(dir.name);
        let logs = disk.list(&dir).ok()?.into_iter();
        let logs = logs.filter(|file| file.name.ends_with(".log") && 0 < file.size_bytes);
        files.extend(logs.map(|file| dir.join(file.name)));
    }
    if files.is_empty() {
        return None;
    }
    let path = chance.pick(&files).clone();
    let bytes = disk.read_file(&path, LOG_BYTES_MAX).ok()?;
    let (mut records, mut begin) = (Vec::new(), 0);
    for batch in Batches::new(bytes.into()).map_while(Result::ok) {
        let end = begin + batch.bytes.len() as u64;
        records.push((begin + HEADER_SIZE as u64, end));
        begin = end;
    }
    records.retain(|(begin, end)| begin < end);
    if chance.per_mille(500) {
        records.drain(..records.len().saturating_sub(RECENT));
    }
    if records.is_empty() {
        return None;
    }
    let (begin, end) = *chance.pick(&records);
    Some((path, chance.between(begin, end - 1)))
}

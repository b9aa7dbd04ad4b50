//! The consensus library's type parameters, and the stable bytes of a log entry and a vote.
//!
//! What stands on disk is encoded here by hand, so that a new version of the library can never change it. Must not
//! know what a proposal contains.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use openraft::entry::RaftEntry;
use openraft::impls::{TokioRuntime, leader_id_std};
use openraft::{EntryPayload, Membership};
use openraft_rt::deterministic_rng::DeterministicRng;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

openraft::declare_raft_types!(
    /// What the consensus library is instantiated with, once.
    pub TypeConfig:
        D = Proposal,
        R = (),
        NodeId = u64,
        Node = Peer,
        Term = u64,
        LeaderId = leader_id_std::LeaderId<Self::Term, Self::NodeId>,
        AsyncRuntime = Runtime,
);

/// Where the consensus library's tasks run. What it leaves to chance, its election timeouts above all, comes from a
/// seed that is handed in: [`Runtime::scope`] must be around its start.
pub type Runtime = DeterministicRng<TokioRuntime>;

pub type LogId = openraft::alias::LogIdOf<TypeConfig>;
pub type Vote = openraft::alias::VoteOf<TypeConfig>;
pub type Entry = openraft::alias::EntryOf<TypeConfig>;
pub type StoredMembership = openraft::alias::StoredMembershipOf<TypeConfig>;
pub type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
pub type CommittedLeader = openraft::alias::CommittedLeaderIdOf<TypeConfig>;

/// One encoded metadata batch, opaque to the quorum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal(pub Bytes);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Proposal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Proposal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyBytes;
        impl Visitor<'_> for AnyBytes {
            type Value = Proposal;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Proposal, E> {
                Ok(Proposal(Bytes::copy_from_slice(bytes)))
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Proposal, E> {
                Ok(Proposal(Bytes::from(bytes)))
            }
        }
        deserializer.deserialize_byte_buf(AnyBytes)
    }
}

/// Where a controller is reached, and which incarnation of its disk is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// host:port of its gRPC listener.
    pub address: String,
    /// Base64url id of its data directory.
    pub directory: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.address, self.directory)
    }
}

const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// The stable bytes of an entry: term, index, kind, then the payload. All numbers big-endian.
pub fn encode_entry(entry: &Entry) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(entry.log_id.leader_id.term);
    out.put_u64(entry.log_id.index);
    match &entry.payload {
        EntryPayload::Blank => out.put_u8(BLANK),
        EntryPayload::Normal(proposal) => {
            out.put_u8(NORMAL);
            out.put_slice(&proposal.0);
        }
        EntryPayload::Membership(membership) => {
            out.put_u8(MEMBERSHIP);
            put_membership(&mut out, membership);
        }
    }
    out.freeze()
}

/// Reads what [`encode_entry`] wrote.
pub fn decode_entry(bytes: &Bytes) -> io::Result<Entry> {
    let mut at = Cursor { bytes, at: 0 };
    let log_id = LogId::new(CommittedLeader::new(at.u64()?), at.u64()?);
    let payload = match at.u8()? {
        BLANK => EntryPayload::Blank,
        NORMAL => EntryPayload::Normal(Proposal(bytes.slice(at.at..))),
        MEMBERSHIP => EntryPayload::Membership(at.membership()?),
        other => return Err(damaged(&format!("an entry of unknown kind {other}"))),
    };
    Ok(Entry::new(log_id, payload))
}

fn put_membership(out: &mut BytesMut, membership: &Membership<u64, Peer>) {
    let count = |n: usize| u32::try_from(n).expect("a quorum has far fewer than 2^32 members");
    out.put_u32(count(membership.get_joint_config().len()));
    for voters in membership.get_joint_config() {
        out.put_u32(count(voters.len()));
        voters.iter().for_each(|id| out.put_u64(*id));
    }
    out.put_u32(count(membership.nodes().count()));
    for (id, peer) in membership.nodes() {
        out.put_u64(*id);
        for text in [&peer.address, &peer.directory] {
            out.put_u32(count(text.len()));
            out.put_slice(text.as_bytes());
        }
    }
}

/// A vote as it is kept: term, whom for, whether a quorum granted it.
pub fn encode_vote(vote: &Vote) -> Bytes {
    let mut out = BytesMut::with_capacity(17);
    out.put_u64(vote.leader_id.term);
    out.put_u64(vote.leader_id.voted_for);
    out.put_u8(u8::from(vote.committed));
    out.freeze()
}

/// Reads what [`encode_vote`] wrote.
pub fn decode_vote(bytes: &Bytes) -> io::Result<Vote> {
    let mut at = Cursor { bytes, at: 0 };
    let (term, node) = (at.u64()?, at.u64()?);
    Ok(match at.u8()? {
        0 => Vote::new(term, node),
        _ => Vote::new_committed(term, node),
    })
}

/// A log id as it is kept: term and index.
pub fn encode_log_id(id: &LogId) -> Bytes {
    let mut out = BytesMut::with_capacity(16);
    out.put_u64(id.leader_id.term);
    out.put_u64(id.index);
    out.freeze()
}

/// Reads what [`encode_log_id`] wrote.
pub fn decode_log_id(bytes: &Bytes) -> io::Result<LogId> {
    let mut at = Cursor { bytes, at: 0 };
    Ok(LogId::new(CommittedLeader::new(at.u64()?), at.u64()?))
}

/// An error for bytes that cannot have been written by us.
pub fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

struct Cursor<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl Cursor<'_> {
    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len())
            .ok_or_else(|| damaged("an entry that is cut short"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn u8(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut four = [0; 4];
        four.copy_from_slice(self.take(4)?);
        Ok(u32::from_be_bytes(four))
    }

    fn u64(&mut self) -> io::Result<u64> {
        let mut eight = [0; 8];
        eight.copy_from_slice(self.take(8)?);
        Ok(u64::from_be_bytes(eight))
    }

    fn text(&mut self) -> io::Result<String> {
        let length = usize::try_from(self.u32()?).map_err(io::Error::other)?;
        let taken = self.take(length)?.to_vec();
        String::from_utf8(taken).map_err(|_| damaged("a text that is not UTF-8"))
    }

    fn membership(&mut self) -> io::Result<Membership<u64, Peer>> {
        let mut configs = Vec::new();
        for _ in 0..self.u32()? {
            let mut voters = BTreeSet::new();
            for _ in 0..self.u32()? {
                voters.insert(self.u64()?);
            }
            configs.push(voters);
        }
        let mut nodes = BTreeMap::new();
        for _ in 0..self.u32()? {
            let id = self.u64()?;
            let (address, directory) = (self.text()?, self.text()?);
            nodes.insert(id, Peer { address, directory });
        }
        Membership::new(configs, nodes).map_err(io::Error::other)
    }
}

/// What a snapshot stands for, in stable bytes.
pub fn encode_snapshot_meta(meta: &SnapshotMeta) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    for id in [&meta.last_log_id, meta.last_membership.log_id()] {
        match id {
            None => out.put_u8(0),
            Some(id) => {
                out.put_u8(1);
                out.put_slice(&encode_log_id(id));
            }
        }
    }
    put_membership(&mut out, meta.last_membership.membership());
    out.freeze()
}

/// Reads what [`encode_snapshot_meta`] wrote.
pub fn decode_snapshot_meta(bytes: &Bytes) -> io::Result<SnapshotMeta> {
    let mut at = Cursor { bytes, at: 0 };
    let mut ids = [None, None];
    for id in &mut ids {
        if at.u8()? != 0 {
            *id = Some(LogId::new(CommittedLeader::new(at.u64()?), at.u64()?));
        }
    }
    let [last_log_id, membership_at] = ids;
    Ok(SnapshotMeta {
        last_log_id,
        last_membership: StoredMembership::new(membership_at, at.membership()?),
    })
}

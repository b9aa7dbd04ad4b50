//! Who this node is, whom it may believe a message from, and where the others are.
//!
//! Every message between controllers names the cluster and the one incarnation it is meant for; a message for anybody
//! else is refused before the consensus library sees it. Must not decode payloads.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use metadata::ids::ControllerId;
use millrace_proto::v1;
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};

/// Called when the cluster's id becomes known, before anything is done in its name. It makes the id durable.
pub type Adopt = Box<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Makes the channel to an endpoint: it dials when it is used, and again after every loss.
pub type Dial = Arc<dyn Fn(Endpoint) -> Channel + Send + Sync>;

/// The node's own address, and those of its static peers.
pub struct Addressing {
    me: ControllerId,
    directory: String,
    voters: BTreeMap<u64, String>,
    cluster_id: watch::Sender<Option<String>>,
    taking: Mutex<()>,
    adopt: Adopt,
    dial: Dial,
    /// Peers that refused a message because another incarnation lives there now.
    replaced: Mutex<BTreeSet<u64>>,
}

impl Addressing {
    /// `voters` are the configured controllers with their addresses, this one included.
    pub fn new(
        me: ControllerId,
        directory: String,
        voters: BTreeMap<u64, String>,
        cluster_id: Option<String>,
        adopt: Adopt,
    ) -> Addressing {
        Addressing {
            me,
            directory,
            voters,
            cluster_id: watch::Sender::new(cluster_id),
            taking: Mutex::new(()),
            adopt,
            dial: Arc::new(|endpoint: Endpoint| endpoint.connect_lazy()),
            replaced: Mutex::new(BTreeSet::new()),
        }
    }

    /// Reaches the others in another way than over the machine's network.
    #[must_use]
    pub fn dialling(self, dial: Dial) -> Addressing {
        Addressing { dial, ..self }
    }

    /// A channel to an endpoint.
    pub fn dial(&self, endpoint: Endpoint) -> Channel {
        (self.dial)(endpoint)
    }

    /// This node.
    pub fn me(&self) -> u64 {
        raft_id(self.me)
    }

    /// This node, as the domain names it.
    pub fn controller_id(&self) -> ControllerId {
        self.me
    }

    /// Base64url id of this node's data directory.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// The configured controllers.
    pub fn voters(&self) -> &BTreeMap<u64, String> {
        &self.voters
    }

    /// The cluster's id, once known.
    pub fn cluster_id(&self) -> Option<String> {
        self.cluster_id.borrow().clone()
    }

    /// The cluster's id, as soon as it is known.
    pub async fn known_cluster_id(&self) -> String {
        let mut known = self.cluster_id.subscribe();
        loop {
            if let Some(id) = known.borrow_and_update().clone() {
                return id;
            }
            if known.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes on a cluster id, durably; one that differs from the one held is an error.
    ///
    /// # Errors
    /// `InvalidInput` if another id is held; the disk's otherwise.
    pub fn take_cluster_id(&self, given: &str) -> io::Result<()> {
        let _one_at_a_time = self.taking.lock();
        let held = self.cluster_id();
        match held.as_deref() {
            Some(held) if held == given => Ok(()),
            Some(held) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("this node belongs to cluster {held}, not to {given}"),
            )),
            None => {
                (self.adopt)(given)?;
                self.cluster_id.send_replace(Some(given.to_owned()));
                Ok(())
            }
        }
    }

    /// Puts an envelope around a payload for one incarnation of a peer.
    pub fn address(&self, target: u64, directory: &str, payload: Vec<u8>) -> v1::Addressed {
        v1::Addressed {
            cluster_id: self.cluster_id().unwrap_or_default(),
            target: wire_id(target),
            target_directory: directory.to_owned(),
            sender: self.me.0,
            payload: payload.into(),
        }
    }

    /// Why a message is not for this node, if it is not. The first message of a cluster to a node that knows none
    /// makes it a member.
    pub fn refuse(&self, message: &v1::Addressed) -> Option<String> {
        if message.target != self.me.0 {
            return Some(format!("this is controller {}, not {}", self.me, message.target));
        }
        if message.target_directory != self.directory {
            return Some(format!(
                "{ANOTHER_INCARNATION}: controller {} has directory {} here, not {}",
                self.me, self.directory, message.target_directory
            ));
        }
        if message.cluster_id.is_empty() {
            return Some("the message names no cluster".into());
        }
        self.take_cluster_id(&message.cluster_id)
            .err()
            .map(|error| error.to_string())
    }

    /// Notes what a peer said when it refused a message.
    pub fn note_refusal(&self, target: u64, why: &str) {
        if why.starts_with(ANOTHER_INCARNATION) && self.replaced.lock().insert(target) {
            tracing::warn!(
                controller = target,
                why,
                "a controller came back with another data directory"
            );
        }
    }

    /// Peers that live on another disk than the membership says; the list starts anew.
    pub fn take_replaced(&self) -> BTreeSet<u64> {
        std::mem::take(&mut *self.replaced.lock())
    }
}

const ANOTHER_INCARNATION: &str = "another incarnation";

/// A controller's id as the consensus library names it.
pub fn raft_id(id: ControllerId) -> u64 {
    u64::try_from(id.0).expect("node.id is never negative")
}

/// A node of the consensus library as messages name it.
pub fn wire_id(id: u64) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn node(id: i32, directory: &str, cluster_id: Option<&str>) -> Addressing {
        let cluster_id = cluster_id.map(str::to_owned);
        let adopt = Box::new(|_: &str| Ok(()));
        Addressing::new(
            ControllerId(id),
            directory.into(),
            BTreeMap::new(),
            cluster_id,
            adopt,
        )
    }

    #[test]
    fn a_message_for_another_node_incarnation_or_cluster_is_refused() {
        let sender = node(1, "one", Some("ours"));
        let me = node(2, "two", Some("ours"));

        assert_eq!(me.refuse(&sender.address(2, "two", Vec::new())), None);
        assert!(
            me.refuse(&sender.address(3, "two", Vec::new()))
                .unwrap()
                .contains("not 3")
        );
        assert!(
            me.refuse(&sender.address(2, "older", Vec::new()))
                .unwrap()
                .starts_with(ANOTHER_INCARNATION)
        );
        let stranger = node(1, "one", Some("theirs")).address(2, "two", Vec::new());
        assert!(me.refuse(&stranger).unwrap().contains("belongs to cluster ours"));
        assert!(
            me.refuse(&node(1, "one", None).address(2, "two", Vec::new()))
                .is_some()
        );
    }

    #[test]
    fn the_first_message_makes_a_new_node_a_member_and_the_next_of_another_cluster_is_refused() {
        let me = node(2, "two", None);
        let first = node(1, "one", Some("ours")).address(2, "two", Vec::new());
        let second = node(1, "one", Some("theirs")).address(2, "two", Vec::new());

        assert_eq!(me.refuse(&first), None);
        assert_eq!(me.cluster_id().as_deref(), Some("ours"));
        assert!(me.refuse(&second).is_some());
    }

    #[test]
    fn an_id_that_cannot_be_kept_makes_no_member() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let adopt = Box::new(move |_: &str| Err(full()));
        let me = Addressing::new(ControllerId(2), "two".into(), BTreeMap::new(), None, adopt);
        let first = node(1, "one", Some("ours")).address(2, "two", Vec::new());

        assert!(me.refuse(&first).is_some());
        assert_eq!(me.cluster_id(), None);
    }
}

//! A metadata directory: whose it is, and that one process alone uses it.
//!
//! `meta.properties` is Kafka's: version, node.id, directory.id, and cluster.id once that is known. A directory of
//! another node or cluster is refused; nothing in it is changed then.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::{Disk, Entropy, LockGuard, replace_file};
use metadata::config::{parse_properties, render_property};
use metadata::ids::{ControllerId, DirectoryId};
use metadata::uuid::Uuid;

const META: &str = "meta.properties";
const META_BYTES_MAX: u64 = 64 * 1024;

/// Why a directory cannot be used. The display is one line.
#[derive(Debug)]
pub enum Unfit {
    /// It belongs to somebody else, or says something that we never write.
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// What it says and what was expected.
        why: String,
    },
    /// Another process uses it.
    InUse(PathBuf),
    /// The disk failed.
    Fault {
        /// The directory.
        dir: PathBuf,
        /// How.
        fault: io::Error,
    },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { dir, why } => write!(f, "{}: {why}", dir.join(META).display()),
            Self::InUse(dir) => write!(f, "{}: another process uses this directory", dir.display()),
            Self::Fault { dir, fault } => write!(f, "{}: {fault}", dir.display()),
        }
    }
}

impl std::error::Error for Unfit {}

/// A directory that this process holds.
#[derive(Debug)]
pub struct Directory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    node: ControllerId,
    id: DirectoryId,
    cluster_id: Option<String>,
    _lock: LockGuard,
}

impl Directory {
    /// Locks the directory, creating it if needed, and checks whose it is. A new one gets an id at once, so that the
    /// id is the same whenever it is asked for.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        node: ControllerId,
        cluster_id: Option<&str>,
        entropy: &dyn Entropy,
    ) -> Result<Directory, Unfit> {
        let failed = |fault| Unfit::Fault {
            dir: path.to_owned(),
            fault,
        };
        disk.create_dir_all(path).map_err(failed)?;
        let lock = disk
            .lock(&path.join(".lock"))
            .map_err(|fault| match fault.kind() {
                io::ErrorKind::WouldBlock => Unfit::InUse(path.to_owned()),
                _ => failed(fault),
            })?;
        let mut directory = Directory {
            disk,
            path: path.to_owned(),
            node,
            id: DirectoryId(Uuid::from_random_bits(draw(entropy))),
            cluster_id: None,
            _lock: lock,
        };
        if directory.disk.exists(&path.join(META)).map_err(failed)? {
            directory.read(cluster_id)?;
        } else {
            directory.write().map_err(failed)?;
        }
        Ok(directory)
    }

    /// Its id.
    pub fn id(&self) -> DirectoryId {
        self.id
    }

    /// The cluster that it belongs to, if that was known when it was opened.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// Makes it belong to a cluster, durably.
    ///
    /// # Errors
    /// The disk's.
    pub fn join(&mut self, cluster_id: &str) -> io::Result<()> {
        self.cluster_id = Some(cluster_id.to_owned());
        self.write()
    }

    /// Gives it a new id, durably: what was in it is no longer answered for.
    ///
    /// # Errors
    /// The disk's.
    pub fn begin_anew(&mut self, entropy: &dyn Entropy) -> io::Result<()> {
        self.id = DirectoryId(Uuid::from_random_bits(draw(entropy)));
        self.write()
    }

    fn read(&mut self, expected_cluster: Option<&str>) -> Result<(), Unfit> {
        let foreign = |why: String| Unfit::Foreign {
            dir: self.path.clone(),
            why,
        };
        let bytes = self.disk.read_file(&self.path.join(META), META_BYTES_MAX);
        let bytes = bytes.map_err(|fault| foreign(fault.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| foreign("not UTF-8".into()))?;
        let pairs =
            parse_properties(&text).map_err(|error| foreign(format!("line {}: no property", error.line)))?;
        let value = |key: &str| {
            let found = pairs.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone())
        };
        let node = value("node.id").unwrap_or_default();
        if node != self.node.to_string() {
            return Err(foreign(format!(
                "node.id={node}, but this node is configured as node.id={}",
                self.node
            )));
        }
        let cluster_id = value("cluster.id");
        if let (Some(held), Some(expected)) = (&cluster_id, expected_cluster)
            && held != expected
        {
            return Err(foreign(format!(
                "cluster.id={held}, but this node is configured with cluster.id={expected}"
            )));
        }
        let id = value("directory.id").unwrap_or_default();
        let parsed = id.parse::<Uuid>();
        let id = parsed.map_err(|error| foreign(format!("directory.id={id}: {error}")))?;
        self.id = DirectoryId(id);
        self.cluster_id = cluster_id;
        Ok(())
    }

    fn write(&self) -> io::Result<()> {
        let mut text = String::from("#\n");
        let mut put = |key: &str, value: &str| {
            text.push_str(&render_property(key, value));
            text.push('\n');
        };
        if let Some(cluster_id) = &self.cluster_id {
            put("cluster.id", cluster_id);
        }
        put("directory.id", &self.id.to_string());
        put("node.id", &self.node.to_string());
        put("version", "1");
        replace_file(self.disk.as_ref(), &self.path.join(META), text.as_bytes())
    }
}

/// 128 random bits.
pub fn draw(entropy: &dyn Entropy) -> u128 {
    u128::from(entropy.next_u64()) << 64 | u128::from(entropy.next_u64())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use host::{OsDisk, SeededEntropy};

    fn open(dir: &Path, node: i32, cluster: Option<&str>, seed: u64) -> Result<Directory, Unfit> {
        let entropy = SeededEntropy::new(seed);
        Directory::open(Arc::new(OsDisk), dir, ControllerId(node), cluster, &entropy)
    }

    #[test]
    fn a_directory_keeps_its_id_and_its_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = open(dir.path(), 1, None, 1).unwrap();
        let id = first.id();
        first.join("AAAAAAAAAAAAAAAAAAAAAw").unwrap();
        drop(first);

        let again = open(dir.path(), 1, None, 2).unwrap();

        assert_eq!(
            (again.id(), again.cluster_id()),
            (id, Some("AAAAAAAAAAAAAAAAAAAAAw"))
        );
    }

    #[test]
    fn a_directory_of_another_node_or_cluster_is_refused_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), 1, None, 1).unwrap().join("ours").unwrap();

        let other_node = open(dir.path(), 2, None, 1).unwrap_err().to_string();
        let other_cluster = open(dir.path(), 1, Some("theirs"), 1).unwrap_err().to_string();

        assert!(other_node.ends_with("node.id=1, but this node is configured as node.id=2"));
        assert!(
            other_cluster.ends_with("cluster.id=ours, but this node is configured with cluster.id=theirs")
        );
    }

    #[test]
    fn two_processes_never_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let _first = open(dir.path(), 1, None, 1).unwrap();

        assert!(matches!(open(dir.path(), 1, None, 1), Err(Unfit::InUse(_))));
    }
}

//! Host names that exist for the nodes alone: a hosts file of their own, laid over the system's in a mount
//! namespace. Names can come, go and move while the nodes run. Nothing outside the namespace changes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::Result;

use super::NodeId;

/// What other nodes call `id` in a named cluster.
pub fn name_of(id: NodeId) -> String {
    format!("node-{id}.millrace.test")
}

/// The names of one cluster.
pub struct Names {
    file: PathBuf,
    known: Mutex<BTreeMap<String, String>>,
}

impl Names {
    /// A hosts file in `folder` that knows localhost alone.
    pub fn in_folder(folder: &Path) -> Result<Names> {
        let names = Names {
            file: folder.join("hosts"),
            known: Mutex::default(),
        };
        names.change(|_| ())?;
        Ok(names)
    }

    /// The hosts file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// From now on `name` is `address`.
    pub fn resolve(&self, name: &str, address: &str) -> Result<()> {
        self.change(|known| drop(known.insert(name.to_owned(), address.to_owned())))
    }

    /// From now on nobody knows `name`.
    pub fn forget(&self, name: &str) -> Result<()> {
        self.change(|known| drop(known.remove(name)))
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<()> {
        let mut known = self.known.lock().expect("no holder of this lock panics");
        change(&mut known);
        let mut text = "127.0.0.1 localhost\n".to_owned();
        for (name, address) in known.iter() {
            writeln!(text, "{address} {name}")?;
        }
        // Written in place: the mount shows this file, not whatever its path names later.
        Ok(fs::write(&self.file, text)?)
    }
}

/// `command`, in a namespace where `names` is the hosts file. The process keeps its id.
pub fn with_names(names: &Path, command: &Command) -> Command {
    let mut wrapped = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        wrapped.arg("--map-root-user");
    }
    wrapped.args([
        "--mount",
        "sh",
        "-c",
        "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
    ]);
    wrapped
        .arg(names)
        .arg(command.get_program())
        .args(command.get_args());
    wrapped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_name_exists_inside_and_not_outside() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::in_folder(folder.path()).unwrap();
        names.resolve(&name_of(NodeId(7)), "127.0.0.7").unwrap();
        let mut ask = Command::new("getent");
        ask.args(["hosts", &name_of(NodeId(7))]);
        let inside = with_names(names.file(), &ask).output().unwrap();
        assert!(
            String::from_utf8_lossy(&inside.stdout).starts_with("127.0.0.7"),
            "{inside:?}"
        );
        assert!(ask.output().unwrap().stdout.is_empty());
    }
}

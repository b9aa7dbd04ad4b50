//! The directory of a cluster: what is made once and kept, and what is written at every start.
//!
//! ```text
//! millrace-data/
//!   cluster.properties     the cluster's id and how many controllers it has: made once
//!   up.lock                held while `millrace up` runs
//!   broker-1/              server.properties, node.log, data/
//!   controller-101/        server.properties, node.log, data/
//! ```

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use host::{Disk, Entropy, LockGuard, OsDisk, OsEntropy, replace_file};
use metadata::config::{parse_properties, render_property};

use super::found::{self, Found};
use super::plan::{FIRST_START_KEYS, Node, Plan, Role};
use crate::args::UpArgs;
use crate::outcome::Failure;
use crate::table::{counted, numbers};
use crate::terminal::tell;

/// Larger than any that this command writes.
const CLUSTER_FILE_BYTES_MAX: u64 = 64 << 10;

/// The programs that nodes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// `millrace-controller`.
    pub controller: PathBuf,
    /// `millrace-broker`.
    pub broker: PathBuf,
}

/// A directory in which everything is ready to begin.
#[derive(Debug)]
pub struct Layout {
    /// What is to be begun.
    pub plan: Plan,
    /// With what.
    pub binaries: Binaries,
    _lock: LockGuard,
}

/// Checks everything that can be checked, makes what is missing, and writes the configurations.
///
/// # Errors
/// With exit code 2; nothing is begun then.
pub fn open(args: &UpArgs) -> Result<Layout, Failure> {
    let disk = OsDisk;
    let at_start = |what: &str, error: &std::io::Error| Failure::Usage(vec![format!("{what}: {error}")]);
    let here = std::env::current_dir().map_err(|error| at_start("the current directory", &error))?;
    let dir: PathBuf = here.join(&args.dir).components().collect();
    let binaries = binaries(&disk)?;
    // Options are judged before the directory is made, so that a mistake leaves nothing behind.
    let trial = Plan::new(args, dir.clone(), "unborn".to_owned()).map_err(Failure::Usage)?;
    let warnings = trial.check(&host::environment()).map_err(Failure::Usage)?;
    let shown = dir.display().to_string();
    // Where nobody ever ran, a refusal leaves nothing behind, not even a lock.
    let lock_path = dir.join("up.lock");
    if !disk
        .exists(&lock_path)
        .map_err(|error| at_start(&shown, &error))?
    {
        known_cluster(&disk, &trial, args)?;
    }
    disk.create_dir_all(&dir)
        .map_err(|error| at_start(&shown, &error))?;
    // That another one runs there is said before that its ports are taken.
    let lock = disk.lock(&lock_path).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Failure::Usage(vec![format!(
            "{shown}: another `millrace up` runs there; use another --dir"
        )]),
        _ => at_start(&shown, &error),
    })?;
    let known = known_cluster(&disk, &trial, args)?;
    let was_begun = known.is_some();
    let cluster_id = match known {
        Some(known) => known.id,
        None => make_cluster(&disk, &dir, args.controllers)?,
    };
    let plan = Plan::new(args, dir, cluster_id).map_err(Failure::Usage)?;
    for node in &plan.nodes {
        let written = disk
            .create_dir_all(&node.dir)
            .and_then(|()| replace_file(&disk, &node.config_path(), plan.properties(node).as_bytes()));
        written.map_err(|error| at_start(&node.config_path().display().to_string(), &error))?;
    }
    warnings
        .iter()
        .for_each(|warning| tell(&format!("warning: {warning}")));
    let (mut late, mut high) = (Vec::new(), plan.out_of_reach(&host::environment()));
    if was_begun {
        late = plan.too_late();
        // What has no effect has none at all.
        high.retain(|line| !FIRST_START_KEYS.iter().any(|key| line.starts_with(key)));
    }
    late.iter()
        .chain(&high)
        .for_each(|line| tell(&format!("warning: {line}")));
    Ok(Layout {
        plan,
        binaries,
        _lock: lock,
    })
}

/// The cluster that a directory holds, if it may be started there.
fn known_cluster(disk: &dyn Disk, trial: &Plan, args: &UpArgs) -> Result<Option<Cluster>, Failure> {
    let known = read_cluster(disk, &trial.dir)?;
    if let Some(known) = &known
        && known.controllers != args.controllers
    {
        let line = format!(
            "{} holds a cluster of {}, not {}; use the same --controllers or another --dir",
            trial.dir.display(),
            counted(known.controllers, "controller"),
            args.controllers
        );
        return Err(Failure::Usage(vec![line]));
    }
    if known.is_some() {
        no_broker_is_left_out(disk, trial, args)?;
        no_node_runs(trial)?;
    }
    check_ports(trial)?;
    Ok(known)
}

/// Refuses to begin without brokers that hold data: their partitions would silently have fewer replicas, or none.
fn no_broker_is_left_out(disk: &dyn Disk, trial: &Plan, args: &UpArgs) -> Result<(), Failure> {
    let data = |id: u8| trial.dir.join(format!("{}-{id}/data", Role::Broker.word()));
    let mut left_out = Vec::new();
    for id in (1..=u8::MAX).filter(|id| args.brokers < *id) {
        let path = data(id);
        let holds = disk.exists(&path);
        if holds.map_err(|error| Failure::Usage(vec![format!("{}: {error}", path.display())]))? {
            left_out.push(id);
        }
    }
    let Some(last) = left_out.last() else {
        return Ok(());
    };
    let line = format!(
        "{} holds data of {}, and --brokers {} would leave {} out; use --brokers {last} or another --dir",
        trial.dir.display(),
        counted(*last, "broker"),
        args.brokers,
        numbers(&left_out.iter().map(|id| i32::from(*id)).collect::<Vec<_>>()),
    );
    Err(Failure::Usage(vec![line]))
}

/// Refuses to begin beside processes of the same cluster: they hold ports and directories, whichever ports are asked for.
fn no_node_runs(trial: &Plan) -> Result<(), Failure> {
    let found = found::running(trial);
    if found.is_empty() {
        return Ok(());
    }
    let named = |one: &Found<'_>| format!("{} (process {})", one.node.name(), one.pid);
    let names: Vec<String> = found.iter().map(named).collect();
    let pids: Vec<String> = found.iter().map(|one| one.pid.to_string()).collect();
    let line = format!(
        "{}: still running without a `millrace up`: {}; what a killed one left stops by itself within seconds, what was \
         started by hand with `kill {}`",
        trial.dir.display(),
        names.join(", "),
        pids.join(" "),
    );
    Err(Failure::Usage(vec![line]))
}

/// The programs, which lie beside this one.
fn binaries(disk: &OsDisk) -> Result<Binaries, Failure> {
    let own =
        std::env::current_exe().map_err(|error| Failure::machine("the path of this program", &error))?;
    let beside = |role: Role| own.with_file_name(role.program());
    let found = Binaries {
        controller: beside(Role::Controller),
        broker: beside(Role::Broker),
    };
    let missing = [&found.controller, &found.broker]
        .into_iter()
        .filter(|path| !disk.exists(path).unwrap_or(false));
    let lines: Vec<String> = missing
        .map(|path| {
            format!(
                "{}: missing; build it with `cargo build --release`",
                path.display()
            )
        })
        .collect();
    if lines.is_empty() {
        Ok(found)
    } else {
        Err(Failure::Usage(lines))
    }
}

/// Refuses to begin where a port is taken. It could still be taken afterwards; then the node says so.
fn check_ports(plan: &Plan) -> Result<(), Failure> {
    let mut taken = Vec::new();
    let wanted = |node: &Node| [&node.address, &node.metrics].map(|address| (node.name(), address.clone()));
    for (name, address) in plan.nodes.iter().flat_map(wanted) {
        if let Err(error) = TcpListener::bind((address.host.as_str(), address.port)) {
            let why = match error.kind() {
                ErrorKind::AddrInUse => "another process listens there".to_owned(),
                _ => error.to_string(),
            };
            taken.push(format!(
                "{address} for {name}: {why}; choose other ports with --port"
            ));
        }
    }
    if taken.is_empty() {
        Ok(())
    } else {
        Err(Failure::Usage(taken))
    }
}

/// What a directory says of its cluster.
#[derive(Debug, PartialEq, Eq)]
struct Cluster {
    id: String,
    controllers: u8,
}

fn read_cluster(disk: &dyn Disk, dir: &Path) -> Result<Option<Cluster>, Failure> {
    let path = dir.join("cluster.properties");
    let broken = |why: String| Failure::Usage(vec![format!("{}: {why}", path.display())]);
    let bytes = match disk.read_file(&path, CLUSTER_FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(broken(error.to_string())),
    };
    let text = String::from_utf8(bytes).map_err(|_| broken("not a text".to_owned()))?;
    let pairs = parse_properties(&text).map_err(|error| broken(error.to_string()))?;
    let value = |key: &str| {
        pairs
            .iter()
            .rev()
            .find(|pair| pair.0 == key)
            .map(|pair| pair.1.clone())
    };
    let id = value("cluster.id").filter(|id| !id.is_empty());
    let controllers = value("controllers").and_then(|count| count.parse().ok());
    match (id, controllers) {
        (Some(id), Some(controllers)) => Ok(Some(Cluster { id, controllers })),
        _ => Err(broken("it must give cluster.id and controllers".to_owned())),
    }
}

fn make_cluster(disk: &dyn Disk, dir: &Path, controllers: u8) -> Result<String, Failure> {
    let id = new_cluster_id(&OsEntropy);
    let text = format!(
        "# Made at the first start of `millrace up`; the data beside it belongs to this cluster.\n{}\n{}\n",
        render_property("cluster.id", &id),
        render_property("controllers", &controllers.to_string())
    );
    let path = dir.join("cluster.properties");
    replace_file(disk, &path, text.as_bytes())
        .map_err(|error| Failure::Usage(vec![format!("{}: {error}", path.display())]))?;
    Ok(id)
}

/// A random id in Kafka's notation; never one that a command line would take for an option.
fn new_cluster_id(entropy: &dyn Entropy) -> String {
    loop {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        // Version 4, variant 1 of RFC 9562: a random id.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let id = wire::Uuid(bytes).to_string();
        if !id.starts_with('-') {
            return id;
        }
    }
}

impl Binaries {
    /// The program of a role.
    pub fn of(&self, role: Role) -> &Path {
        match role {
            Role::Controller => &self.controller,
            Role::Broker => &self.broker,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use host::SeededEntropy;

    #[test]
    fn a_cluster_is_made_once_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_cluster(&OsDisk, dir.path()).unwrap(), None);
        let id = make_cluster(&OsDisk, dir.path(), 3).unwrap();
        assert_eq!(
            read_cluster(&OsDisk, dir.path()).unwrap(),
            Some(Cluster { id, controllers: 3 })
        );
    }

    #[test]
    fn a_broken_cluster_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.properties");
        replace_file(&OsDisk, &path, b"cluster.id=x\n").unwrap();
        let failure = read_cluster(&OsDisk, dir.path()).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(
            failure.to_string().contains("cluster.properties: it must give"),
            "{failure}"
        );
    }

    #[test]
    fn cluster_ids_are_kafka_ids_and_never_look_like_an_option() {
        for seed in 0..500 {
            let id = new_cluster_id(&SeededEntropy::new(seed));
            assert!(id.len() == 22 && !id.starts_with('-'), "{id}");
            assert_eq!(id.parse::<wire::Uuid>().unwrap().0[6] >> 4, 4);
        }
    }

    #[test]
    fn a_taken_port_is_named_with_the_node_that_wants_it() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let args = UpArgs {
            controllers: 1,
            brokers: 1,
            dir: PathBuf::new(),
            port: port.min(65_532),
            sets: vec![],
        };
        let plan = Plan::new(&args, PathBuf::new(), String::new()).unwrap();
        let failure = check_ports(&plan).unwrap_err();
        assert_eq!(failure.code(), 2);
        let line = format!("127.0.0.1:{port} for ");
        assert!(failure.to_string().contains(&line), "{failure}");
    }
}

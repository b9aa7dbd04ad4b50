//! Which nodes there are, where they listen, and what each is told. Decides and writes nothing.

use std::fmt::Write as _;
use std::path::PathBuf;

use metadata::config::{
    BrokerSettings, ConfigError, ControllerSettings, NodeConfig, Warning, environment_name, render_property,
};

use crate::address::Address;
use crate::args::UpArgs;
use crate::table::counted;

/// Controllers are numbered from here, brokers from 1: every node of a cluster has a number of its own.
const CONTROLLERS_FROM: i32 = 101;

/// Keys that tell one node from another; they are given here and nowhere else.
const OWN_KEYS: [&str; 10] = [
    "process.roles",
    "node.id",
    "broker.id",
    "cluster.id",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "log.dirs",
    "metrics.listener",
];

/// Read from a configuration only when the metadata log begins; from then on the log holds the cluster's value.
pub const FIRST_START_KEYS: [&str; 1] = [metadata::feature::MIN_IN_SYNC_REPLICAS];

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Keeps the metadata log.
    Controller,
    /// Serves clients.
    Broker,
}

impl Role {
    /// The word for it in names and configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Broker => "broker",
        }
    }

    /// The name of its program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Controller => "millrace-controller",
            Self::Broker => "millrace-broker",
        }
    }
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub role: Role,
    /// Its number.
    pub id: i32,
    /// Where it listens.
    pub address: Address,
    /// Where it is watched.
    pub metrics: Address,
    /// Everything of it is in here.
    pub dir: PathBuf,
}

impl Node {
    /// What it is called: `broker-1`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.role.word(), self.id)
    }

    /// Its configuration.
    pub fn config_path(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    /// What it says.
    pub fn log_path(&self) -> PathBuf {
        self.dir.join("node.log")
    }
}

/// The whole cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where everything is kept, as an absolute path.
    pub dir: PathBuf,
    /// The cluster's id.
    pub cluster_id: String,
    /// Controllers first, for they are started first.
    pub nodes: Vec<Node>,
    sets: Vec<(String, String)>,
}

impl Plan {
    /// The cluster that these options ask for, in `dir`.
    ///
    /// # Errors
    /// One line where the ports do not suffice.
    pub fn new(args: &UpArgs, dir: PathBuf, cluster_id: String) -> Result<Self, Vec<String>> {
        let (brokers, controllers) = (u16::from(args.brokers), u16::from(args.controllers));
        // One for each node to serve on, and one to be watched at.
        let nodes = brokers + controllers;
        let wanted = 2 * nodes;
        if args.port.checked_add(wanted - 1).is_none() {
            return Err(vec![format!(
                "--port {}: {wanted} ports from there on are needed, up to 65535",
                args.port
            )]);
        }
        let node = |role: Role, id: i32, port: u16| {
            let on_loopback = |port: u16| Address {
                host: "127.0.0.1".to_owned(),
                port,
            };
            Node {
                role,
                id,
                address: on_loopback(port),
                metrics: on_loopback(port + nodes),
                dir: dir.join(format!("{}-{id}", role.word())),
            }
        };
        let of = |role, first_id: i32, first_port: u16, count: u16| {
            (0..count).map(move |index| node(role, first_id + i32::from(index), first_port + index))
        };
        let nodes = of(
            Role::Controller,
            CONTROLLERS_FROM,
            args.port + brokers,
            controllers,
        )
        .chain(of(Role::Broker, 1, args.port, brokers))
        .collect();
        Ok(Self {
            dir: dir.clone(),
            cluster_id,
            nodes,
            sets: args.sets.clone(),
        })
    }

    /// Where the nodes of a role listen, separated by commas.
    pub fn addresses(&self, role: Role) -> String {
        let of_role = self.nodes.iter().filter(|node| node.role == role);
        of_role
            .map(|node| node.address.to_string())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// How many replicas a topic gets by default: three, where there are brokers enough.
    pub fn copies(&self) -> usize {
        self.brokers().min(3)
    }

    fn brokers(&self) -> usize {
        let brokers = self.nodes.iter().filter(|node| node.role == Role::Broker);
        brokers.count()
    }

    /// The `server.properties` of a node.
    pub fn properties(&self, node: &Node) -> String {
        let mut text = format!(
            "# {}, as `millrace up` starts it. Written anew at every start; to change a key, use --set.\n",
            node.name()
        );
        let voters = self.nodes.iter().filter(|node| node.role == Role::Controller);
        let voters: Vec<String> = voters
            .map(|voter| format!("{}@{}", voter.id, voter.address))
            .collect();
        let copies = self.copies().to_string();
        let (id, dir) = (node.id.to_string(), node.dir.join("data").display().to_string());
        let mut pairs = vec![
            ("process.roles", node.role.word().to_owned()),
            ("node.id", id),
            ("cluster.id", self.cluster_id.clone()),
            ("controller.quorum.voters", voters.join(",")),
            ("controller.listener.names", "CONTROLLER".to_owned()),
        ];
        match node.role {
            Role::Controller => pairs.push(("listeners", format!("CONTROLLER://{}", node.address))),
            Role::Broker => {
                pairs.push(("listeners", format!("PLAINTEXT://{}", node.address)));
                pairs.push(("advertised.listeners", format!("PLAINTEXT://{}", node.address)));
            }
        }
        pairs.extend([
            ("metrics.listener", node.metrics.to_string()),
            ("log.dirs", dir),
            ("default.replication.factor", copies.clone()),
            ("offsets.topic.replication.factor", copies),
        ]);
        let mut line =
            |text_line: &str| writeln!(text, "{text_line}").expect("writing to a string cannot fail");
        pairs
            .iter()
            .for_each(|(key, value)| line(&render_property(key, value)));
        if !self.sets.is_empty() {
            line("# Given with --set:");
            self.sets
                .iter()
                .for_each(|(key, value)| line(&render_property(key, value)));
        }
        text
    }

    /// Settings that come too late for a cluster that was begun before, each with the command that does change it.
    pub fn too_late(&self) -> Vec<String> {
        let given = |key: &&str| self.sets.iter().rfind(|(set, _)| set == *key);
        let line = |(key, value): &(String, String)| {
            format!(
                "--set {key}={value} has no effect: the cluster keeps the value of its first start; change it with \
                 `millrace config set brokers {key}={value} --bootstrap {}`",
                self.addresses(Role::Broker)
            )
        };
        FIRST_START_KEYS.iter().filter_map(given).map(line).collect()
    }

    /// Numbers of replicas that so few brokers can never reach, each with the next step. `environment` reaches every node
    /// alike.
    pub fn out_of_reach(&self, environment: &[(String, String)]) -> Vec<String> {
        let config = self
            .nodes
            .last()
            .and_then(|node| NodeConfig::resolve(Some(&self.properties(node)), environment, &[]).ok());
        let Some(config) = config else {
            return Vec::new();
        };
        let there = i64::try_from(self.brokers()).unwrap_or(i64::MAX);
        let line = |key: &str, effect: &str, instead: &dyn Fn() -> String| {
            let wanted = config.integer(key);
            (there < wanted).then(|| {
                let with = counted(self.brokers(), "broker");
                format!(
                    "{key}={wanted}: with {with} {effect}; use --brokers {wanted}, or {}",
                    instead()
                )
            })
        };
        let minimum = FIRST_START_KEYS[0];
        let lower = || {
            let value = self.copies().saturating_sub(1).max(1);
            let at = self.addresses(Role::Broker);
            format!("`millrace config set brokers {minimum}={value} --bootstrap {at}`")
        };
        let every = "a write with acks=all needs every replica, and waits while one is away";
        let [factor, groups] = ["default.replication.factor", "offsets.topic.replication.factor"];
        let fewer = |key: &'static str| move || format!("--set {key}={there}");
        [
            line(minimum, every, &lower),
            line(
                factor,
                "a topic must be created with a factor of its own",
                &fewer(factor),
            ),
            line(groups, "groups wait until there are as many", &fewer(groups)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// What is wrong with the configurations, and which keys have no effect, before any node is begun. `environment`
    /// reaches every node alike.
    ///
    /// # Errors
    /// One line for each thing.
    pub fn check(&self, environment: &[(String, String)]) -> Result<Vec<Warning>, Vec<String>> {
        let mut errors: Vec<String> = Vec::new();
        let mut warnings = Vec::new();
        for (key, value) in self
            .sets
            .iter()
            .filter(|(key, _)| OWN_KEYS.contains(&key.as_str()))
        {
            errors.push(format!(
                "--set {key}={value}: `millrace up` gives this key to each node itself"
            ));
        }
        for name in OWN_KEYS.map(environment_name) {
            if environment.iter().any(|(given, _)| *given == name) {
                errors.push(format!("{name}: unset it, for it would reach every node"));
            }
        }
        let judged: &[Node] = if errors.is_empty() { &self.nodes } else { &[] };
        for node in judged {
            match resolve(&self.properties(node), environment, node.role) {
                Ok(config) => warnings.extend_from_slice(config.warnings()),
                Err(refused) => errors.extend(refused.iter().map(ToString::to_string)),
            }
        }
        errors.dedup();
        warnings.sort();
        warnings.dedup();
        if errors.is_empty() {
            Ok(warnings)
        } else {
            Err(errors)
        }
    }
}

fn resolve(text: &str, environment: &[(String, String)], role: Role) -> Result<NodeConfig, Vec<ConfigError>> {
    let config = NodeConfig::resolve(Some(text), environment, &[])?;
    match role {
        Role::Controller => ControllerSettings::from_config(&config).map(drop)?,
        Role::Broker => BrokerSettings::from_config(&config).map(drop)?,
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn args(controllers: u8, brokers: u8, port: u16, sets: &[(&str, &str)]) -> UpArgs {
        let sets = sets
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        UpArgs {
            controllers,
            brokers,
            dir: PathBuf::from("d"),
            port,
            sets,
        }
    }

    fn plan(args: &UpArgs) -> Plan {
        Plan::new(
            args,
            PathBuf::from("/tmp/a b"),
            "gOeqsRAGSZaV0SeZXRAmdA".to_owned(),
        )
        .unwrap()
    }

    #[test]
    fn what_is_read_at_the_first_start_only_comes_too_late_afterwards() {
        let sets = [
            ("min.insync.replicas", "1"),
            ("num.partitions", "4"),
            ("min.insync.replicas", "2"),
        ];
        let lines = plan(&args(1, 2, 9092, &sets)).too_late();
        assert_eq!(
            lines,
            [
                "--set min.insync.replicas=2 has no effect: the cluster keeps the value of its first start; change it \
                 with `millrace config set brokers min.insync.replicas=2 --bootstrap 127.0.0.1:9092,127.0.0.1:9093`"
            ]
        );
        assert_eq!(
            plan(&args(1, 1, 9092, &[("num.partitions", "4")])).too_late(),
            [""; 0]
        );
    }

    #[test]
    fn more_replicas_than_there_can_be_are_told_with_the_next_step() {
        let sets = [
            ("min.insync.replicas", "5"),
            ("default.replication.factor", "4"),
            ("offsets.topic.replication.factor", "4"),
        ];
        assert_eq!(
            plan(&args(1, 3, 9092, &sets)).out_of_reach(&[]),
            [
                "min.insync.replicas=5: with 3 brokers a write with acks=all needs every replica, and waits while one is \
                 away; use --brokers 5, or `millrace config set brokers min.insync.replicas=2 --bootstrap \
                 127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094`",
                "default.replication.factor=4: with 3 brokers a topic must be created with a factor of its own; use \
                 --brokers 4, or --set default.replication.factor=3",
                "offsets.topic.replication.factor=4: with 3 brokers groups wait until there are as many; use --brokers \
                 4, or --set offsets.topic.replication.factor=3",
            ]
        );
        let sets = [("min.insync.replicas", "3")];
        assert_eq!(plan(&args(1, 3, 9092, &sets)).out_of_reach(&[]), [""; 0]);
        let environment = [("MILLRACE_CONF_MIN_INSYNC_REPLICAS".to_owned(), "2".to_owned())];
        let lines = plan(&args(1, 1, 9092, &[])).out_of_reach(&environment);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("min.insync.replicas=2: with 1 broker "),
            "{lines:?}"
        );
    }

    #[test]
    fn brokers_take_the_first_ports_and_controllers_those_behind() {
        let plan = plan(&args(3, 2, 9092, &[]));
        assert_eq!(plan.addresses(Role::Broker), "127.0.0.1:9092,127.0.0.1:9093");
        assert_eq!(
            plan.addresses(Role::Controller),
            "127.0.0.1:9094,127.0.0.1:9095,127.0.0.1:9096"
        );
        let names: Vec<_> = plan.nodes.iter().map(Node::name).collect();
        assert_eq!(
            names,
            [
                "controller-101",
                "controller-102",
                "controller-103",
                "broker-1",
                "broker-2"
            ]
        );
        assert_eq!(plan.copies(), 2);
    }

    #[test]
    fn ports_must_suffice() {
        let errors = Plan::new(&args(3, 3, 65525, &[]), PathBuf::new(), String::new()).unwrap_err();
        assert_eq!(
            errors,
            ["--port 65525: 12 ports from there on are needed, up to 65535"]
        );
        assert!(Plan::new(&args(3, 3, 65524, &[]), PathBuf::new(), String::new()).is_ok());
    }

    #[test]
    fn a_broker_is_told_all_it_must_know() {
        let plan = plan(&args(1, 1, 9092, &[("log.segment.bytes", "2000000")]));
        let text = plan.properties(&plan.nodes[1]);
        assert_eq!(
            text,
            "# broker-1, as `millrace up` starts it. Written anew at every start; to change a key, use --set.\n\
             process.roles=broker\n\
             node.id=1\n\
             cluster.id=gOeqsRAGSZaV0SeZXRAmdA\n\
             controller.quorum.voters=101@127.0.0.1:9093\n\
             controller.listener.names=CONTROLLER\n\
             listeners=PLAINTEXT://127.0.0.1:9092\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:9092\n\
             metrics.listener=127.0.0.1:9094\n\
             log.dirs=/tmp/a b/broker-1/data\n\
             default.replication.factor=1\n\
             offsets.topic.replication.factor=1\n\
             # Given with --set:\n\
             log.segment.bytes=2000000\n"
        );
    }

    #[test]
    fn every_node_of_a_plan_can_read_what_it_is_told() {
        let plan = plan(&args(
            3,
            3,
            9092,
            &[("min.insync.replicas", "2"), ("num.io.threads", "4")],
        ));
        let warnings = plan.check(&[]).unwrap();
        assert_eq!(
            warnings
                .iter()
                .map(|warning| warning.key.as_str())
                .collect::<Vec<_>>(),
            ["num.io.threads"]
        );
    }

    #[test]
    fn a_wrong_setting_is_one_line_and_not_one_for_each_node() {
        let plan = plan(&args(3, 3, 9092, &[("num.partitions", "x")]));
        assert_eq!(
            plan.check(&[]).unwrap_err(),
            ["num.partitions=x: wrong type; a whole number of 1 or more"]
        );
    }

    #[test]
    fn what_tells_nodes_apart_cannot_be_set_for_all() {
        let errors = plan(&args(1, 1, 9092, &[("node.id", "5")]))
            .check(&[])
            .unwrap_err();
        assert_eq!(
            errors,
            ["--set node.id=5: `millrace up` gives this key to each node itself"]
        );
        let environment = [("MILLRACE_CONF_NODE_ID".to_owned(), "5".to_owned())];
        let errors = plan(&args(1, 1, 9092, &[])).check(&environment).unwrap_err();
        assert!(
            errors.iter().any(|line| line.contains("MILLRACE_CONF_NODE_ID")),
            "{errors:?}"
        );
    }

    #[test]
    fn a_setting_wins_over_what_a_plan_gives_by_itself() {
        let plan = plan(&args(1, 3, 9092, &[("default.replication.factor", "2")]));
        let config = NodeConfig::resolve(Some(&plan.properties(&plan.nodes[1])), &[], &[]).unwrap();
        assert_eq!(config.integer("default.replication.factor"), 2);
    }
}

//! What is found out of the published state and the quorum when somebody looks.

use std::sync::{Arc, Weak};

use metadata::image::{Broker, Image, Partition};
use observe::{Gathered, Metrics};

use super::ControllerMetrics;
use crate::services::Desk;
use crate::space::Space;

/// Of all partitions of the cluster.
#[derive(Default)]
struct Partitions {
    count: usize,
    offline: usize,
    led_by_others: usize,
}

impl Partitions {
    fn of(image: &Image) -> Partitions {
        let mut all = Partitions::default();
        for topic in image.topics.values() {
            topic.partitions.values().for_each(|partition| all.add(partition));
        }
        all
    }

    fn add(&mut self, partition: &Partition) {
        self.count += 1;
        self.offline += usize::from(partition.leader.is_none());
        self.led_by_others += usize::from(partition.leader != partition.replicas.first().copied());
    }
}

/// Shows the state of a controller for as long as it lives.
pub fn gauges(metrics: &Arc<ControllerMetrics>, desk: &Arc<Desk>) {
    let (counts, desk): (_, Weak<Desk>) = (Arc::downgrade(metrics), Arc::downgrade(desk));
    let registry: &Metrics = &metrics.metrics;
    registry.gathered(move |gathered| {
        if let (Some(metrics), Some(desk)) = (counts.upgrade(), desk.upgrade()) {
            let image = desk.published.image();
            of_cluster(&image, gathered);
            of_controller(&metrics, &desk, &image, gathered);
            of_quorum(&desk, &image, gathered);
        }
    });
}

fn of_cluster(image: &Image, gathered: &mut Gathered) {
    let partitions = Partitions::of(image);
    let brokers = |which: fn(&Broker) -> bool| image.brokers.values().filter(|broker| which(broker)).count();
    let rows = [
        (
            "activebrokercount",
            "Brokers that are unfenced.",
            brokers(|broker| !broker.fenced),
        ),
        (
            "fencedbrokercount",
            "Registered brokers that are fenced.",
            brokers(|broker| broker.fenced),
        ),
        (
            "controlledshutdownbrokercount",
            "Brokers that hand their leaderships over.",
            brokers(|broker| broker.in_controlled_shutdown && !broker.fenced),
        ),
        ("globaltopiccount", "Topics.", image.topics.len()),
        ("globalpartitioncount", "Partitions.", partitions.count),
        (
            "offlinepartitionscount",
            "Partitions without a leader.",
            partitions.offline,
        ),
        (
            "preferredreplicaimbalancecount",
            "Partitions that another replica than the first one leads.",
            partitions.led_by_others,
        ),
    ];
    for (name, help, count) in rows {
        gathered.gauge(
            &format!("kafka_controller_kafkacontroller_{name}"),
            help,
            count as f64,
        );
    }
    for (id, broker) in &image.brokers {
        let number = match (broker.fenced, broker.in_controlled_shutdown) {
            (true, _) => 10,
            (false, true) => 20,
            (false, false) => 30,
        };
        gathered.gauge_of(
            "kafka_controller_kafkacontroller_brokerregistrationstate",
            "10 fenced, 20 handing its leaderships over, 30 active.",
            &[("broker", &id.to_string())],
            f64::from(number),
        );
    }
}

fn of_controller(metrics: &ControllerMetrics, desk: &Desk, image: &Image, gathered: &mut Gathered) {
    let is_active = desk.inbox.active().is_some();
    let silent = desk.clock.now().since(metrics.applied_at());
    let rows = [
        (
            "activecontrollercount",
            "1 where this controller is the active one.",
            f64::from(u8::from(is_active)),
        ),
        (
            "lastappliedrecordoffset",
            "The last metadata offset that is applied here.",
            (image.next_offset.0 - 1) as f64,
        ),
        (
            "lastcommittedrecordoffset",
            "The last metadata offset that is known to be committed.",
            (image.next_offset.0 - 1) as f64,
        ),
        (
            "lastappliedrecordlagms",
            "How long ago something was applied here, in milliseconds.",
            silent.as_secs_f64() * 1_000.0,
        ),
    ];
    gathered.gauge(
        "millrace_controller_metadata_disk_state",
        "0 room on the disk of the metadata log, 1 almost full: nothing is added, 2 full: nothing is decided.",
        match desk.inbox.space() {
            Space::Enough => 0.0,
            Space::Scarce => 1.0,
            Space::Exhausted => 2.0,
        },
    );
    for (name, help, value) in rows {
        gathered.gauge(&format!("kafka_controller_kafkacontroller_{name}"), help, value);
    }
}

fn of_quorum(desk: &Desk, image: &Image, gathered: &mut Gathered) {
    let standing = desk.quorum.standing();
    let leader = standing.leader.as_ref().map_or(-1, |(id, _)| id.0);
    let rows = [
        (
            "current_leader",
            "The controller that leads the quorum; -1 where none is known.",
            f64::from(leader),
        ),
        ("current_epoch", "The newest term.", standing.term.0 as f64),
        (
            "log_end_offset",
            "Entries in the replicated log of this controller.",
            standing.log_end as f64,
        ),
        (
            "high_watermark",
            "Metadata offsets that are committed.",
            image.next_offset.0 as f64,
        ),
        (
            "number_of_voters",
            "Controllers with a vote.",
            desk.quorum.members().iter().filter(|member| member.votes).count() as f64,
        ),
    ];
    for (name, help, value) in rows {
        gathered.gauge(&format!("kafka_server_raft_metrics_{name}"), help, value);
    }
    for role in ["leader", "follower", "candidate", "learner"] {
        gathered.gauge_of(
            "kafka_server_raft_metrics_current_state",
            "1 at the role of this controller in the quorum.",
            &[("state", role)],
            f64::from(u8::from(standing.role.as_str() == role)),
        );
    }
}

//! Builders for tests: small clusters, in the domain's words.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metadata::batch::{MetadataBatch, Provenance};
use metadata::ids::{
    BrokerEpoch, BrokerId, DirectoryId, IncarnationId, LeaderEpoch, MetadataOffset, PartitionEpoch,
    PartitionId, PartitionIndex, Term, TopicId,
};
use metadata::image::{Image, Partition};
use metadata::record::{
    BrokerRegistered, BrokerRegistrationChanged, ConfigResource, Endpoint, LeaderChange, LeaderRecovery,
    PartitionChanged, PartitionCreated, Record, SecurityProtocol,
};
use metadata::uuid::Uuid;

use crate::offsets::{HighWatermark, LogEnd, LogFacts, LogStart, Offset};
use crate::replica::{Assignment, MinInSync, Registration, Standing};
use crate::time::Moment;

pub const TOPIC: TopicId = TopicId(Uuid(0x0123_4567_89ab_4def_8123_4567_89ab_cdef));

pub fn partition(index: i32) -> PartitionId {
    PartitionId {
        topic: TOPIC,
        index: PartitionIndex(index),
    }
}

pub fn at(milliseconds: u64) -> Moment {
    Moment::from_start(Duration::from_millis(milliseconds))
}

/// An empty start, this end, this watermark.
pub fn log(end: i64, watermark: i64) -> LogFacts {
    LogFacts {
        start: LogStart(Offset(0)),
        end: LogEnd(Offset(end)),
        watermark: HighWatermark(Offset(watermark)),
    }
}

pub fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

/// `orders-0` on the brokers `replicas`, all in sync, seen by `me`; leader epoch 5, partition epoch 9. The registered
/// epoch of broker n is 100 + n.
pub fn assignment(me: i32, leader: Option<i32>, replicas: &[i32], min_in_sync: usize) -> Assignment {
    let registered = |id: &i32| {
        let epoch = BrokerEpoch(100 + i64::from(*id));
        (
            BrokerId(*id),
            Registration {
                epoch,
                standing: Standing::Active,
            },
        )
    };
    Assignment {
        partition: partition(0),
        me: BrokerId(me),
        state: Arc::new(Partition {
            leader_epoch: LeaderEpoch(5),
            epoch: PartitionEpoch(9),
            ..partition_state(leader, replicas)
        }),
        min_in_sync: MinInSync(min_in_sync),
        registrations: replicas.iter().map(registered).collect::<BTreeMap<_, _>>(),
    }
}

pub fn partition_state(leader: Option<i32>, replicas: &[i32]) -> Partition {
    Partition {
        replicas: brokers(replicas),
        directories: vec![DirectoryId::UNASSIGNED; replicas.len()],
        in_sync: brokers(replicas),
        eligible: Vec::new(),
        last_known_leader: None,
        adding: Vec::new(),
        removing: Vec::new(),
        leader: leader.map(BrokerId),
        recovery: LeaderRecovery::Recovered,
        leader_epoch: LeaderEpoch(0),
        epoch: PartitionEpoch(0),
    }
}

impl Assignment {
    /// With another state, one partition epoch later.
    pub fn then(mut self, change: impl FnOnce(&mut Partition)) -> Self {
        let state = Arc::make_mut(&mut self.state);
        state.epoch = state.epoch.next();
        change(state);
        self
    }

    /// With this broker in another standing; the partition's state is as before.
    pub fn standing(mut self, broker: i32, standing: Standing) -> Self {
        self.registrations.get_mut(&BrokerId(broker)).unwrap().standing = standing;
        self
    }
}

/// A cluster whose brokers 1 to `brokers` are unfenced; broker n has the epoch n - 1.
pub fn cluster(brokers: i32) -> Image {
    let mut image = Image::default();
    for id in 1..=brokers {
        let epoch = BrokerEpoch(image.next_offset.0);
        replay(&mut image, [Record::BrokerRegistered(registered(id, epoch))]);
    }
    image
}

fn registered(id: i32, epoch: BrokerEpoch) -> BrokerRegistered {
    let endpoint = Endpoint {
        listener: "PLAINTEXT".to_owned(),
        host: format!("broker-{id}"),
        port: 9092,
        security: SecurityProtocol::Plaintext,
    };
    BrokerRegistered {
        broker: BrokerId(id),
        epoch,
        registered_at: None,
        incarnation: IncarnationId(Uuid(1000 + u128::from(id.unsigned_abs()))),
        endpoints: vec![endpoint],
        features: Vec::new(),
        rack: Some(format!("rack-{id}")),
        directories: Vec::new(),
        fenced: false,
        in_controlled_shutdown: false,
    }
}

pub fn replay(image: &mut Image, records: impl IntoIterator<Item = Record>) {
    for record in records {
        image.replay(&record).unwrap();
    }
}

/// The topic `orders`; each partition led by the first of its replicas.
pub fn with_orders(mut image: Image, partitions: &[&[i32]]) -> Image {
    replay(
        &mut image,
        [Record::TopicCreated {
            topic: TOPIC,
            name: "orders".to_owned(),
        }],
    );
    for (index, replicas) in partitions.iter().enumerate() {
        let state = partition_state(Some(replicas[0]), replicas);
        let partition = partition(i32::try_from(index).unwrap());
        replay(
            &mut image,
            [Record::PartitionCreated(PartitionCreated { partition, state })],
        );
    }
    image
}

/// The same image after a change of one partition of `orders`.
pub fn changed(image: &Image, index: i32, change: impl FnOnce(&mut PartitionChanged)) -> Image {
    let mut image = image.clone();
    let mut record = PartitionChanged::of(partition(index));
    change(&mut record);
    replay(&mut image, [Record::PartitionChanged(record)]);
    image
}

/// The same image after partition `index` got this leader.
pub fn led_by(image: &Image, index: i32, leader: i32) -> Image {
    changed(image, index, |record| {
        record.leader = Some(LeaderChange::To(BrokerId(leader)))
    })
}

/// The same image after a broker was fenced.
pub fn fenced(image: &Image, broker: i32) -> Image {
    let mut image = image.clone();
    let epoch = image.brokers[&BrokerId(broker)].epoch;
    let change = BrokerRegistrationChanged {
        broker: BrokerId(broker),
        epoch,
        fenced: Some(true),
        in_controlled_shutdown: None,
        directories: None,
    };
    replay(&mut image, [Record::BrokerRegistrationChanged(change)]);
    image
}

/// The same image after a value was set.
pub fn configured(image: &Image, resource: ConfigResource, key: &str, value: &str) -> Image {
    let mut image = image.clone();
    let record = Record::ConfigChanged {
        resource,
        key: key.to_owned(),
        value: Some(value.to_owned()),
    };
    replay(&mut image, [record]);
    image
}

/// A batch of one record.
#[allow(dead_code, reason = "used below")]
pub fn batch(term: u64, base_offset: i64, record: Record) -> MetadataBatch {
    MetadataBatch {
        decided_in_term: Term(term),
        base_offset: MetadataOffset(base_offset),
        provenance: Provenance::default(),
        records: vec![record],
    }
}

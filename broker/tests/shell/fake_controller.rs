//! A controller of one node without a quorum: it takes registrations and topics, decides them at once, and streams the
//! records. Enough of one for a broker to live with; nothing is checked.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use metadata::batch::{MetadataBatch, Provenance};
use metadata::ids::{
    BrokerEpoch, BrokerId, DirectoryId, IncarnationId, LeaderEpoch, MetadataOffset, PartitionEpoch,
    PartitionId, PartitionIndex, ProducerId, Term, TopicId,
};
use metadata::image::{Image, Partition};
use metadata::record::{
    BrokerRegistered, BrokerRegistrationChanged, ConfigResource, Endpoint, LeaderRecovery, LevelRange,
    PartitionCreated, Record, SecurityProtocol,
};
use metadata::uuid::Uuid;
use millrace_proto::v1;
use millrace_proto::v1::admin_server::{Admin, AdminServer};
use millrace_proto::v1::metadata_server::{Metadata, MetadataServer};
use millrace_proto::v1::session_server::{Session, SessionServer};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

const CLUSTER: &str = "shell-test";

/// A topic that this controller never has room for.
pub const NO_ROOM_FOR: &str = "too-much";

struct State {
    image: Image,
    batches: Vec<MetadataBatch>,
}

/// The controller.
#[derive(Clone)]
pub struct FakeController {
    state: Arc<Mutex<State>>,
    end: Arc<watch::Sender<i64>>,
    /// What brokers asked to be registered with.
    registrations: Arc<watch::Sender<Vec<v1::Register>>>,
    /// How often a broker asked to be let go.
    farewells: Arc<watch::Sender<usize>>,
    /// Brokers are heard and not answered.
    is_silent: Arc<AtomicBool>,
    /// No broker is let go.
    is_clinging: Arc<AtomicBool>,
}

impl FakeController {
    /// Serves on a free port of loopback until the test ends; gives the port.
    pub async fn start() -> (FakeController, u16) {
        let controller = FakeController {
            state: Arc::new(Mutex::new(State {
                image: Image::default(),
                batches: Vec::new(),
            })),
            end: Arc::new(watch::Sender::new(0)),
            registrations: Arc::default(),
            farewells: Arc::default(),
            is_silent: Arc::default(),
            is_clinging: Arc::default(),
        };
        controller.append(metadata::feature::bootstrap_records(1));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = controller.clone();
        tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_service(MetadataServer::new(served.clone()))
                .add_service(SessionServer::new(served.clone()))
                .add_service(AdminServer::new(served))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .unwrap();
        });
        (controller, port)
    }

    /// From now on no registration and no heartbeat is answered.
    pub fn fall_silent(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    /// From now on a broker that asks to be let go is told "not yet".
    pub fn let_nobody_go(&self) {
        self.is_clinging.store(true, Ordering::SeqCst);
    }

    /// Comes back when brokers have asked so often to be let go.
    pub async fn asked_to_let_go(&self, count: usize) {
        let mut asked = self.farewells.subscribe();
        asked.wait_for(|asked| count <= *asked).await.unwrap();
    }

    /// What is asked for after so many registrations, as soon as it is.
    pub async fn registration_after(&self, count: usize) -> v1::Register {
        let mut asked = self.registrations.subscribe();
        let asked = asked.wait_for(|all| count < all.len()).await.unwrap();
        asked[count].clone()
    }

    /// How often a broker asked to be registered.
    pub fn registration_count(&self) -> usize {
        self.registrations.borrow().len()
    }

    /// Commits records; gives the offset behind them.
    pub fn append(&self, records: Vec<Record>) -> i64 {
        let mut state = self.state.lock();
        let batch = MetadataBatch {
            decided_in_term: Term(1),
            base_offset: state.image.next_offset,
            provenance: Provenance::default(),
            records,
        };
        state.image.apply(&batch, Term(1)).unwrap();
        state.batches.push(batch);
        let end = state.image.next_offset.0;
        self.end.send_replace(end);
        end
    }

    fn next_offset(&self) -> MetadataOffset {
        self.state.lock().image.next_offset
    }

    fn create(&self, name: &str, partitions: i32, configs: &[v1::ConfigEntry]) -> (TopicId, i64) {
        let brokers: Vec<BrokerId> = self.state.lock().image.brokers.keys().copied().collect();
        let id = TopicId(Uuid(0x1000 + u128::try_from(self.next_offset().0).unwrap()));
        let mut records = vec![Record::TopicCreated {
            topic: id,
            name: name.to_owned(),
        }];
        records.extend(configs.iter().map(|config| Record::ConfigChanged {
            resource: ConfigResource::Topic(name.to_owned()),
            key: config.key.clone(),
            value: config.value.clone(),
        }));
        for index in 0..partitions {
            let leader = brokers[usize::try_from(index).unwrap() % brokers.len()];
            records.push(Record::PartitionCreated(PartitionCreated {
                partition: PartitionId {
                    topic: id,
                    index: PartitionIndex(index),
                },
                state: Partition {
                    replicas: vec![leader],
                    directories: vec![DirectoryId::UNASSIGNED],
                    in_sync: vec![leader],
                    eligible: vec![],
                    last_known_leader: None,
                    adding: vec![],
                    removing: vec![],
                    leader: Some(leader),
                    recovery: LeaderRecovery::Recovered,
                    leader_epoch: LeaderEpoch(0),
                    epoch: PartitionEpoch(0),
                },
            }));
        }
        (id, self.append(records))
    }

    fn register(&self, said: &v1::Register) -> BrokerEpoch {
        let offset = self.next_offset();
        let epoch = BrokerEpoch(offset.0);
        let endpoint = |endpoint: &v1::BrokerEndpoint| Endpoint {
            listener: endpoint.listener.clone(),
            host: endpoint.host.clone(),
            port: u16::try_from(endpoint.port).unwrap(),
            security: SecurityProtocol::Plaintext,
        };
        let level = |level: i32| i16::try_from(level).unwrap();
        self.append(vec![Record::BrokerRegistered(BrokerRegistered {
            broker: BrokerId(said.broker),
            epoch,
            registered_at: None,
            incarnation: IncarnationId(said.incarnation.parse().unwrap()),
            endpoints: said.endpoints.iter().map(endpoint).collect(),
            features: said
                .features
                .iter()
                .map(|f| {
                    (
                        f.name.clone(),
                        LevelRange {
                            min: level(f.min),
                            max: level(f.max),
                        },
                    )
                })
                .collect(),
            rack: said.rack.clone(),
            directories: said
                .directories
                .iter()
                .map(|id| DirectoryId(id.parse().unwrap()))
                .collect(),
            fenced: true,
            in_controlled_shutdown: false,
        })]);
        epoch
    }

    fn heartbeat(&self, said: &v1::Heartbeat) -> v1::HeartbeatReply {
        let id = BrokerId(said.broker);
        let broker = Arc::clone(&self.state.lock().image.brokers[&id]);
        let is_caught_up = broker.registered_at.0 < said.applied_end;
        if said.want_shutdown {
            self.farewells.send_modify(|asked| *asked += 1);
        }
        if said.want_shutdown && !self.is_clinging.load(Ordering::SeqCst) {
            return v1::HeartbeatReply {
                is_caught_up,
                is_fenced: true,
                should_shut_down: true,
            };
        }
        let unfence = broker.fenced && is_caught_up && !said.want_fence;
        if unfence {
            self.append(vec![Record::BrokerRegistrationChanged(
                BrokerRegistrationChanged {
                    broker: id,
                    epoch: broker.epoch,
                    fenced: Some(false),
                    in_controlled_shutdown: None,
                    directories: None,
                },
            )]);
        }
        v1::HeartbeatReply {
            is_caught_up,
            is_fenced: broker.fenced && !unfence,
            should_shut_down: false,
        }
    }
}

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Metadata for FakeController {
    type FollowStream = Events<v1::FollowEvent>;

    async fn follow(
        &self,
        request: Request<v1::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        use v1::follow_event::Event;
        let mut next = request.into_inner().next_offset;
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let (controller, mut ends) = (self.clone(), self.end.subscribe());
        tokio::spawn(async move {
            let send = |event| sender.send(Ok(v1::FollowEvent { event: Some(event) })).is_ok();
            send(Event::Hello(v1::Hello {
                cluster_id: CLUSTER.into(),
                lineage_differs: false,
            }));
            loop {
                let batches: Vec<MetadataBatch> = controller.state.lock().batches.clone();
                for batch in &batches {
                    if next <= batch.base_offset.0 {
                        next = batch.end_offset().0;
                        send(Event::Batch(batch.encode()));
                    }
                }
                let progress = v1::Progress {
                    committed_end: next,
                    term: 1,
                    active: None,
                };
                if !send(Event::Progress(progress)) {
                    return;
                }
                let changed = tokio::time::timeout(std::time::Duration::from_millis(200), ends.changed());
                if let Err(_idle) = changed.await {
                    controller.append(vec![Record::NoOp]);
                }
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(receiver))))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusReply>, Status> {
        Ok(Response::new(v1::StatusReply {
            cluster_id: CLUSTER.into(),
            active: true,
            ..Default::default()
        }))
    }
}

#[tonic::async_trait]
impl Session for FakeController {
    type OpenStream = Events<v1::ControllerSays>;

    async fn open(
        &self,
        request: Request<Streaming<v1::BrokerSays>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        use v1::{broker_says::Says, controller_says};
        let controller = self.clone();
        let answers = request.into_inner().filter_map(move |said| {
            let says = match said.ok()?.says? {
                Says::Register(register) => {
                    controller
                        .registrations
                        .send_modify(|all| all.push(register.clone()));
                    if controller.is_silent.load(Ordering::SeqCst) {
                        return None;
                    }
                    let epoch = controller.register(&register).0;
                    controller_says::Says::Registered(v1::Registered { epoch })
                }
                Says::Heartbeat(_) if controller.is_silent.load(Ordering::SeqCst) => return None,
                Says::Heartbeat(heartbeat) => {
                    controller_says::Says::Heartbeat(controller.heartbeat(&heartbeat))
                }
                Says::Goodbye(_) => return None,
            };
            Some(Ok(v1::ControllerSays { says: Some(says) }))
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

#[tonic::async_trait]
impl Admin for FakeController {
    async fn create_topics(
        &self,
        request: Request<v1::CreateTopicsRequest>,
    ) -> Result<Response<v1::CreateTopicsReply>, Status> {
        let mut reply = v1::CreateTopicsReply::default();
        let topics = request.into_inner().topics;
        if topics.iter().any(|topic| topic.name == NO_ROOM_FOR) {
            reply.refusal = Some(v1::Refusal {
                kind: v1::RefusalKind::Unavailable.into(),
                message: "controller 100: the disk is almost full".to_owned(),
                active: None,
            });
            return Ok(Response::new(reply));
        }
        for topic in topics {
            let partitions = topic.partitions.unwrap_or(1);
            let (id, end) = self.create(&topic.name, partitions, &topic.configs);
            reply.visible_at = end;
            let made = v1::TopicMade {
                topic_id: id.to_string(),
                partitions,
                replication_factor: 1,
            };
            let result = Some(v1::new_topic_result::Result::Made(made));
            reply.topics.push(v1::NewTopicResult {
                name: topic.name,
                result,
            });
        }
        Ok(Response::new(reply))
    }

    async fn delete_topics(
        &self,
        request: Request<v1::DeleteTopicsRequest>,
    ) -> Result<Response<v1::DeleteTopicsReply>, Status> {
        let mut reply = v1::DeleteTopicsReply::default();
        for topic in request.into_inner().topics {
            let Some(v1::topic_ref::Topic::Name(name)) = topic.topic else {
                continue;
            };
            let id = self.state.lock().image.topic_names[&name];
            reply.visible_at = self.append(vec![Record::TopicDeleted { topic: id }]);
            reply.topics.push(v1::DeleteTopicResult {
                name: Some(name),
                topic_id: Some(id.to_string()),
                refused: None,
            });
        }
        Ok(Response::new(reply))
    }

    async fn alter_partition(
        &self,
        _: Request<v1::AlterPartitionRequest>,
    ) -> Result<Response<v1::AlterPartitionReply>, Status> {
        Ok(Response::new(v1::AlterPartitionReply::default()))
    }

    async fn allocate_producer_ids(
        &self,
        request: Request<v1::AllocateProducerIdsRequest>,
    ) -> Result<Response<v1::AllocateProducerIdsReply>, Status> {
        let asked = request.into_inner();
        let first = self.state.lock().image.next_producer_id.0;
        self.append(vec![Record::ProducerIdsAllocated {
            broker: BrokerId(asked.broker),
            broker_epoch: BrokerEpoch(asked.broker_epoch),
            next: ProducerId(first + 1000),
        }]);
        Ok(Response::new(v1::AllocateProducerIdsReply {
            refusal: None,
            first,
            count: 1000,
        }))
    }

    async fn create_partitions(
        &self,
        _: Request<v1::CreatePartitionsRequest>,
    ) -> Result<Response<v1::CreatePartitionsReply>, Status> {
        Err(Status::unimplemented("no test asks for it"))
    }

    async fn alter_configs(
        &self,
        _: Request<v1::AlterConfigsRequest>,
    ) -> Result<Response<v1::AlterConfigsReply>, Status> {
        Err(Status::unimplemented("no test asks for it"))
    }

    async fn elect_leaders(
        &self,
        _: Request<v1::ElectLeadersRequest>,
    ) -> Result<Response<v1::ElectLeadersReply>, Status> {
        Err(Status::unimplemented("no test asks for it"))
    }
}

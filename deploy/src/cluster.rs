//! A cluster as clients that move records see it: who leads which partition, and one connection to each broker.

use std::collections::BTreeMap;

use wire::messages::MetadataRequest;
use wire::messages::metadata::{MetadataRequestTopic, MetadataResponse, MetadataResponseTopic};
use wire::{ErrorCode, Uuid};

use crate::address::Address;
use crate::ask;
use crate::client::{Client, ClientError};
use crate::outcome::Failure;

/// A topic and the leaders of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; zero where the broker is too old to say it.
    pub id: Uuid,
    /// By partition: the leader, where there is one.
    pub leaders: BTreeMap<i32, Option<i32>>,
}

impl Topic {
    /// Whether it has this partition.
    ///
    /// # Errors
    /// With those that it has, where it has not.
    pub fn expect_partition(&self, partition: i32) -> Result<(), Failure> {
        if self.leaders.contains_key(&partition) {
            return Ok(());
        }
        let name = &self.name;
        let last = self.leaders.keys().next_back().copied().unwrap_or(-1);
        Err(Failure::Refused(format!(
            "{name} has no partition {partition}, only 0 to {last}; `millrace topic describe {name}` shows them"
        )))
    }
}

/// Connections to the brokers of a cluster, made when they are first needed.
#[derive(Debug)]
pub struct Cluster {
    bootstrap: Vec<Address>,
    /// Whoever answered first; asked for what every broker knows.
    first: Client,
    brokers: BTreeMap<i32, Address>,
    open: BTreeMap<i32, Client>,
}

impl Cluster {
    /// Connects to the first of these that answers.
    ///
    /// # Errors
    /// When none does.
    pub async fn connect(bootstrap: &[Address]) -> Result<Self, ClientError> {
        Ok(Self {
            bootstrap: bootstrap.to_vec(),
            first: Client::connect(bootstrap).await?,
            brokers: BTreeMap::new(),
            open: BTreeMap::new(),
        })
    }

    /// Whoever answers what every broker can.
    pub const fn any(&mut self) -> &mut Client {
        &mut self.first
    }

    /// The brokers, by number, as of the last question.
    pub const fn brokers(&self) -> &BTreeMap<i32, Address> {
        &self.brokers
    }

    /// Asks who is there and who leads the partitions of a topic.
    ///
    /// # Errors
    /// When no broker answers, or the topic does not exist.
    pub async fn topic(&mut self, name: &str) -> Result<Topic, Failure> {
        let answer = self.metadata(&[name]).await?;
        let topic = answer.topics.first();
        let topic = topic.ok_or_else(|| Failure::Refused(format!("{name}: the answer is empty")))?;
        if topic.error_code != ErrorCode::LEADER_NOT_AVAILABLE {
            ask::refuse(topic.error_code, None, name)?;
        }
        Ok(described(name, topic))
    }

    /// Asks who is there, and about these topics.
    ///
    /// # Errors
    /// When no broker answers.
    pub async fn metadata(&mut self, names: &[&str]) -> Result<MetadataResponse, Failure> {
        let topic = |name: &&str| MetadataRequestTopic {
            name: Some((*name).to_owned()),
            ..Default::default()
        };
        let question = MetadataRequest {
            topics: Some(names.iter().map(topic).collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = match self.first.ask(12, &question).await {
            Ok((_, answer)) => answer,
            Err(ClientError::NotServed { address, api }) => {
                return Err(ClientError::NotServed { address, api }.into());
            }
            // Whoever was asked may have died; somebody else knows as well.
            Err(_) => {
                self.first = Client::connect(&self.known()).await?;
                self.first.ask(12, &question).await?.1
            }
        };
        for broker in &answer.brokers {
            if let Ok(port) = u16::try_from(broker.port) {
                let host = broker.host.clone();
                self.brokers.insert(broker.node_id, Address { host, port });
            }
        }
        Ok(answer)
    }

    fn known(&self) -> Vec<Address> {
        let mut all = self.bootstrap.clone();
        all.extend(
            self.brokers
                .values()
                .filter(|one| !self.bootstrap.contains(one))
                .cloned(),
        );
        all
    }

    /// The connection to a broker, to be given back with [`Cluster::give_back`] when it still serves.
    ///
    /// # Errors
    /// When the broker is unknown or cannot be reached.
    pub async fn take(&mut self, broker: i32) -> Result<Client, Failure> {
        if let Some(client) = self.open.remove(&broker) {
            return Ok(client);
        }
        let address = self.brokers.get(&broker);
        let address = address.ok_or_else(|| {
            Failure::Refused(format!(
                "broker {broker} is not known; `millrace status` shows the brokers"
            ))
        })?;
        Ok(Client::connect(std::slice::from_ref(address)).await?)
    }

    /// Takes a connection back for the next who needs it.
    pub fn give_back(&mut self, broker: i32, client: Client) {
        self.open.insert(broker, client);
    }
}

/// What Metadata says of a topic.
pub fn described(name: &str, topic: &MetadataResponseTopic) -> Topic {
    let leader = |id: i32| (0 <= id).then_some(id);
    let leaders = topic.partitions.iter();
    Topic {
        name: name.to_owned(),
        id: topic.topic_id,
        leaders: leaders
            .map(|one| (one.partition_index, leader(one.leader_id)))
            .collect(),
    }
}

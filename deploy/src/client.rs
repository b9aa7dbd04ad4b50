//! One connection to a broker, one question at a time, in the newest version that both ends speak.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::messages::ApiVersionsRequest;
use wire::{ApiKey, ApiVersion, CorrelationId, Part, Request, frame};

use crate::address::Address;
use crate::waiting::Waiting;

/// How long a broker may take to accept a connection and to say what it serves.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the first broker of a list is waited for alone. A stopped process still accepts connections, so that
/// only an answer tells that it lives; the next one is asked beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// How long a broker may take to answer. Longer than any wait that a request of ours asks for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// The largest answer that is read: the metadata of some hundred thousand partitions.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Every broker since Kafka 2.4 answers this version.
const API_VERSIONS: ApiVersion = ApiVersion(3);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No broker could be reached; each with its reason.
    #[error("no broker answers: {}", .0.join("; "))]
    Unreachable(Vec<String>),
    /// The connection broke or stayed silent.
    #[error("{address} did not answer {api}: {reason}{}", hint(*.api))]
    NoAnswer {
        /// Who was asked.
        address: Address,
        /// What.
        api: ApiKey,
        /// What happened.
        reason: String,
    },
    /// The broker has no version of this API that we speak.
    #[error("{address} does not serve {api} in a version that this command speaks")]
    NotServed {
        /// Who was asked.
        address: Address,
        /// What.
        api: ApiKey,
    },
}

/// Who else has to do with an answer that does not come, and who knows more.
const fn hint(api: ApiKey) -> &'static str {
    match api {
        ApiKey::CreateTopics
        | ApiKey::DeleteTopics
        | ApiKey::IncrementalAlterConfigs
        | ApiKey::InitProducerId => {
            "; the controllers have to do with it: `millrace status` shows whether one leads"
        }
        ApiKey::JoinGroup => "; a group waits until those who were in it have joined again, at most a minute",
        ApiKey::SyncGroup => "; the group waits for the member that shares the partitions out",
        ApiKey::Produce => {
            "; all in-sync replicas must have the records: `millrace status` shows who is missing"
        }
        _ => "",
    }
}

/// A connection to one broker.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    address: Address,
    served: BTreeMap<i16, (i16, i16)>,
    asked: i32,
    patience: Duration,
    /// A question went out whose answer was not read, since it came too late or nobody waited for it any more. What
    /// comes next on this connection answers something else.
    in_doubt: bool,
}

impl Client {
    /// Connects to the first of these that answers. Each gets a head start before the next is asked beside it.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] with a reason for each.
    pub async fn connect(bootstrap: &[Address]) -> Result<Self, ClientError> {
        let mut left = bootstrap.iter();
        let mut asked = JoinSet::new();
        let mut reasons = Vec::new();
        let begin = |asked: &mut JoinSet<_>, left: &mut std::slice::Iter<'_, Address>| {
            if let Some(address) = left.next().cloned() {
                asked.spawn(async move {
                    let connected = Self::connect_to(&address).await;
                    connected.map_err(|reason| format!("{address}: {reason}"))
                });
            }
        };
        begin(&mut asked, &mut left);
        loop {
            match timeout(HEAD_START, asked.join_next()).await {
                Ok(Some(Ok(Ok(client)))) => return Ok(client),
                Ok(Some(Ok(Err(reason)))) => reasons.push(reason),
                Ok(Some(Err(ended))) => reasons.push(ended.to_string()),
                Ok(None) => return Err(ClientError::Unreachable(reasons)),
                Err(_) => {}
            }
            begin(&mut asked, &mut left);
        }
    }

    async fn connect_to(address: &Address) -> Result<Self, String> {
        match timeout(CONNECT_TIMEOUT, Self::introduce(address)).await {
            Ok(connected) => connected,
            Err(_) => Err(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())),
        }
    }

    async fn introduce(address: &Address) -> Result<Self, String> {
        let dial = TcpStream::connect((address.host.as_str(), address.port));
        let stream = dial.await.map_err(|error| error.to_string())?;
        // A question is one small write; waiting to fill a packet would only delay it.
        let _ = stream.set_nodelay(true);
        let mut client = Self {
            stream,
            address: address.clone(),
            served: BTreeMap::new(),
            asked: 0,
            patience: ANSWER_TIMEOUT,
            in_doubt: false,
        };
        let hello = ApiVersionsRequest {
            client_software_name: "millrace".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        let answer = client.exchange(API_VERSIONS, &hello).await?;
        if answer.error_code.is_error() {
            return Err(format!("it refused ApiVersions: {}", answer.error_code));
        }
        let range = |api: &wire::messages::api_versions::ApiVersionRange| {
            (api.api_key, (api.min_version, api.max_version))
        };
        client.served = answer.api_keys.iter().map(range).collect();
        Ok(client)
    }

    /// Who is at the other end.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Lets every answer from now on take this long, and no longer.
    pub const fn wait_at_most(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// The newest version of an API that both ends speak, no newer than `newest`.
    pub fn version(&self, api: ApiKey, newest: i16) -> Option<ApiVersion> {
        let (least, most) = *self.served.get(&api.code())?;
        let ours = api.versions();
        let version = most.min(newest).min(ours.end().0);
        (least.max(ours.start().0) <= version).then_some(ApiVersion(version))
    }

    /// Asks, in the newest version up to `newest`; the answer comes with the version that was spoken. A connection on
    /// which an answer is still owed is made anew first.
    ///
    /// # Errors
    /// When the broker does not serve the API, or does not answer.
    pub async fn ask<R: Request>(
        &mut self,
        newest: i16,
        question: &R,
    ) -> Result<(ApiVersion, R::Response), ClientError> {
        let version = self.spoken::<R>(newest)?;
        let address = self.address.clone();
        let why = || format!("{address} has not answered {} yet{}", R::KEY, hint(R::KEY));
        let turn = async {
            self.renew_if_in_doubt().await?;
            self.exchange(version, question).await
        };
        let answer = Waiting::begin().during(why, turn).await;
        answer
            .map(|answer| (version, answer))
            .map_err(|reason| self.no_answer::<R>(reason))
    }

    /// Sends what is never answered: a Produce with acks=0.
    ///
    /// # Errors
    /// When the broker does not serve the API, or the connection breaks.
    pub async fn tell<R: Request>(&mut self, newest: i16, message: &R) -> Result<(), ClientError> {
        let version = self.spoken::<R>(newest)?;
        let sent = match self.renew_if_in_doubt().await {
            Ok(()) => self.send(version, message).await.map(drop),
            Err(reason) => Err(reason),
        };
        sent.map_err(|reason| self.no_answer::<R>(reason))
    }

    fn spoken<R: Request>(&self, newest: i16) -> Result<ApiVersion, ClientError> {
        self.version(R::KEY, newest)
            .ok_or_else(|| ClientError::NotServed {
                address: self.address.clone(),
                api: R::KEY,
            })
    }

    fn no_answer<R: Request>(&self, reason: String) -> ClientError {
        ClientError::NoAnswer {
            address: self.address.clone(),
            api: R::KEY,
            reason,
        }
    }

    async fn renew_if_in_doubt(&mut self) -> Result<(), String> {
        if self.in_doubt {
            let patience = self.patience;
            *self = Self::connect_to(&self.address.clone()).await?;
            self.patience = patience;
        }
        Ok(())
    }

    async fn exchange<R: Request>(
        &mut self,
        version: ApiVersion,
        question: &R,
    ) -> Result<R::Response, String> {
        self.in_doubt = true;
        let patience = self.patience;
        let turn = async {
            let asked = self.send(version, question).await?;
            let received = read_frame(&mut self.stream).await;
            Ok::<_, String>((asked, received.map_err(|error| self.lost(&error))?))
        };
        let (asked, received) = match timeout(patience, turn).await {
            Ok(received) => received?,
            Err(_) => return Err(format!("silent for {} s", patience.as_secs_f32())),
        };
        let (answered, body) =
            frame::parse_response::<R>(version, received).map_err(|error| error.to_string())?;
        if answered != asked {
            return Err(format!("the answer is to question {answered}, not {asked}"));
        }
        self.in_doubt = false;
        Ok(body)
    }

    /// Why no answer came. Only what speaks another protocol takes the first question for a mistake.
    fn lost(&self, error: &Error) -> String {
        let is_closed = matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::UnexpectedEof
        );
        match is_closed && self.asked == 1 {
            true => format!(
                "{error}; it closed the connection at the first question: perhaps this is the address of a controller, and \
                 not of a broker"
            ),
            false => error.to_string(),
        }
    }

    async fn send<R: Request>(&mut self, version: ApiVersion, body: &R) -> Result<CorrelationId, String> {
        self.asked += 1;
        let asked = CorrelationId(self.asked);
        let sent =
            frame::request(version, asked, Some("millrace"), body).map_err(|error| error.to_string())?;
        for part in sent.into_parts() {
            if let Part::Bytes(bytes) = part {
                let written = self.stream.write_all(&bytes).await;
                written.map_err(|error| error.to_string())?;
            }
        }
        Ok(asked)
    }
}

/// A frame without its prefix. The buffer grows with what comes, not with what the prefix claims.
async fn read_frame(stream: &mut TcpStream) -> std::io::Result<Bytes> {
    let mut prefix = [0; frame::PREFIX];
    stream.read_exact(&mut prefix).await?;
    if let Some(other) = other_protocol(prefix) {
        return Err(Error::other(other));
    }
    let size = frame::length(prefix, ANSWER_BYTES_MAX).map_err(Error::other)?;
    let mut body = Vec::new();
    let read = stream.take(size as u64).read_to_end(&mut body).await?;
    if read < size {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(body.into())
}

/// What speaks there instead of Kafka's protocol, by its first bytes. As lengths they would be beyond every limit.
fn other_protocol(prefix: [u8; frame::PREFIX]) -> Option<&'static str> {
    match prefix {
        [b'H', b'T', b'T', b'P'] => {
            Some("it speaks HTTP, not Kafka's protocol; is it the port of the metrics?")
        }
        // An alert: TLS is expected, and this was none.
        [0x15, 0x03, ..] => Some("it speaks TLS, which this command does not; name a listener without it"),
        _ => None,
    }
}

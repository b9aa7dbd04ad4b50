//! One connection to a broker, one question at a time, in the newest version that both ends speak.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::messages::ApiVersionsRequest;
use wire::{ApiKey, ApiVersion, CorrelationId, Request, frame};

use crate::address::Address;

/// How long a broker may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
    #[error("{address} did not answer {api}: {reason}")]
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

/// A connection to one broker.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    address: Address,
    served: BTreeMap<i16, (i16, i16)>,
    asked: i32,
}

impl Client {
    /// Connects to the first of these that answers.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] with a reason for each.
    pub async fn connect(bootstrap: &[Address]) -> Result<Self, ClientError> {
        let mut reasons = Vec::new();
        for address in bootstrap {
            match Self::connect_to(address).await {
                Ok(client) => return Ok(client),
                Err(reason) => reasons.push(format!("{address}: {reason}")),
            }
        }
        Err(ClientError::Unreachable(reasons))
    }

    async fn connect_to(address: &Address) -> Result<Self, String> {
        let dial = TcpStream::connect((address.host.as_str(), address.port));
        let stream = match timeout(CONNECT_TIMEOUT, dial).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())),
        };
        // A question is one small write; waiting to fill a packet would only delay it.
        let _ = stream.set_nodelay(true);
        let mut client = Self {
            stream,
            address: address.clone(),
            served: BTreeMap::new(),
            asked: 0,
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

    /// The newest version of an API that both ends speak, no newer than `newest`.
    pub fn version(&self, api: ApiKey, newest: i16) -> Option<ApiVersion> {
        let (least, most) = *self.served.get(&api.code())?;
        let ours = api.versions();
        let version = most.min(newest).min(ours.end().0);
        (least.max(ours.start().0) <= version).then_some(ApiVersion(version))
    }

    /// Asks, in the newest version up to `newest`; the answer comes with the version that was spoken.
    ///
    /// # Errors
    /// When the broker does not serve the API, or does not answer.
    pub async fn ask<R: Request>(
        &mut self,
        newest: i16,
        question: &R,
    ) -> Result<(ApiVersion, R::Response), ClientError> {
        let not_served = || ClientError::NotServed {
            address: self.address.clone(),
            api: R::KEY,
        };
        let version = self.version(R::KEY, newest).ok_or_else(not_served)?;
        let answer = self.exchange(version, question).await;
        let address = self.address.clone();
        answer
            .map(|answer| (version, answer))
            .map_err(|reason| ClientError::NoAnswer {
                address,
                api: R::KEY,
                reason,
            })
    }

    async fn exchange<R: Request>(
        &mut self,
        version: ApiVersion,
        question: &R,
    ) -> Result<R::Response, String> {
        self.asked += 1;
        let asked = CorrelationId(self.asked);
        let sent =
            frame::request(version, asked, Some("millrace"), question).map_err(|error| error.to_string())?;
        let turn = async {
            self.stream.write_all(&sent.into_bytes()).await?;
            read_frame(&mut self.stream).await
        };
        let received = match timeout(ANSWER_TIMEOUT, turn).await {
            Ok(Ok(received)) => received,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("silent for {} s", ANSWER_TIMEOUT.as_secs())),
        };
        let (answered, body) =
            frame::parse_response::<R>(version, received).map_err(|error| error.to_string())?;
        if answered != asked {
            return Err(format!("the answer is to question {answered}, not {asked}"));
        }
        Ok(body)
    }
}

/// A frame without its prefix. The buffer grows with what comes, not with what the prefix claims.
async fn read_frame(stream: &mut TcpStream) -> std::io::Result<Bytes> {
    let mut prefix = [0; frame::PREFIX];
    stream.read_exact(&mut prefix).await?;
    let size = frame::length(prefix, ANSWER_BYTES_MAX).map_err(std::io::Error::other)?;
    let mut body = Vec::new();
    let read = stream.take(size as u64).read_to_end(&mut body).await?;
    if read < size {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body.into())
}

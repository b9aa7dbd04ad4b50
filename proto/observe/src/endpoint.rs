//! The HTTP endpoint: `/metrics`, `/livez`, `/readyz`.
//!
//! It answers as long as the process runs its tasks, whatever state the node is in: a probe that asks whether a
//! process lives must not kill one that recovers its logs. Must not be in the way of the node's own work: few
//! connections, small requests, short times.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

/// Connections served at a time. A newcomer takes the place of the oldest: those who hold their connections and take in
/// nothing must not keep a probe from being answered.
const CONNECTIONS_MAX: usize = 16;
/// Answers to `/metrics` that are put together at a time.
const GATHERINGS_MAX: usize = 2;
/// A connection that says nothing for so long is closed.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long accepting pauses when the process has no descriptor left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Why a node does not serve at present, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady(pub String);

/// What is asked of a process that is watched.
pub trait Watched: Send + Sync + 'static {
    /// Its metrics in Prometheus' text form.
    ///
    /// # Errors
    /// Why there are none, for people.
    fn metrics(&self) -> Result<String, String>;

    /// Whether it does what it is there for.
    ///
    /// # Errors
    /// Why not.
    fn ready(&self) -> Result<(), NotReady>;
}

/// An endpoint that is bound and not yet served.
#[derive(Debug)]
pub struct Endpoint {
    listener: StdListener,
    address: SocketAddr,
}

/// Binds `host:port`; port 0 is any.
///
/// # Errors
/// The system's: the port is taken, the name means nothing, the address is not this machine's.
pub fn bind(host: &str, port: u16) -> io::Result<Endpoint> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let listener = StdListener::bind(&addresses[..])?;
    listener.set_nonblocking(true)?;
    Ok(Endpoint {
        address: listener.local_addr()?,
        listener,
    })
}

impl Endpoint {
    /// Where it is bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves for as long as it is polled; never ends. Inside a runtime only.
    pub async fn serve(self, watched: Arc<dyn Watched>) {
        let listener = match TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => {
                warn!(%error, "the endpoint for metrics cannot be served");
                return;
            }
        };
        let gatherings = Arc::new(Semaphore::new(GATHERINGS_MAX));
        let mut connections: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "cannot accept a connection for metrics");
                    tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                    continue;
                }
            };
            connections.retain(|connection| !connection.is_finished());
            if CONNECTIONS_MAX <= connections.len()
                && let Some(oldest) = connections.pop_front()
            {
                oldest.abort();
            }
            let asked = Asked {
                watched: Arc::clone(&watched),
                gatherings: Arc::clone(&gatherings),
            };
            connections.push_back(tokio::spawn(serve_one(stream, asked)).abort_handle());
        }
    }
}

/// Who answers.
#[derive(Clone)]
struct Asked {
    watched: Arc<dyn Watched>,
    gatherings: Arc<Semaphore>,
}

async fn serve_one(stream: TcpStream, asked: Asked) {
    let service = service_fn(move |request| answer(asked.clone(), request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "a connection for metrics broke");
    }
}

async fn answer(asked: Asked, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n".into());
        let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return Ok(refused);
    }
    Ok(match request.uri().path() {
        "/livez" => text(StatusCode::OK, "alive\n".into()),
        "/readyz" => match asked.watched.ready() {
            Ok(()) => text(StatusCode::OK, "ready\n".into()),
            Err(NotReady(why)) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        "/metrics" => match gather(asked).await {
            Ok(metrics) => typed(StatusCode::OK, PROMETHEUS_TEXT, metrics),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")),
        },
        _ => text(
            StatusCode::NOT_FOUND,
            "/metrics, /livez and /readyz are answered\n".into(),
        ),
    })
}

/// Gathering looks at every partition and at files of the system: not on a thread that serves sockets.
async fn gather(asked: Asked) -> Result<String, String> {
    let place = asked.gatherings.acquire_owned().await;
    let place = place.map_err(|error| error.to_string())?;
    let watched = asked.watched;
    let gathering = move || {
        // Held to the end, also when whoever asked has gone.
        let _place = place;
        watched.metrics()
    };
    tokio::task::spawn_blocking(gathering)
        .await
        .unwrap_or_else(|error| Err(error.to_string()))
}

fn text(status: StatusCode, words: String) -> Response<Full<Bytes>> {
    typed(status, PLAIN_TEXT, words)
}

fn typed(status: StatusCode, form: &'static str, words: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(words)));
    *response.status_mut() = status;
    let form = hyper::header::HeaderValue::from_static(form);
    response.headers_mut().insert(CONTENT_TYPE, form);
    response
}

//! Requests and where their time went, split as Kafka splits it.
//!
//! ```text
//!  arrived ─ queue ─► started ─ local ─► left ─ remote ─► ended ─ response queue ─► sending ─ send ─► sent
//! ```
//! *Local* is what this broker does at once: for Produce until its batches are in their logs, else until the handler
//! waits for the first time. *Remote* is the waiting for others after that.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use host::Monotonic;
use observe::{Gathered, Metrics, Times, TimesGroup};
use wire::{ApiKey, ApiVersion, ErrorCode, ErrorCounts};

/// Versions that are told apart; no API has more.
const VERSIONS: usize = 32;
const REQUESTS: &str = "kafka_network_requestmetrics_requests_total";
const ERRORS: &str = "kafka_network_requestmetrics_errors_total";

/// Whose fetch it was: Kafka shows the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    /// A client.
    Client,
    /// A replica on another broker.
    Follower,
}

/// When a request reached which stage.
#[derive(Clone, Copy, Debug)]
pub struct Stages {
    /// What is asked.
    pub api: ApiKey,
    /// In which version.
    pub version: ApiVersion,
    /// Its frame was whole.
    pub arrived: Monotonic,
    /// Its handler was called.
    pub started: Option<Monotonic>,
    /// This broker had done its part.
    pub left: Option<Monotonic>,
    /// Its answer was there.
    pub ended: Option<Monotonic>,
    /// Who asked, as far as its answer tells.
    pub asked_by: AskedBy,
}

impl Stages {
    /// A request whose frame is here.
    pub fn arrived(api: ApiKey, version: ApiVersion, now: Monotonic) -> Stages {
        Stages {
            api,
            version,
            arrived: now,
            started: None,
            left: None,
            ended: None,
            asked_by: AskedBy::Client,
        }
    }
}

/// The answer as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Its first byte was given to the socket.
    pub began: Monotonic,
    /// And its last one.
    pub ended: Monotonic,
    /// The error codes in it.
    pub errors: &'a ErrorCounts,
}

/// How often each code was answered, at the place of the code in [`ErrorCode::ALL`].
type ErrorTotals = Box<[AtomicU64]>;

/// The times of one kind of request.
struct Kind {
    total: Arc<Times>,
    queue: Arc<Times>,
    local: Arc<Times>,
    remote: Arc<Times>,
    response_queue: Arc<Times>,
    send: Arc<Times>,
}

struct Groups {
    total: TimesGroup,
    queue: TimesGroup,
    local: TimesGroup,
    remote: TimesGroup,
    response_queue: TimesGroup,
    send: TimesGroup,
}

impl Groups {
    fn kind(&self, name: &str) -> Kind {
        Kind {
            total: self.total.of(name),
            queue: self.queue.of(name),
            local: self.local.of(name),
            remote: self.remote.of(name),
            response_queue: self.response_queue.of(name),
            send: self.send.of(name),
        }
    }
}

/// All requests.
pub struct Requests {
    groups: Groups,
    /// By key; made when the first of its kind comes.
    kinds: Vec<OnceLock<Kind>>,
    of_clients: OnceLock<Kind>,
    of_followers: OnceLock<Kind>,
    /// By key, then version.
    counts: Arc<Vec<[AtomicU64; VERSIONS]>>,
    /// By key; made with the first answer of its kind.
    errors: Arc<Vec<OnceLock<ErrorTotals>>>,
}

impl Requests {
    pub(super) fn new(metrics: &Metrics) -> Requests {
        let times = |name: &str, help: &str| {
            let name = format!("kafka_network_requestmetrics_{name}");
            metrics.times_of(&name, &format!("{help}, in milliseconds."), "request")
        };
        let kinds = ApiKey::ALL.iter().map(|api| place(*api) + 1).max().unwrap_or(0);
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        let counts: Arc<Vec<_>> = Arc::new((0..kinds).map(|_| none()).collect());
        let counted = Arc::clone(&counts);
        metrics.gathered(move |gathered| gather(&counted, gathered));
        let errors: Arc<Vec<_>> = Arc::new((0..kinds).map(|_| OnceLock::new()).collect());
        let counted = Arc::clone(&errors);
        metrics.gathered(move |gathered| gather_errors(&counted, gathered));
        Requests {
            groups: Groups {
                total: times("totaltimems", "From the whole request to the sent answer"),
                queue: times(
                    "requestqueuetimems",
                    "Until earlier requests of the connection let it start",
                ),
                local: times("localtimems", "What this broker does at once"),
                remote: times("remotetimems", "Waiting for other brokers, or for more data"),
                response_queue: times(
                    "responsequeuetimems",
                    "Until earlier answers of the connection were sent",
                ),
                send: times("responsesendtimems", "Sending the answer"),
            },
            kinds: (0..kinds).map(|_| OnceLock::new()).collect(),
            of_clients: OnceLock::new(),
            of_followers: OnceLock::new(),
            counts,
            errors,
        }
    }

    /// A request was answered, or needed no answer.
    pub fn done(&self, stages: &Stages, sent: Option<&Sent<'_>>) {
        let place = place(stages.api);
        let version = usize::try_from(stages.version.0).unwrap_or(0).min(VERSIONS - 1);
        self.counts[place][version].fetch_add(1, Ordering::Relaxed);
        if let Some(sent) = sent {
            self.count_errors(place, sent.errors);
        }
        self.note(
            self.kinds[place].get_or_init(|| self.groups.kind(stages.api.name())),
            stages,
            sent,
        );
        if stages.api == ApiKey::Fetch {
            let (kind, name) = match stages.asked_by {
                AskedBy::Client => (&self.of_clients, "FetchConsumer"),
                AskedBy::Follower => (&self.of_followers, "FetchFollower"),
            };
            self.note(kind.get_or_init(|| self.groups.kind(name)), stages, sent);
        }
    }

    fn count_errors(&self, place: usize, errors: &ErrorCounts) {
        let none = || ErrorCode::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        let totals = self.errors[place].get_or_init(none);
        for (code, count) in errors.iter() {
            if let Some(total) = place_of(code).and_then(|place| totals.get(place)) {
                total.fetch_add(u64::from(count), Ordering::Relaxed);
            }
        }
    }

    fn note(&self, kind: &Kind, stages: &Stages, sent: Option<&Sent<'_>>) {
        let started = stages.started.unwrap_or(stages.arrived);
        let ended = stages.ended.unwrap_or(started);
        let left = stages.left.unwrap_or(ended).min(ended);
        let (sending, sent) = sent.map_or((ended, ended), |sent| (sent.began, sent.ended));
        kind.total.record(sent.since(stages.arrived));
        kind.queue.record(started.since(stages.arrived));
        kind.local.record(left.since(started));
        kind.remote.record(ended.since(left));
        kind.response_queue.record(sending.since(ended));
        kind.send.record(sent.since(sending));
    }
}

fn place(api: ApiKey) -> usize {
    usize::try_from(api.code()).expect("keys are not negative")
}

/// Where a code stands among all codes, which are in order.
fn place_of(code: ErrorCode) -> Option<usize> {
    ErrorCode::ALL.binary_search(&code).ok()
}

/// Only what was answered at least once is shown; `NONE` stands beside the errors, as in Kafka.
fn gather_errors(totals: &[OnceLock<ErrorTotals>], gathered: &mut Gathered) {
    for api in ApiKey::ALL {
        let Some(totals) = totals[place(*api)].get() else {
            continue;
        };
        for (code, total) in ErrorCode::ALL.iter().zip(totals) {
            let (count, name) = (total.load(Ordering::Relaxed), code.name().unwrap_or_default());
            if 0 < count {
                let labels = [("request", api.name()), ("error", name)];
                gathered.counter_of(ERRORS, "Error codes in answers.", &labels, count);
            }
        }
    }
}

/// Only what was asked for at least once is shown.
fn gather(counts: &[[AtomicU64; VERSIONS]], gathered: &mut Gathered) {
    for api in ApiKey::ALL {
        for (version, count) in counts[place(*api)].iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if 0 < count {
                let labels = [("request", api.name()), ("version", &version.to_string())];
                gathered.counter_of(REQUESTS, "Requests answered.", &labels, count);
            }
        }
    }
}

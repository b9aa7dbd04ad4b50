//! What probes are told: whether this broker serves, and if not, why.

use std::sync::Arc;
use std::time::Duration;

use broker_core::lifecycle::{Fencing, Phase};
use host::{Clock, Monotonic};
use observe::{Metrics, NotReady, Watched};
use parking_lot::Mutex;

use super::BrokerMetrics;
use crate::storage::recovery::RecoveryProgress;

/// Where the broker is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its directories are being opened.
    Opening,
    /// It asks for its registration.
    Registering,
    /// It reads the metadata and recovers its logs.
    Recovering,
    /// The controller has not unfenced it yet.
    Unfencing,
    /// It serves.
    Serving,
    /// It served, and the controller fenced it.
    Fenced,
    /// It hands its leaderships over.
    ShuttingDown,
    /// It closes its logs.
    Closing,
}

impl State {
    /// Kafka's number for it, as `BrokerState` shows it.
    fn kafka_number(&self) -> u8 {
        match self {
            State::Opening | State::Registering => 1,
            State::Recovering | State::Unfencing => 2,
            State::Serving | State::Fenced => 3,
            State::ShuttingDown => 6,
            State::Closing => 7,
        }
    }

    fn obstacle(&self) -> Option<&'static str> {
        match self {
            State::Opening => Some("starting: the log directories are being opened"),
            State::Registering => Some("starting: no controller has taken the registration yet"),
            State::Recovering => Some("starting: the metadata is read and the logs are opened"),
            State::Unfencing => Some("starting: the controller has not unfenced this broker yet"),
            State::Serving => None,
            State::Fenced => Some("fenced by the controller"),
            State::ShuttingDown => Some("stopping: leaderships are handed over"),
            State::Closing => Some("stopping: the logs are being closed"),
        }
    }
}

/// The broker's own view of its health, told by those who know and read by probes.
#[derive(Debug)]
pub struct Health {
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    state: State,
    /// Of logs that were not closed in order.
    recovery: Option<Arc<RecoveryProgress>>,
    /// Whether clients can connect; a broker is unfenced a moment before.
    listens: bool,
    /// The last answer of a controller, and how long none may come before this broker counts as fenced.
    answered: Option<(Monotonic, Duration)>,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            told: Mutex::new(Told {
                state: State::Opening,
                recovery: None,
                listens: false,
                answered: None,
            }),
        }
    }
}

impl Health {
    /// The broker has come this far.
    pub fn is(&self, state: State) {
        self.told.lock().state = state;
    }

    /// The session with the controllers is in this phase.
    pub fn lives(&self, phase: &Phase) {
        let state = match phase {
            Phase::Registering { .. } => State::Registering,
            Phase::CatchingUp(_) | Phase::Recovering(_) => State::Recovering,
            Phase::Unfencing(_) => State::Unfencing,
            Phase::Running(_, Fencing::Unfenced) => State::Serving,
            Phase::Running(_, Fencing::Fenced) => State::Fenced,
            Phase::ShuttingDown { .. } => State::ShuttingDown,
            Phase::Stopped => State::Closing,
        };
        self.is(state);
    }

    /// Logs are recovered, as this tells.
    pub fn recovers(&self, progress: Arc<RecoveryProgress>) {
        self.told.lock().recovery = Some(progress);
    }

    /// Clients can connect.
    pub fn listening(&self) {
        self.told.lock().listens = true;
    }

    /// A controller answered; after `timeout` without another answer it will have fenced this broker.
    pub fn answered(&self, now: Monotonic, timeout: Duration) {
        self.told.lock().answered = Some((now, timeout));
    }

    fn obstacle(&self, now: Monotonic) -> Option<String> {
        let told = self.told.lock();
        if let (State::Recovering, Some(recovery)) = (&told.state, &told.recovery)
            && 0 < recovery.left()
        {
            let (left, of) = (recovery.left(), recovery.total());
            return Some(format!(
                "starting: logs are being recovered, {left} of {of} are left"
            ));
        }
        if let Some(obstacle) = told.state.obstacle() {
            return Some(obstacle.to_owned());
        }
        if !told.listens {
            return Some("starting: the listeners are being opened".to_owned());
        }
        let (at, timeout) = told.answered?;
        let silent = now.since(at);
        (timeout < silent).then(|| {
            let silent_s = silent.as_secs();
            format!("no controller has answered for {silent_s} s, so this broker is probably fenced")
        })
    }
}

/// What the endpoint asks.
pub struct Watch {
    /// Counts.
    pub metrics: Arc<BrokerMetrics>,
    /// State.
    pub health: Arc<Health>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Watch {
    /// A broker that begins. Its state is one of its metrics.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Watch {
        let watch = Watch {
            metrics: BrokerMetrics::new(Arc::clone(&clock)),
            health: Arc::default(),
            clock,
        };
        show_state(&watch.metrics.metrics, Arc::clone(&watch.health));
        watch
    }
}

fn show_state(metrics: &Metrics, health: Arc<Health>) {
    metrics.gathered(move |gathered| {
        let number = health.told.lock().state.kafka_number();
        gathered.gauge(
            "kafka_server_kafkaserver_brokerstate",
            "1 starting, 2 recovering, 3 running, 6 handing leaderships over, 7 closing its logs.",
            f64::from(number),
        );
    });
}

impl Watched for Watch {
    fn metrics(&self) -> Result<String, String> {
        self.metrics.metrics.text()
    }

    fn ready(&self) -> Result<(), NotReady> {
        match self.health.obstacle(self.clock.now()) {
            None => Ok(()),
            Some(obstacle) => Err(NotReady(obstacle)),
        }
    }
}

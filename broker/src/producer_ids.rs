//! Carries out [`broker_core::producer_ids`]: hands ids out, and asks the controller for the next block.
//!
//! Must not: wait for a controller while a client waits.

use std::sync::Arc;
use std::time::Duration;

use broker_core::producer_ids::{Block, Effect, NoneAtHand, ProducerIds};
use broker_core::time::Moment;
use host::Clock;
use metadata::ids::{BrokerEpoch, BrokerId, ProducerId};
use millrace_proto::v1;
use parking_lot::Mutex;
use tracing::warn;

use crate::controllers::Controllers;
use crate::controllers::admin;

/// How long one question may take.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The producer ids of this broker.
pub struct ProducerIdShelf {
    ids: Mutex<ProducerIds>,
    registration: Mutex<Option<(BrokerId, BrokerEpoch)>>,
    controllers: Arc<Controllers>,
    clock: Arc<dyn Clock>,
}

impl ProducerIdShelf {
    /// An empty shelf.
    pub fn new(controllers: Arc<Controllers>, clock: Arc<dyn Clock>) -> Arc<ProducerIdShelf> {
        Arc::new(ProducerIdShelf {
            ids: Mutex::default(),
            registration: Mutex::default(),
            controllers,
            clock,
        })
    }

    /// This incarnation may ask from now on.
    pub fn registered(self: &Arc<Self>, broker: BrokerId, epoch: BrokerEpoch) {
        *self.registration.lock() = Some((broker, epoch));
        let effect = self.ids.lock().ask(self.now());
        self.carry_out(effect);
    }

    /// The next id.
    ///
    /// # Errors
    /// [`NoneAtHand`] until a block has come.
    pub fn take(self: &Arc<Self>) -> Result<ProducerId, NoneAtHand> {
        let (taken, effect) = self.ids.lock().take(self.now());
        self.carry_out(effect);
        taken
    }

    fn now(&self) -> Moment {
        Moment::from_start(Duration::from_nanos(self.clock.now().0))
    }

    fn carry_out(self: &Arc<Self>, effect: Option<Effect>) {
        let Some(Effect::AskForBlock) = effect else { return };
        let shelf = Arc::clone(self);
        tokio::spawn(async move { shelf.ask().await });
    }

    async fn ask(&self) {
        let registration = *self.registration.lock();
        let Some((broker, epoch)) = registration else {
            self.ids.lock().refused(self.now());
            return;
        };
        let command = v1::AllocateProducerIdsRequest {
            broker: broker.0,
            broker_epoch: epoch.0,
        };
        let answered = admin::forward(&self.controllers, command, QUESTION_TIMEOUT).await;
        let now = self.now();
        match answered {
            Ok(reply) => match reply.refusal {
                None => self.ids.lock().granted(
                    Block {
                        first: ProducerId(reply.first),
                        count: reply.count,
                    },
                    now,
                ),
                Some(refusal) => {
                    warn!(why = %refusal.message, "no block of producer ids");
                    self.ids.lock().refused(now);
                }
            },
            Err(error) => {
                warn!(%error, "no block of producer ids");
                self.ids.lock().refused(now);
            }
        }
    }
}

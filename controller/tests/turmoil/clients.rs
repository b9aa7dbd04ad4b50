//! Load: whoever is active is asked for producer ids, several times at once, so that batches are decided on batches
//! that are not committed yet. Every block of ids is given away once; what was given is told to the history.

use std::sync::Arc;
use std::time::Duration;

use controller::inbox::{Inbox, Pending};
use controller_core::command::{Command, RegisterBroker, Reply};
use host::{Entropy, SeededEntropy};
use metadata::batch::Provenance;
use metadata::feature;
use metadata::ids::{BrokerEpoch, BrokerId, DirectoryId, IncarnationId};
use metadata::record::{Endpoint, SecurityProtocol};
use metadata::uuid::Uuid;

use crate::history::{At, Fact};
use crate::process::pass;
use crate::site::World;
use crate::streams;

/// Commands of one burst.
const BURST_MAX: u64 = 8;
/// Pause between bursts, at most.
const PAUSE_MAX_MS: u64 = 60;

/// Asks for as long as the process lives, whenever it is active.
pub async fn run(world: Arc<World>, at: At, life: u32, inbox: Inbox) {
    let chance = SeededEntropy::new(streams::of(
        world.seed,
        streams::LOAD,
        (at as u64) << 32 | u64::from(life),
    ));
    let mut active = inbox.watch_active();
    loop {
        let Ok(term) = active.wait_for(Option::is_some).await.map(|term| *term) else {
            return;
        };
        let term = term.map_or(0, |term| term.0);
        if let Some(epoch) = register(&inbox, at).await {
            while active.borrow_and_update().is_some_and(|now| now.0 == term) {
                burst(&world, at, term, epoch, &inbox, 1 + chance.below(BURST_MAX)).await;
                pass(Duration::from_millis(chance.below(PAUSE_MAX_MS))).await;
            }
        }
        // What was refused once may be refused again at the same moment.
        pass(Duration::from_millis(5)).await;
    }
}

async fn hand_in(inbox: &Inbox, command: Command) -> Pending {
    let arrived = inbox.moment();
    inbox.hand_in(command, Provenance::default(), None, arrived).await
}

async fn register(inbox: &Inbox, at: At) -> Option<BrokerEpoch> {
    let number = at as u128 + 1;
    let id = |low: u128| Uuid::from_random_bits((1 << 100) + low);
    let command = RegisterBroker {
        broker: BrokerId(i32::try_from(number).expect("few")),
        cluster_id: None,
        incarnation: IncarnationId(id(number)),
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: format!("broker-{number}"),
            port: 9092,
            security: SecurityProtocol::Plaintext,
        }],
        features: feature::served(),
        rack: None,
        directories: vec![DirectoryId(id(1_000 + number))],
        previous_epoch: None,
        unserved: Vec::new(),
    };
    match hand_in(inbox, Command::RegisterBroker(command))
        .await
        .answer()
        .await
        .result
    {
        Ok(Reply::Registered { epoch }) => Some(epoch),
        _ => None,
    }
}

async fn burst(world: &World, at: At, term: u64, epoch: BrokerEpoch, inbox: &Inbox, count: u64) {
    let broker = BrokerId(i32::try_from(at + 1).expect("few"));
    let mut asked = Vec::new();
    for _ in 0..count {
        asked.push(hand_in(inbox, Command::AllocateProducerIds { broker, epoch }).await);
    }
    for pending in asked {
        match pending.answer().await.result {
            Ok(Reply::ProducerIds { first, .. }) => {
                let first = first.0;
                world.note(Fact::Acknowledged { at, term, first });
            }
            _ => world.note(Fact::Refused { at }),
        }
    }
}

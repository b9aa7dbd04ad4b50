//! Three controllers as processes: election, commit, hand-over, restart, and a controller that lost its disk.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "it reports to a terminal")]

mod support;

use std::time::Instant;

use millrace_proto::v1;
use millrace_proto::v1::admin_client::AdminClient;
use millrace_proto::v1::controller_says::Says;
use millrace_proto::v1::follow_event::Event;
use support::{Controllers, Session, cut, eventually, follow, registration};

/// The batches of what was followed.
fn batches(events: &[v1::FollowEvent]) -> Vec<bytes::Bytes> {
    let batch = |event: &v1::FollowEvent| match &event.event {
        Some(Event::Batch(bytes)) => Some(bytes.clone()),
        _ => None,
    };
    events.iter().filter_map(batch).collect()
}

/// Follows everything below `end`.
async fn log_below(controllers: &Controllers, at: usize, end: i64) -> Vec<bytes::Bytes> {
    let events = follow(controllers.channel(at), 0, 0, |event| match &event.event {
        Some(Event::Progress(progress)) => end <= progress.committed_end,
        _ => false,
    })
    .await;
    batches(&events)
}

#[tokio::test]
async fn three_controllers_agree_on_one_log_and_every_one_serves_it() {
    let controllers = Controllers::start(3);
    let active = controllers.active().await;
    for broker in 1..=5 {
        controllers.register(broker).await;
    }
    let end = controllers.committed_end(active).await;

    let mut logs = Vec::new();
    for at in 0..3 {
        let mut log = log_below(&controllers, at, end).await;
        let below = |bytes: &bytes::Bytes| {
            metadata::batch::MetadataBatch::decode(bytes)
                .unwrap()
                .base_offset
                .0
                < end
        };
        log.retain(below);
        logs.push(log);
    }

    assert!(6 <= logs[0].len());
    assert_eq!(logs[0], logs[1]);
    assert_eq!(logs[0], logs[2]);
}

#[tokio::test]
async fn a_killed_leader_is_replaced_and_nothing_committed_is_lost() {
    let mut controllers = Controllers::start(3);
    let mut epochs = Vec::new();
    for round in 0..3 {
        let active = controllers.active().await;
        epochs.push(controllers.register(10 + round).await);
        let killed = Instant::now();
        controllers.kill(active);
        epochs.push(controllers.register(20 + round).await);
        println!(
            "SIGKILL of the active controller to the next commit: {} ms",
            killed.elapsed().as_millis()
        );
        controllers.run(active);
        eventually("it is back", async || controllers.status(active).await).await;
    }
    let ordered = epochs.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(ordered, "epochs only grow: {epochs:?}");

    let active = controllers.active().await;
    let end = controllers.committed_end(active).await;
    let log = log_below(&controllers, active, end).await;
    let registered = |epoch: &i64| {
        log.iter().any(|bytes| {
            let batch = metadata::batch::MetadataBatch::decode(bytes).unwrap();
            batch.base_offset.0 <= *epoch && *epoch < batch.end_offset().0
        })
    };
    assert!(
        epochs.iter().all(registered),
        "every acknowledged registration is in the log"
    );
}

#[tokio::test]
async fn a_leader_that_is_asked_to_stop_hands_over_first() {
    let mut controllers = Controllers::start(3);
    for round in 0..3 {
        let active = controllers.active().await;
        let term = controllers.status(active).await.unwrap().term;
        let asked = Instant::now();
        controllers.terminate(active);
        let left = asked.elapsed().as_millis();
        controllers.register(30 + round).await;
        println!(
            "SIGTERM of the active controller: gone after {left} ms, next commit after {} ms",
            asked.elapsed().as_millis()
        );
        let next = controllers.active().await;
        let now = controllers.status(next).await.unwrap().term;
        assert_eq!(now, term + 1, "one election, no more");
        controllers.run(active);
        eventually("it is back", async || controllers.status(active).await).await;
    }
}

/// Nobody is left to take the lead over then, and that was told as if something were wrong.
#[tokio::test]
async fn controllers_that_stop_together_warn_of_nothing() {
    let mut controllers = Controllers::start(3);
    controllers.active().await;
    controllers.register(1).await;

    (0..3).for_each(|at| controllers.signal(at, "TERM"));
    (0..3).for_each(|at| controllers.terminate(at));

    for at in 0..3 {
        let log = std::fs::read_to_string(controllers.dir.path().join(format!("{at}.log"))).unwrap();
        let (_, end) = log.split_once("stopping").expect("it stops in order");
        assert!(!end.contains(" WARN ") && !end.contains("ERROR"), "{log}");
    }
}

#[tokio::test]
async fn a_whole_quorum_that_was_killed_comes_back_with_its_log() {
    let mut controllers = Controllers::start(3);
    controllers.active().await;
    let epoch = controllers.register(1).await;
    (0..3).for_each(|at| controllers.kill(at));
    (0..3).for_each(|at| controllers.run(at));

    let later = controllers.register(2).await;

    assert!(epoch < later);
}

#[tokio::test]
async fn one_of_three_alone_is_not_active() {
    let mut controllers = Controllers::start(3);
    let active = controllers.active().await;
    let others: Vec<usize> = (0..3).filter(|at| *at != active).collect();
    others.iter().for_each(|at| controllers.kill(*at));

    eventually("it steps down", async || {
        controllers.status(active).await.filter(|status| !status.active)
    })
    .await;
    let mut admin = AdminClient::new(controllers.channel(active));
    let refused = admin
        .allocate_producer_ids(v1::AllocateProducerIdsRequest {
            broker: 1,
            broker_epoch: 0,
        })
        .await
        .unwrap()
        .into_inner();

    assert_eq!(refused.refusal.unwrap().kind(), v1::RefusalKind::NotActive);
}

#[tokio::test]
async fn a_leader_that_stood_still_comes_back_as_a_follower_with_the_log_of_the_others() {
    let mut controllers = Controllers::start(3);
    let active = controllers.active().await;
    controllers.register(1).await;
    controllers.signal(active, "STOP");
    let epoch = controllers.register(2).await;
    controllers.signal(active, "CONT");

    eventually("it follows and has caught up", async || {
        let status = controllers.status(active).await?;
        (!status.active && status.role == "follower" && epoch < status.committed_end).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_session_on_the_active_controller_moves_when_it_steps_down() {
    let mut controllers = Controllers::start(3);
    let active = controllers.active().await;
    let mut session = Session::open(controllers.channel(active)).await.unwrap();
    session.say(registration(1)).await;
    assert!(matches!(session.hear().await, Some(Says::Registered(_))));

    controllers.terminate(active);

    assert!(matches!(session.hear().await, Some(Says::Moved(_))));
}

#[tokio::test]
async fn a_follower_refuses_commands_and_names_the_active_controller() {
    let controllers = Controllers::start(3);
    let active = controllers.active().await;
    let follower = (active + 1) % 3;
    let expected = format!("127.0.0.1:{}", controllers.ports[active]);

    let named = eventually("the follower names it", async || {
        let mut admin = AdminClient::new(controllers.channel(follower));
        let reply = admin
            .create_topics(v1::CreateTopicsRequest::default())
            .await
            .ok()?;
        reply.into_inner().refusal?.active
    })
    .await;

    assert_eq!(named.address, expected);
}

#[tokio::test]
async fn a_controller_that_lost_its_disk_comes_back_as_a_new_incarnation() {
    let mut controllers = Controllers::start(3);
    let active = controllers.active().await;
    controllers.register(1).await;
    let lost = (active + 1) % 3;
    let id = 101 + i32::try_from(lost).unwrap();
    let before = directory_of(&controllers, active, id).await;
    controllers.kill(lost);
    std::fs::remove_dir_all(controllers.data(lost)).unwrap();
    controllers.run(lost);

    eventually("it has its vote again", async || {
        let voters = controllers.status(controllers.active().await).await?.voters;
        let voter = voters.iter().find(|voter| voter.id == id)?;
        (voter.directory != before && voter.log_end.is_some()).then_some(())
    })
    .await;

    // Now it counts: with it and one more there is a majority.
    controllers.kill((active + 2) % 3);
    controllers.register(2).await;
}

#[tokio::test]
async fn a_damaged_store_is_set_aside_while_the_others_lead() {
    let mut controllers = Controllers::start(3);
    let active = controllers.active().await;
    controllers.register(1).await;
    let damaged = (active + 1) % 3;
    controllers.kill(damaged);
    cut(
        &controllers.data(damaged).join("__cluster_metadata-0/raft/db"),
        300,
    );
    controllers.run(damaged);

    let end = controllers.committed_end(active).await;
    eventually("it has the log again", async || {
        let status = controllers.status(damaged).await?;
        (end <= status.committed_end).then_some(())
    })
    .await;

    let kept = controllers
        .data(damaged)
        .join("damaged-1/__cluster_metadata-0/raft/db");
    assert!(kept.exists(), "what was damaged is kept");
}

async fn directory_of(controllers: &Controllers, at: usize, id: i32) -> String {
    eventually("the voter is known", async || {
        let voters = controllers.status(at).await?.voters;
        Some(voters.into_iter().find(|voter| voter.id == id)?.directory)
    })
    .await
}

#[tokio::test]
async fn a_follower_resumes_where_it_was_and_another_lineage_gets_a_snapshot() {
    let controllers = Controllers::start(1);
    controllers.active().await;
    controllers.register(1).await;
    let end = controllers.committed_end(0).await;
    let log = log_below(&controllers, 0, end).await;
    let first = metadata::batch::MetadataBatch::decode(&log[0]).unwrap();
    let (next, term) = (first.end_offset().0, first.decided_in_term.0);
    let until_one =
        |event: &v1::FollowEvent| !matches!(event.event, Some(Event::Hello(_) | Event::Progress(_)));

    let resumed = follow(controllers.channel(0), next, term, until_one).await;
    let other = follow(controllers.channel(0), next, term + 7, until_one).await;

    assert_eq!(batches(&resumed)[0], log[1]);
    assert!(matches!(&other[0].event, Some(Event::Hello(hello)) if hello.lineage_differs));
    assert!(matches!(&other[1].event, Some(Event::Snapshot(piece)) if end <= piece.next_offset));
}

/// Registers broker 1 and brings it into service, with this incarnation; returns its session and where it stands.
async fn serving(controllers: &Controllers, at: usize, incarnation: u128) -> (Session, i64) {
    eventually("the broker is in service", async || {
        let mut session = Session::open(controllers.channel(at)).await?;
        let mut registration = registration(1);
        if let v1::broker_says::Says::Register(message) = &mut registration {
            message.incarnation = metadata::uuid::Uuid::from_random_bits(incarnation).to_string();
        }
        session.say(registration).await;
        let Some(Says::Registered(registered)) = session.hear().await else {
            return None;
        };
        let applied_end = registered.epoch + 1;
        session.say(heartbeat(registered.epoch, applied_end)).await;
        match session.hear().await? {
            Says::Heartbeat(standing) if !standing.is_fenced => Some((session, applied_end)),
            _ => None,
        }
    })
    .await
}

fn heartbeat(epoch: i64, applied_end: i64) -> v1::broker_says::Says {
    v1::broker_says::Says::Heartbeat(v1::Heartbeat {
        broker: 1,
        epoch,
        applied_end,
        ..Default::default()
    })
}

#[tokio::test]
async fn the_active_controller_says_who_has_caught_up_and_who_observes() {
    let controllers = Controllers::start(3);
    let active = controllers.active().await;
    let (_session, applied_end) = serving(&controllers, active, 1 << 90).await;

    let status = eventually("all voters have caught up", async || {
        let status = controllers.status(active).await?;
        let all = status
            .voters
            .iter()
            .all(|voter| voter.last_caught_up_ms.is_some());
        (all && status.voters.len() == 3).then_some(status)
    })
    .await;

    let own = status.voters.iter().find(|voter| voter.id == status.id).unwrap();
    assert_eq!((own.last_fetch_ms, own.last_caught_up_ms), (Some(0), Some(0)));
    assert!(status.voters.iter().all(|voter| voter.log_end.is_some()));
    let observer = &status.observers[0];
    assert_eq!((observer.id, observer.log_end), (1, applied_end));
    assert_eq!(status.observers.len(), 1);
}

#[tokio::test]
async fn after_a_kill_of_everything_a_restarted_broker_does_not_wait_for_its_old_session() {
    let mut controllers = Controllers::start(1);
    controllers.active().await;
    let (session, _) = serving(&controllers, 0, 1 << 90).await;
    controllers.kill(0);
    drop(session);
    controllers.run(0);
    controllers.active().await;
    let began = Instant::now();

    serving(&controllers, 0, 1 << 91).await;

    let took = began.elapsed();
    println!(
        "in service again {} ms after a controller was active",
        took.as_millis()
    );
    assert!(took.as_millis() < 6_000, "the session timeout is 9 s: {took:?}");
}

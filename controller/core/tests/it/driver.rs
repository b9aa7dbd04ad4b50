//! Who is active, what is proposed, when an answer is certain.

use controller_core::command::{Command, CreateTopics, NewTopic, Reply};
use controller_core::driver::event::{CommandId, Effect, Entry, Event};
use controller_core::refusal::Refusal;
use metadata::batch::{MetadataBatch, Provenance};
use metadata::feature;
use metadata::ids::{BrokerId, MetadataOffset, Term};
use metadata::image::Image;
use metadata::record::Record;
use std::time::Duration;

use crate::world::{Quorum, World, settings};

fn create(name: &str) -> Command {
    create_with(name, 1)
}

fn create_with(name: &str, partitions: i32) -> Command {
    Command::CreateTopics(CreateTopics {
        topics: vec![NewTopic {
            name: name.to_owned(),
            partitions: Some(partitions),
            replication_factor: Some(1),
            ..NewTopic::default()
        }],
        validate_only: false,
        timeout_ms: 1000,
        entropy: 1,
    })
}

/// Whether the one topic of a reply was created.
fn is_created(world: &World, id: CommandId) -> bool {
    match &world.replies[&id] {
        Ok(Reply::TopicsCreated(topics)) => topics[0].result.is_ok(),
        other => panic!("{other:?}"),
    }
}

fn refusal(world: &World, id: CommandId) -> &Refusal {
    world.replies[&id].as_ref().unwrap_err()
}

#[test]
fn a_leader_is_active_when_its_blank_is_applied_and_its_lease_is_valid() {
    let mut world = World::follower(settings(&[]), Image::default());
    world.lead_without_blank();
    assert_eq!(world.driver.active_in(), None);
    world.blank();
    assert_eq!(world.driver.active_in(), None, "no quorum has acknowledged it");
    world.acknowledge();
    assert_eq!(world.driver.active_in(), Some(Term(1)));
}

#[test]
fn a_leader_is_not_active_on_the_blank_of_another_term() {
    let mut world = World::follower(settings(&[]), Image::default());
    world.lead_without_blank();
    world.acknowledge();
    world.applied(Term(0), Entry::Blank);
    assert_eq!(world.driver.active_in(), None);
}

#[test]
fn the_blank_of_a_term_may_be_applied_before_the_lead_is_told() {
    let mut world = World::follower(settings(&[]), Image::default());
    world.applied(Term(1), Entry::Blank);
    world.lead_without_blank();
    world.acknowledge();
    assert_eq!(
        world.driver.active_in(),
        None,
        "the log goes on to one more position"
    );
    world.applied(Term(1), Entry::Blank);
    assert_eq!(world.driver.active_in(), Some(Term(1)));
}

#[test]
fn commands_wait_while_too_many_proposals_have_no_outcome() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let ids: Vec<CommandId> = (0..1100)
        .map(|at| world.send(create(&format!("topic{at}"))))
        .collect();
    assert_eq!(world.proposed.len(), 1024);
    world.quorum = Quorum::Prompt;
    world.commit_all();
    assert!(ids.iter().all(|id| is_created(&world, *id)));
}

#[test]
fn an_empty_log_gets_the_bootstrap_records_once() {
    let mut world = World::new(settings(&[("min.insync.replicas", "2")]));
    let expected = feature::bootstrap_records(2);
    assert_eq!(world.take_committed(), expected);
    world.lose();
    world.lead();
    assert_eq!(world.take_committed(), []);
}

#[test]
fn a_follower_refuses_and_a_leader_on_its_way_holds() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.lose();
    let early = world.send(create("early"));
    assert_eq!(*refusal(&world, early), Refusal::NotActive);
    world.lead_without_blank();
    let held = world.send(create("held"));
    assert!(!world.replies.contains_key(&held));
    world.acknowledge();
    world.blank();
    assert!(is_created(&world, held));
}

#[test]
fn what_is_held_is_refused_when_the_lead_is_lost() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.lose();
    world.lead_without_blank();
    let held = world.send(create("held"));
    world.lose();
    assert_eq!(*refusal(&world, held), Refusal::NotActive);
}

#[test]
fn an_answer_waits_for_its_batch() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let id = world.send(create("orders"));
    assert!(!world.replies.contains_key(&id));
    world.commit();
    assert!(is_created(&world, id));
}

#[test]
fn a_refusal_that_read_what_is_not_committed_waits_for_it() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let first = world.send(create("orders"));
    let second = world.send(create("orders"));
    assert!(
        !world.replies.contains_key(&second),
        "the first may come to nothing"
    );
    world.commit();
    assert!(is_created(&world, first));
    let Ok(Reply::TopicsCreated(topics)) = &world.replies[&second] else {
        panic!("it is answered");
    };
    assert!(matches!(topics[0].result, Err(Refusal::TopicExists { .. })));
}

#[test]
fn a_refused_proposal_takes_along_what_was_decided_on_it_and_nothing_is_proposed_twice() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let first = world.send(create("first"));
    let second = world.send(create("second"));
    let read = world.send(create("first"));
    let seen: Vec<_> = world.proposed.iter().map(|(_, _, bytes)| bytes.clone()).collect();

    world.refuse();
    assert_eq!(*refusal(&world, first), Refusal::NotActive);
    assert_eq!(
        *refusal(&world, read),
        Refusal::NotActive,
        "it has read the first"
    );
    let held = world.send(create("third"));
    assert!(
        world.proposed.len() == 1,
        "nothing is decided while outcomes are open"
    );

    world.commit();
    assert_eq!(*refusal(&world, second), Refusal::NotActive, "it was skipped");
    assert!(world.proposed.iter().all(|(_, _, bytes)| !seen.contains(bytes)));
    world.commit();
    assert!(is_created(&world, held));
    let names: Vec<_> = world.image().topic_names.keys().cloned().collect();
    assert_eq!(names, ["third"]);
}

#[test]
fn a_refused_proposal_is_never_proposed_again() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    world.send(create("orders"));
    let (_, _, refused) = world.proposed[0].clone();
    world.refuse();
    world.pass(Duration::from_secs(1));
    assert!(
        world.proposed.iter().all(|(_, _, bytes)| *bytes != refused),
        "a batch is never proposed twice"
    );
}

#[test]
fn a_proposal_that_was_called_refused_and_came_anyway_harms_nothing() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let first = world.send(create("first"));
    let (term, _, bytes) = world.proposed[0].clone();
    world.refuse();
    let second = world.send(create("second"));
    // The quorum took the first after all, and it is applied before the second.
    world.applied(term, Entry::Batch(bytes));
    world.commit_all();
    assert_eq!(*refusal(&world, first), Refusal::NotActive);
    assert_eq!(*refusal(&world, second), Refusal::NotActive);
    let third = world.send(create("third"));
    world.commit_all();
    assert!(is_created(&world, third));
    let names: Vec<_> = world.image().topic_names.keys().cloned().collect();
    assert_eq!(names, ["first", "third"]);
}

#[test]
fn a_deposed_leader_answers_once_and_its_batch_may_still_come() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let id = world.send(create("orders"));
    let (term, _, bytes) = world.proposed[0].clone();
    world.lose();
    assert_eq!(*refusal(&world, id), Refusal::NotActive);
    world.applied(term, Entry::Batch(bytes));
    assert!(world.image().topic_named("orders").is_some());
}

#[test]
fn a_batch_of_a_deposed_leader_that_comes_in_a_later_term_is_skipped() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    world.send(create("orders"));
    let (term, _, bytes) = world.proposed[0].clone();
    world.lose();
    world.applied(term.next(), Entry::Batch(bytes));
    assert!(world.image().topic_named("orders").is_none());
}

#[test]
fn an_idle_controller_writes_a_no_op_every_half_second() {
    let mut world = World::new(settings(&[]));
    world.pass(Duration::from_millis(100));
    world.take_committed();
    world.pass(Duration::from_secs(5));
    let committed = world.take_committed();
    assert!(committed.iter().all(|record| *record == Record::NoOp));
    assert!((9..=10).contains(&committed.len()), "{}", committed.len());
}

#[test]
fn more_records_than_a_batch_holds_are_refused_when_they_stand_or_fall_together() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.take_committed();
    let id = world.send(create_with("orders", 10_000));
    assert!(matches!(refusal(&world, id), Refusal::PolicyViolation(_)));
    assert_eq!(world.take_committed(), []);
    let id = world.send(create_with("orders", 9_999));
    assert!(is_created(&world, id));
}

#[test]
fn fencing_a_broker_with_many_partitions_takes_several_batches_and_the_fence_comes_last() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.send(create_with("one", 9_000));
    world.send(create_with("two", 9_000));
    world.images.clear();
    let mut heartbeat = world.heartbeat(BrokerId(1));
    heartbeat.want_fence = true;
    world.beat(heartbeat).unwrap();
    let fenced = |image: &Image| image.brokers[&BrokerId(1)].fenced;
    let states: Vec<_> = world
        .images
        .iter()
        .map(|image| (image.lookup().leaderless_count(), fenced(image)))
        .collect();
    assert_eq!(
        states,
        [(10_000, false), (18_000, true)],
        "leaderships move first, the fence comes last"
    );
}

#[test]
fn a_record_of_a_newer_release_puts_the_node_into_quarantine_at_the_last_good_offset() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    let before = world.image().clone();
    world.applied(world.term, Entry::Batch(vec![0xFF; 9].into()));
    assert!(world.driver.quarantine().is_some());
    assert!(
        world
            .notices
            .iter()
            .any(|it| matches!(it, Effect::Quarantined(_)))
    );
    assert_eq!(*world.image(), before);
    let id = world.send(create("orders"));
    assert!(matches!(refusal(&world, id), Refusal::Unavailable(_)));
    world.blank();
    assert_eq!(*world.image(), before, "nothing is applied past a hole");
}

#[test]
fn a_record_that_contradicts_the_state_puts_the_node_into_quarantine() {
    let mut world = World::new(settings(&[]));
    let before = world.image().clone();
    let batch = MetadataBatch {
        decided_in_term: Term(9),
        base_offset: before.next_offset,
        provenance: Provenance::default(),
        records: vec![
            Record::NoOp,
            Record::BrokerUnregistered {
                broker: BrokerId(1),
                epoch: metadata::ids::BrokerEpoch(1),
            },
        ],
    };
    world.applied(Term(9), Entry::Batch(batch.encode()));
    let why = world.driver.quarantine().unwrap();
    assert!(why.contains("broker 1 is not registered"), "{why}");
    assert_eq!(*world.image(), before);
}

#[test]
fn a_snapshot_takes_the_place_of_everything() {
    let mut source = World::new(settings(&[]));
    source.start(&[1, 2]);
    let image = source.image().clone();
    let mut world = World::follower(settings(&[]), Image::default());
    world.install(image.clone());
    assert_eq!(*world.image(), image);
    world.lead();
    world.take_committed();
    assert_eq!(world.image().next_offset, image.next_offset, "no bootstrap");
}

#[test]
fn sessions_begin_afresh_with_every_activation() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.processes.get_mut(&BrokerId(1)).unwrap().beats = false;
    world.pass(Duration::from_secs(8));
    world.lose();
    world.lead();
    world.pass(Duration::from_secs(8));
    assert!(!world.image().brokers[&BrokerId(1)].fenced);
    world.pass(Duration::from_secs(2));
    assert!(world.image().brokers[&BrokerId(1)].fenced);
}

#[test]
fn a_shutdown_that_was_refused_by_the_quorum_is_asked_for_again() {
    let mut world = World::new(settings(&[]));
    world.start(&[1, 2]);
    world.send(create("orders"));
    let leader = world
        .image()
        .topics
        .values()
        .next()
        .unwrap()
        .partitions
        .values()
        .next()
        .unwrap()
        .leader;
    world.quorum = Quorum::Slow;
    let mut heartbeat = world.heartbeat(leader.unwrap());
    heartbeat.want_shutdown = true;
    world.beat_without_answer(heartbeat.clone());
    world.refuse();
    world.beat_without_answer(heartbeat);
    assert_eq!(
        world.proposed.len(),
        1,
        "the moves are proposed again, decided anew"
    );
    world.commit_all();
    assert!(world.image().brokers[&leader.unwrap()].in_controlled_shutdown);
}

#[test]
fn provenance_carries_the_wall_time_of_the_decision() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let provenance = Provenance {
        actor: "User:alice".to_owned(),
        client_id: "cli".to_owned(),
        request_id: "r".to_owned(),
        wall_time_ms: 77,
    };
    let now = controller_core::time::Now {
        at: controller_core::time::Moment(Duration::from_secs(1000)),
        wall_time_ms: 1234,
    };
    let effects = world.driver.step(
        now,
        Event::Command {
            id: CommandId(99_999),
            arrived: now.at,
            stream: None,
            provenance: provenance.clone(),
            command: Box::new(create("orders")),
        },
    );
    let Some(Effect::Propose {
        batch, base_offset, ..
    }) = effects.first()
    else {
        panic!("{effects:?}");
    };
    let batch = MetadataBatch::decode(batch).unwrap();
    assert_eq!(batch.base_offset, *base_offset);
    assert!(batch.base_offset > MetadataOffset(0));
    assert_eq!(batch.provenance.actor, "User:alice");
    assert_eq!(batch.provenance.wall_time_ms, 1234);
}

#[test]
fn a_request_that_comes_again_gets_the_result_of_the_first_time() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    let first = world.send_named("1-a", create("orders"));
    let told = world.replies[&first].clone();
    assert!(is_created(&world, first));
    world.take_committed();

    let again = world.send_named("1-a", create("orders"));
    assert_eq!(
        world.replies[&again], told,
        "the same id, not that the topic exists"
    );
    assert!(world.take_committed().is_empty(), "and nothing is written twice");

    let other = world.send_named("1-b", create("orders"));
    assert!(!is_created(&world, other), "another request finds the topic");
}

#[test]
fn a_request_that_comes_again_before_its_batch_is_committed_waits_for_it() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let first = world.send_named("1-a", create("orders"));
    let again = world.send_named("1-a", create("orders"));
    assert!(!world.replies.contains_key(&again));
    world.commit_all();
    assert_eq!(world.replies[&again], world.replies[&first]);
    assert!(is_created(&world, again));
}

#[test]
fn a_request_whose_batch_was_lost_is_decided_anew() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    world.quorum = Quorum::Slow;
    let first = world.send_named("1-a", create("orders"));
    world.refuse();
    assert_eq!(*refusal(&world, first), Refusal::NotActive);
    let again = world.send_named("1-a", create("orders"));
    world.commit_all();
    assert!(is_created(&world, again));
    assert!(world.image().topic_named("orders").is_some());
}

#[test]
fn whoever_takes_over_knows_the_requests_in_the_log() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    let first = world.send_named("1-a", create("orders"));
    let told = world.replies[&first].clone();
    world.lose();
    world.lead();
    let again = world.send_named("1-a", create("orders"));
    assert_eq!(world.replies[&again], told);
}

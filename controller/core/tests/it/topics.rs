//! The rows of R2.1 to R2.9 and R2.40 to R2.43.

use controller_core::command::{
    Assignment, Command, CreateTopics, DeleteTopics, NewTopic, Reply, TopicCreation, TopicDeletion,
    TopicMade, TopicRef,
};
use controller_core::refusal::Refusal;
use metadata::ids::{BrokerId, TopicId};
use metadata::uuid::Uuid;

use crate::world::{World, settings};

fn world() -> World {
    let mut world = World::new(settings(&[
        ("num.partitions", "4"),
        ("default.replication.factor", "2"),
    ]));
    world.start(&[1, 2, 3]);
    world
}

fn create_all(world: &mut World, topics: Vec<NewTopic>) -> Vec<TopicCreation> {
    let command = CreateTopics {
        topics,
        validate_only: false,
        timeout_ms: 1000,
        entropy: 7,
    };
    match world.ask(Command::CreateTopics(command)) {
        Ok(Reply::TopicsCreated(topics)) => topics,
        other => panic!("{other:?}"),
    }
}

fn create(world: &mut World, topic: NewTopic) -> Result<TopicMade, Refusal> {
    create_all(world, vec![topic]).remove(0).result
}

fn named(name: &str) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        ..NewTopic::default()
    }
}

fn assigned(replicas: &[(i32, &[i32])]) -> NewTopic {
    let assignments = replicas.iter().map(|(partition, ids)| Assignment {
        partition: *partition,
        replicas: ids.iter().map(|id| BrokerId(*id)).collect(),
    });
    NewTopic {
        assignments: assignments.collect(),
        ..named("orders")
    }
}

#[test]
fn what_the_creator_does_not_say_comes_from_the_controllers_file() {
    let mut world = world();
    let made = create(&mut world, named("orders")).unwrap();
    assert_eq!((made.partitions, made.replication_factor), (4, 2));
    let topic = world.image().topic_named("orders").unwrap();
    assert_eq!(topic.id, made.topic);
    for partition in topic.partitions.values() {
        assert_eq!(partition.in_sync, partition.replicas);
        assert_eq!(partition.leader, Some(partition.replicas[0]));
        assert_eq!(partition.leader_epoch.0, 0);
        assert_eq!(partition.epoch.0, 0);
        assert_eq!(partition.directories.len(), 2);
    }
}

#[test]
fn names_that_cannot_name_a_topic_are_refused() {
    let mut world = world();
    let long = "x".repeat(250);
    for name in ["", ".", "..", "a b", "a/b", "ä", "a\n", long.as_str()] {
        let refusal = create(&mut world, named(name)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::InvalidTopicName { .. }),
            "{name:?}: {refusal}"
        );
    }
    let refusal = create(&mut world, named("__cluster_metadata")).unwrap_err();
    assert!(matches!(refusal, Refusal::InvalidRequest(_)));
    for name in ["...", "A-Z_0.9", &long[..249]] {
        create(&mut world, named(name)).unwrap();
    }
}

#[test]
fn a_name_too_like_another_is_refused_and_one_that_exists_says_so_first() {
    let mut world = world();
    create(&mut world, named("a.b")).unwrap();
    create(&mut world, named("plain")).unwrap();
    let like = create(&mut world, named("a_b")).unwrap_err();
    assert!(matches!(like, Refusal::InvalidTopicName { .. }));
    let same = create(&mut world, named("a.b")).unwrap_err();
    assert!(matches!(same, Refusal::TopicExists { .. }));
    let bad = NewTopic {
        partitions: Some(0),
        configs: vec![("nonsense".to_owned(), None)],
        ..named("plain")
    };
    assert!(matches!(
        create(&mut world, bad).unwrap_err(),
        Refusal::TopicExists { .. }
    ));
}

#[test]
fn configuration_is_judged_before_counts_and_the_last_value_of_a_key_holds() {
    let mut world = world();
    let with = |configs: &[(&str, Option<&str>)], partitions| NewTopic {
        configs: configs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)))
            .collect(),
        partitions,
        ..named("orders")
    };
    for configs in [
        [("nonsense", Some("1"))],
        [("retention.ms", None)],
        [("retention.ms", Some("x"))],
    ] {
        let refusal = create(&mut world, with(&configs, Some(0))).unwrap_err();
        assert!(
            matches!(refusal, Refusal::InvalidConfig(_)),
            "{configs:?}: {refusal}"
        );
    }
    let twice = [("retention.ms", Some("x")), ("retention.ms", Some("2000"))];
    create(&mut world, with(&twice, None)).unwrap();
    let resource = metadata::record::ConfigResource::Topic("orders".to_owned());
    assert_eq!(world.image().config(&resource, "retention.ms"), Some("2000"));
}

#[test]
fn replicas_by_hand_are_kept_in_order_and_every_bad_list_is_refused() {
    let mut world = world();
    let both = NewTopic {
        partitions: Some(1),
        ..assigned(&[(0, &[1])])
    };
    assert!(matches!(
        create(&mut world, both).unwrap_err(),
        Refusal::InvalidRequest(_)
    ));
    let bad: [&[(i32, &[i32])]; 9] = [
        &[(0, &[1]), (0, &[2])],
        &[(0, &[])],
        &[(0, &[1, 98])],
        &[(0, &[-1])],
        &[(0, &[1, 2, 1])],
        &[(0, &[1, 2]), (1, &[3])],
        &[(0, &[1]), (2, &[2])],
        &[(1, &[1])],
        &[(-1, &[1])],
    ];
    for replicas in bad {
        let refusal = create(&mut world, assigned(replicas)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::InvalidReplicaAssignment(_)),
            "{replicas:?}: {refusal}"
        );
    }
    let made = create(&mut world, assigned(&[(1, &[2, 1]), (0, &[3, 1])])).unwrap();
    assert_eq!((made.partitions, made.replication_factor), (2, 2));
    let topic = world.image().topic_named("orders").unwrap();
    let replicas: Vec<Vec<i32>> = topic
        .partitions
        .values()
        .map(|it| it.replicas.iter().map(|id| id.0).collect())
        .collect();
    assert_eq!(replicas, [[3, 1], [2, 1]]);
}

#[test]
fn a_fenced_broker_may_be_named_and_starts_out_of_sync_unless_all_are() {
    let mut world = world();
    let mut heartbeat = world.heartbeat(BrokerId(3));
    heartbeat.want_fence = true;
    world.beat(heartbeat).unwrap();
    let refusal = create(&mut world, assigned(&[(0, &[3])])).unwrap_err();
    assert!(matches!(refusal, Refusal::InvalidReplicaAssignment(_)));
    create(&mut world, assigned(&[(0, &[3, 2])])).unwrap();
    let topic = world.image().topic_named("orders").unwrap();
    let partition = topic.partitions.values().next().unwrap();
    assert_eq!(partition.in_sync, [BrokerId(2)]);
    assert_eq!(partition.leader, Some(BrokerId(2)));
}

#[test]
fn counts_out_of_range_are_refused_the_replication_factor_first() {
    let mut world = world();
    let with = |partitions, replication_factor| NewTopic {
        partitions: Some(partitions),
        replication_factor: Some(replication_factor),
        ..named("orders")
    };
    for (partitions, factor) in [(0, 0), (1, -2), (1, 4), (1, 32_767)] {
        let refusal = create(&mut world, with(partitions, factor)).unwrap_err();
        let expected = matches!(refusal, Refusal::InvalidReplicationFactor { given, .. } if given == factor);
        assert!(expected, "{partitions} {factor}: {refusal}");
    }
    for (partitions, factor) in [(0, 99), (-2, 1), (i32::MIN, 1)] {
        let refusal = create(&mut world, with(partitions, factor)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::InvalidPartitions { .. }),
            "{partitions}: {refusal}"
        );
    }
}

#[test]
fn too_many_partitions_together_refuse_every_topic_of_the_request() {
    let mut world = world();
    let with = |name: &str, partitions| NewTopic {
        partitions: Some(partitions),
        ..named(name)
    };
    let topics = vec![with("a", 6000), with("b", 4001), with("bad name", 0)];
    for creation in create_all(&mut world, topics) {
        assert!(matches!(creation.result, Err(Refusal::PolicyViolation(_))));
    }
    let refusal = create(&mut world, with("a", i32::MAX)).unwrap_err();
    assert!(matches!(refusal, Refusal::PolicyViolation(_)));
}

#[test]
fn a_name_given_twice_has_one_answer_and_is_not_created() {
    let mut world = world();
    let topics = vec![named("twice"), named("once"), named("twice"), named("twice")];
    let mut answers: Vec<(String, bool)> = create_all(&mut world, topics)
        .into_iter()
        .map(|it| (it.name, matches!(it.result, Err(Refusal::InvalidRequest(_)))))
        .collect();
    answers.sort();
    assert_eq!(answers, [("once".to_owned(), false), ("twice".to_owned(), true)]);
    assert!(world.image().topic_named("twice").is_none());
    assert!(world.image().topic_named("once").is_some());
}

#[test]
fn validating_answers_like_creating_and_writes_nothing() {
    let mut world = world();
    let command = |topics, validate_only, timeout_ms| {
        Command::CreateTopics(CreateTopics {
            topics,
            validate_only,
            timeout_ms,
            entropy: 1,
        })
    };
    world.take_committed();
    let reply = world
        .ask(command(vec![named("orders"), named("bad name")], true, 1))
        .unwrap();
    let Reply::TopicsCreated(topics) = reply else {
        panic!("{reply:?}");
    };
    assert!(topics[0].result.is_ok());
    assert!(topics[1].result.is_err());
    assert_eq!(world.take_committed(), []);
    let late = world.ask(command(vec![named("orders")], false, 0));
    assert_eq!(late, Err(Refusal::TimedOut { timeout_ms: 0 }));
}

#[test]
fn topic_ids_differ_and_hold_no_dash() {
    let mut world = world();
    let topics: Vec<NewTopic> = (0..40).map(|at| named(&format!("topic{at}"))).collect();
    let mut ids: Vec<String> = create_all(&mut world, topics)
        .into_iter()
        .map(|it| it.result.unwrap().topic.to_string())
        .collect();
    assert!(ids.iter().all(|id| !id.contains('-')));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}

fn delete(world: &mut World, topics: Vec<TopicRef>) -> Vec<TopicDeletion> {
    let command = Command::DeleteTopics(DeleteTopics {
        topics,
        timeout_ms: 1000,
    });
    match world.ask(command) {
        Ok(Reply::TopicsDeleted(topics)) => topics,
        other => panic!("{other:?}"),
    }
}

fn name(name: &str) -> TopicRef {
    TopicRef::Name(name.to_owned())
}

#[test]
fn topics_are_deleted_by_name_or_id_with_one_record_each() {
    let mut world = world();
    let by_name = create(&mut world, named("by-name")).unwrap().topic;
    let by_id = create(&mut world, named("by-id")).unwrap().topic;
    world.take_committed();
    let deletions = delete(&mut world, vec![name("by-name"), TopicRef::Id(by_id)]);
    let expected = |text: &str, topic| TopicDeletion {
        name: Some(text.to_owned()),
        topic: Some(topic),
        refused: None,
    };
    assert_eq!(
        deletions,
        [expected("by-name", by_name), expected("by-id", by_id)]
    );
    assert_eq!(world.take_committed().len(), 2);
    assert!(world.image().topics.is_empty());
    assert_eq!(world.image().lookup().assigned_to(BrokerId(1)).count(), 0);
}

#[test]
fn a_topic_hit_twice_is_kept_and_what_is_unknown_is_said_so() {
    let mut world = world();
    let id = create(&mut world, named("orders")).unwrap().topic;
    let nothing = TopicId(Uuid(9));
    let deletions = delete(
        &mut world,
        vec![
            name("orders"),
            TopicRef::Id(id),
            name("no"),
            name("no"),
            name("a b"),
            TopicRef::Id(nothing),
        ],
    );
    let refused: Vec<(Option<&str>, Option<TopicId>, &Refusal)> = deletions
        .iter()
        .map(|it| (it.name.as_deref(), it.topic, it.refused.as_ref().unwrap()))
        .collect();
    assert_eq!(refused.len(), 4);
    assert!(matches!(
        refused[0],
        (Some("no"), None, Refusal::InvalidRequest(_))
    ));
    assert!(matches!(refused[1], (Some("orders"), Some(found), Refusal::InvalidRequest(_)) if found == id));
    assert!(matches!(
        refused[2],
        (Some("a b"), None, Refusal::UnknownTopic { .. })
    ));
    assert!(matches!(refused[3], (None, Some(_), Refusal::UnknownTopicId(_))));
    assert!(world.image().topic_named("orders").is_some());
}

#[test]
fn deletion_can_be_disabled() {
    let mut world = World::new(settings(&[("delete.topic.enable", "false")]));
    let command = Command::DeleteTopics(DeleteTopics {
        topics: vec![name("orders")],
        timeout_ms: 1000,
    });
    assert_eq!(world.ask(command), Err(Refusal::TopicDeletionDisabled));
}

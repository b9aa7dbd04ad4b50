//! Each number changes when what it counts happens.

use std::time::Duration;

use host::{Clock, Monotonic, SimClock, WallMs};
use metadata::ids::{BrokerEpoch, TopicId};
use metadata::uuid::Uuid;
use observe::{NotReady, Watched};
use wire::messages::metadata::{MetadataResponse, MetadataResponseTopic};
use wire::{ApiKey, ApiVersion, ErrorCode, ErrorCounts, Message, Writer};

use super::*;
use broker_core::lifecycle::{Fencing, Phase};

fn metrics() -> Arc<BrokerMetrics> {
    BrokerMetrics::new(Arc::new(SimClock::new(WallMs(1_000))))
}

/// The value of one line of the text.
fn value(metrics: &BrokerMetrics, series: &str) -> Option<f64> {
    let text = metrics.metrics.text().expect("it has a form");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

fn at(ms: u64) -> Monotonic {
    Monotonic(ms * 1_000_000)
}

#[test]
fn the_time_of_a_request_is_split_as_kafka_splits_it() {
    let metrics = metrics();
    let stages = Stages {
        started: Some(at(1)),
        left: Some(at(3)),
        ended: Some(at(10)),
        asked_by: AskedBy::Follower,
        ..Stages::arrived(ApiKey::Fetch, ApiVersion(17), at(0))
    };
    metrics
        .requests
        .done(&stages, Some(&sent(at(15), at(31), &answer(&[]))));

    let sum = |name: &str, request: &str| {
        let series = format!("kafka_network_requestmetrics_{name}_sum{{request=\"{request}\"}}");
        value(&metrics, &series)
    };
    for request in ["Fetch", "FetchFollower"] {
        assert_eq!(sum("requestqueuetimems", request), Some(1.0));
        assert_eq!(sum("localtimems", request), Some(2.0));
        assert_eq!(sum("remotetimems", request), Some(7.0));
        assert_eq!(sum("responsequeuetimems", request), Some(5.0));
        assert_eq!(sum("responsesendtimems", request), Some(16.0));
        assert_eq!(sum("totaltimems", request), Some(31.0));
    }
    assert_eq!(sum("totaltimems", "FetchConsumer"), None);
    let requests = "kafka_network_requestmetrics_requests_total{request=\"Fetch\",version=\"17\"}";
    assert_eq!(value(&metrics, requests), Some(1.0));
}

/// The codes of an answer about topics with these outcomes.
fn answer(codes: &[ErrorCode]) -> ErrorCounts {
    let topic = |code: &ErrorCode| MetadataResponseTopic {
        error_code: *code,
        ..Default::default()
    };
    let response = MetadataResponse {
        topics: codes.iter().map(topic).collect(),
        ..Default::default()
    };
    let mut writer = Writer::new();
    response.encode(ApiVersion(12), &mut writer);
    writer.finish().expect("it can be encoded").errors().clone()
}

fn sent(began: Monotonic, ended: Monotonic, errors: &ErrorCounts) -> Sent<'_> {
    Sent { began, ended, errors }
}

#[test]
fn every_error_code_of_an_answer_is_counted() {
    let metrics = metrics();
    let stages = Stages::arrived(ApiKey::Metadata, ApiVersion(12), at(0));
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let errors = answer(&[unknown, ErrorCode::NONE, unknown, ErrorCode::UNKNOWN_SERVER_ERROR]);
    for _ in 0..2 {
        metrics.requests.done(&stages, Some(&sent(at(1), at(1), &errors)));
    }
    let count = |error: &str| {
        let labels = format!("{{request=\"Metadata\",error=\"{error}\"}}");
        value(
            &metrics,
            &format!("kafka_network_requestmetrics_errors_total{labels}"),
        )
    };
    assert_eq!(count("UNKNOWN_TOPIC_OR_PARTITION"), Some(4.0));
    assert_eq!(count("NONE"), Some(2.0));
    assert_eq!(count("UNKNOWN_SERVER_ERROR"), Some(2.0));
    assert_eq!(count("LEADER_NOT_AVAILABLE"), None);
}

#[test]
fn who_waits_is_counted_until_the_wait_is_over() {
    let metrics = metrics();
    let size = |operation: &str| {
        let labels = format!("{{delayedOperation=\"{operation}\"}}");
        value(
            &metrics,
            &format!("kafka_server_delayedoperationpurgatory_purgatorysize{labels}"),
        )
    };
    let queue = || value(&metrics, "kafka_network_requestchannel_requestqueuesize");
    let (fetch, _other) = (metrics.waiting.fetch(), metrics.waiting.fetch());
    let (produce, queued) = (metrics.waiting.produce(), metrics.waiting.to_start());
    assert_eq!(
        (size("Fetch"), size("Produce"), queue()),
        (Some(2.0), Some(1.0), Some(1.0))
    );
    drop((fetch, produce, queued));
    assert_eq!(
        (size("Fetch"), size("Produce"), queue()),
        (Some(1.0), Some(0.0), Some(0.0))
    );
}

#[test]
fn a_request_without_an_answer_ends_where_its_work_ends() {
    let metrics = metrics();
    let stages = Stages {
        started: Some(at(1)),
        ended: Some(at(4)),
        ..Stages::arrived(ApiKey::Produce, ApiVersion(11), at(0))
    };
    metrics.requests.done(&stages, None);
    let total = "kafka_network_requestmetrics_totaltimems_sum{request=\"Produce\"}";
    assert_eq!(value(&metrics, total), Some(4.0));
}

#[test]
fn traffic_is_counted_in_all_and_by_topic() {
    let metrics = metrics();
    let orders = metrics.traffic.of(TopicId(Uuid(1)), "orders");
    let users = metrics.traffic.of(TopicId(Uuid(2)), "users");
    orders.produced(10, 1_000);
    users.produced(1, 50);
    orders.consumed(400);
    orders.replicated_out(300);
    orders.replicated_in(7);
    orders.produce_failed();
    orders.produce_refused();
    orders.fetch_failed();
    orders.too_large(9_999);

    let all = |flow: &str| value(&metrics, &format!("kafka_server_brokertopicmetrics_{flow}_total"));
    let of_orders = |flow: &str| {
        let series = format!("kafka_server_brokertopicmetrics_{flow}_total{{topic=\"orders\"}}");
        value(&metrics, &series)
    };
    let both = |flow: &str| (all(flow), of_orders(flow));
    assert_eq!(both("messagesin"), (Some(11.0), Some(10.0)));
    assert_eq!(both("bytesin"), (Some(1_050.0), Some(1_000.0)));
    assert_eq!(both("bytesout"), (Some(400.0), Some(400.0)));
    assert_eq!(both("totalproducerequests"), (Some(5.0), Some(4.0)));
    assert_eq!(both("totalfetchrequests"), (Some(3.0), Some(3.0)));
    assert_eq!(both("failedproducerequests"), (Some(1.0), Some(1.0)));
    assert_eq!(both("failedfetchrequests"), (Some(1.0), Some(1.0)));
    assert_eq!(both("bytesrejected"), (Some(9_999.0), Some(9_999.0)));
    assert_eq!(both("replicationbytesin"), (Some(7.0), None));
    assert_eq!(both("replicationbytesout"), (Some(300.0), None));
}

#[test]
fn a_topic_that_nobody_holds_is_not_shown_and_still_counted() {
    let metrics = metrics();
    metrics.traffic.of(TopicId(Uuid(1)), "orders").produced(10, 1_000);
    let of_topic = "kafka_server_brokertopicmetrics_messagesin_total{topic=\"orders\"}";
    assert_eq!(value(&metrics, of_topic), None);
    assert_eq!(
        value(&metrics, "kafka_server_brokertopicmetrics_messagesin_total"),
        Some(10.0)
    );
}

#[test]
fn ten_thousand_busy_topics_stay_below_three_thousand_series() {
    let metrics = metrics();
    let topics: Vec<_> = (0..10_000)
        .map(|n| metrics.traffic.of(TopicId(Uuid(n)), &format!("topic-{n}")))
        .collect();
    topics.iter().for_each(|topic| topic.produced(1, 100));
    // More than a broker serves.
    for api in &ApiKey::ALL[..45] {
        let stages = Stages::arrived(*api, ApiVersion(0), at(0));
        metrics
            .requests
            .done(&stages, Some(&sent(at(1), at(1), &answer(&[ErrorCode::NONE]))));
    }
    let text = metrics.metrics.text().expect("it has a form");
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!((2_000..3_000).contains(&series), "{series} series");
    assert_eq!(text.matches("{topic=").count(), 100 * 8);
}

#[test]
fn changes_of_in_sync_sets_syncs_fences_and_connections_are_counted() {
    let metrics = metrics();
    metrics.in_sync.shrinks.inc();
    metrics.in_sync.expands.inc_by(2);
    metrics.in_sync.failed.inc_by(3);
    metrics.fenced.inc();
    metrics.connections.inc();
    metrics.syncs.record(Duration::from_millis(4));

    assert_eq!(
        value(&metrics, "kafka_server_replicamanager_isrshrinks_total"),
        Some(1.0)
    );
    assert_eq!(
        value(&metrics, "kafka_server_replicamanager_isrexpands_total"),
        Some(2.0)
    );
    assert_eq!(
        value(&metrics, "kafka_server_replicamanager_failedisrupdates_total"),
        Some(3.0)
    );
    assert_eq!(value(&metrics, "millrace_broker_fenced_total"), Some(1.0));
    let connections = "kafka_server_socket_server_metrics_connection_creation_total";
    assert_eq!(value(&metrics, connections), Some(1.0));
    let syncs = "kafka_log_logflushstats_logflushrateandtimems_count";
    assert_eq!(value(&metrics, syncs), Some(1.0));
}

/// What a probe hears of a broker in this phase.
fn ready(watch: &Watch, phase: &Phase) -> Result<(), String> {
    watch.health.lives(phase);
    watch.ready().map_err(|NotReady(why)| why)
}

#[test]
fn a_broker_is_ready_while_it_is_unfenced_and_listens() {
    let watch = Watch::new(Arc::new(SimClock::new(WallMs(1_000))));
    let epoch = BrokerEpoch(7);
    let starting = |why: &str| Err(format!("starting: {why}"));
    assert_eq!(
        watch.ready().map_err(|NotReady(why)| why),
        starting("the log directories are being opened")
    );
    assert_eq!(
        ready(&watch, &Phase::CatchingUp(epoch)),
        starting("the metadata is read and the logs are opened")
    );
    assert_eq!(
        ready(&watch, &Phase::Unfencing(epoch)),
        starting("the controller has not unfenced this broker yet")
    );
    let unfenced = Phase::Running(epoch, Fencing::Unfenced);
    assert_eq!(
        ready(&watch, &unfenced),
        starting("the listeners are being opened")
    );
    watch.health.listening();
    assert_eq!(ready(&watch, &unfenced), Ok(()));
    assert_eq!(
        ready(&watch, &Phase::Running(epoch, Fencing::Fenced)),
        Err("fenced by the controller".into())
    );
    assert_eq!(
        value(&watch.metrics, "kafka_server_kafkaserver_brokerstate"),
        Some(3.0)
    );
    watch.health.is(State::Closing);
    assert_eq!(
        watch.ready(),
        Err(NotReady("stopping: the logs are being closed".into()))
    );
    assert_eq!(
        value(&watch.metrics, "kafka_server_kafkaserver_brokerstate"),
        Some(7.0)
    );
}

#[test]
fn a_broker_that_no_controller_answers_is_not_ready_any_more() {
    let clock = Arc::new(SimClock::new(WallMs(1_000)));
    let watch = Watch::new(clock.clone());
    watch.health.listening();
    watch.health.answered(clock.now(), Duration::from_secs(9));
    let unfenced = Phase::Running(BrokerEpoch(7), Fencing::Unfenced);
    clock.advance(Duration::from_secs(9));
    assert_eq!(ready(&watch, &unfenced), Ok(()));
    clock.advance(Duration::from_secs(2));
    assert_eq!(
        ready(&watch, &unfenced),
        Err("no controller has answered for 11 s, so this broker is probably fenced".into())
    );
}

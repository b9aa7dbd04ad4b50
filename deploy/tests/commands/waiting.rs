//! What is told while a command waits, and what it says when it has waited long enough.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use wire::ApiKey;

use crate::made_up::Broker;
use crate::{err, out};

/// A command that goes on, and the lines of its answer and of its complaints.
struct Running {
    child: Child,
    answer: Lines<BufReader<ChildStdout>>,
    told: Lines<BufReader<ChildStderr>>,
}

impl Running {
    fn begin(broker: &Broker, line: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(line)
            .args(["--bootstrap", &broker.address])
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            answer: BufReader::new(child.stdout.take().unwrap()).lines(),
            told: BufReader::new(child.stderr.take().unwrap()).lines(),
            child,
        }
    }

    async fn told(&mut self) -> String {
        self.told.next_line().await.unwrap().unwrap()
    }
}

/// It asked again and again, and said nothing.
#[tokio::test]
async fn a_member_that_may_not_join_says_which_partition_takes_no_writes_and_goes_on() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::DescribeConfigs,
        ApiKey::FindCoordinator,
        ApiKey::JoinGroup,
    ];
    let broker = Broker::serving(APIS).await;
    let mut member = Running::begin(&broker, &["consume", "orders", "--group", "g"]);

    assert_eq!(
        member.told().await,
        "waiting: joining g: COORDINATOR_NOT_AVAILABLE: __consumer_offsets-0 takes no writes: 1 replica in sync (2), \
         min.insync.replicas is 2; bring back broker 1; `millrace status` shows more"
    );
    assert_eq!(member.child.try_wait().unwrap(), None, "it waits");
}

/// It had said that it was joining, and not what kept it from that.
#[tokio::test]
async fn a_member_that_gives_up_says_what_kept_it_from_joining() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::DescribeConfigs,
        ApiKey::FindCoordinator,
        ApiKey::JoinGroup,
    ];
    let broker = Broker::serving(APIS).await;
    let line = ["consume", "orders", "--group", "g", "--timeout", "5"];
    let given_up = broker.command(&line).await;
    assert_eq!(given_up.status.code(), Some(1));
    let told = err(&given_up);
    let why = told.lines().last().unwrap();
    assert!(
        why.starts_with(
            "millrace: no record for 5 s; 0 records read; it waited: joining g: COORDINATOR_NOT_AVAILABLE: "
        ),
        "{told}"
    );
    assert!(
        why.contains("__consumer_offsets-0 takes no writes: 1 replica in sync (2)"),
        "{told}"
    );
}

/// Nothing of the others was shown as long as one had no leader.
#[tokio::test]
async fn a_reader_shows_what_has_a_leader_and_says_what_has_none() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::ListOffsets,
        ApiKey::Fetch,
    ];
    let broker = Broker::serving(APIS).await;
    let line = ["consume", "orders", "--from-beginning", "--exit-at-end"];
    let mut reader = Running::begin(&broker, &line);

    assert_eq!(reader.answer.next_line().await.unwrap().unwrap(), "v");
    assert_eq!(
        reader.told().await,
        "waiting: orders-1 has no leader; `millrace status` says why"
    );
    assert_eq!(reader.child.try_wait().unwrap(), None, "it waits");

    let led = [
        "consume",
        "orders",
        "--partition",
        "0",
        "--from-beginning",
        "--exit-at-end",
    ];
    let led = broker.command(&led).await;
    assert_eq!((led.status.code(), out(&led)), (Some(0), "v\n".to_owned()));
}

/// A leader that goes on refusing was asked again and again in silence.
#[tokio::test]
async fn a_reader_that_is_refused_for_long_says_by_what() {
    const APIS: &[ApiKey] = &[ApiKey::ApiVersions, ApiKey::Metadata, ApiKey::Fetch];
    let broker = Broker::serving(APIS).await;
    let line = ["consume", "orders", "--partition", "0", "--offset", "7"];
    let mut reader = Running::begin(&broker, &line);
    assert_eq!(
        reader.told().await,
        "waiting: orders-0: KAFKA_STORAGE_ERROR; `millrace status` shows more"
    );
    assert_eq!(reader.child.try_wait().unwrap(), None, "it waits");
}

/// Without controllers it was silent for half a minute.
#[tokio::test]
async fn a_question_that_is_not_answered_for_long_is_named_with_whom_it_waits_for() {
    let broker = Broker::serving(&[ApiKey::ApiVersions, ApiKey::CreateTopics]).await;
    let mut command = Running::begin(&broker, &["topic", "create", "stuck"]);
    assert_eq!(
        command.told().await,
        format!(
            "waiting: {} has not answered CreateTopics yet; the controllers have to do with it: `millrace status` shows \
             whether one leads",
            broker.address
        )
    );
    assert_eq!(command.child.try_wait().unwrap(), None, "it waits");
}

/// The broker's own words took the place of what to do.
#[tokio::test]
async fn a_change_that_is_not_done_in_time_ends_with_the_next_step() {
    let broker = Broker::serving(&[ApiKey::ApiVersions, ApiKey::CreateTopics]).await;
    let late = broker.command(&["topic", "create", "late"]).await;
    assert_eq!(late.status.code(), Some(1));
    assert_eq!(
        err(&late),
        "millrace: late: REQUEST_TIMED_OUT: no controller took it; `millrace status` shows whether controllers answer\n"
    );
}

/// The answer was NOT_ENOUGH_REPLICAS and no more.
#[tokio::test]
async fn records_that_too_few_replicas_take_are_given_up_with_who_is_missing() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::DescribeConfigs,
        ApiKey::Produce,
    ];
    let broker = Broker::serving(APIS).await;
    let line = [
        "produce",
        "orders",
        "--partition",
        "0",
        "--no-idempotence",
        "--timeout",
        "0",
    ];
    let mut producer = Command::new(env!("CARGO_BIN_EXE_millrace"));
    producer
        .args(line)
        .args(["--bootstrap", &broker.address])
        .env_clear()
        .stdin(one_line());
    let given_up = producer.output().await.unwrap();
    assert_eq!(given_up.status.code(), Some(1));
    assert_eq!(
        err(&given_up),
        "millrace: not written within 0 s: orders-0: NOT_ENOUGH_REPLICAS: orders-0 takes no writes: 1 replica in sync (2), \
         min.insync.replicas is 2; broker 1 is there and not in sync yet; `millrace status` shows more\n"
    );
}

/// Standard input of one line.
fn one_line() -> Stdio {
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"v\n").unwrap();
    reader.into()
}

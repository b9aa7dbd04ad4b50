//! What is said of names that do not exist, and of keys that are kept and do nothing.

use wire::ApiKey;

use crate::err;
use crate::made_up::Broker;

/// They ended with what was wrong, and not with what to do.
#[tokio::test]
async fn who_names_what_does_not_exist_is_told_what_does() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::CreateTopics,
        ApiKey::DescribeConfigs,
    ];
    let broker = Broker::serving(APIS).await;
    for (line, told) in [
        (
            &["topic", "create", "misspelt", "--config", "retention.mss=5"][..],
            "misspelt: INVALID_CONFIG: unknown topic configuration: retention.mss; `millrace keys` says what there is to \
             configure; perhaps retention.ms is meant",
        ),
        (
            &["config", "get", "topic:orders", "retention.mss"],
            "topic:orders has no key retention.mss; perhaps retention.ms is meant; `millrace config get topic:orders --all` \
             shows what there is",
        ),
        (
            &["config", "get", "broker:9"],
            "broker 9 is not known; `millrace status` shows the brokers",
        ),
        (
            &["consume", "orders", "--partition", "7"],
            "orders has no partition 7, only 0 to 1; `millrace topic describe orders` shows them",
        ),
        (
            &["produce", "orders", "--partition", "7"],
            "orders has no partition 7, only 0 to 1; `millrace topic describe orders` shows them",
        ),
    ] {
        let refused = broker.command(line).await;
        assert_eq!(refused.status.code(), Some(1), "{line:?}");
        assert_eq!(err(&refused), format!("millrace: {told}\n"), "{line:?}");
    }
}

#[tokio::test]
async fn a_brokers_key_that_nobody_knows_is_kept_with_a_warning() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::IncrementalAlterConfigs,
    ];
    let broker = Broker::serving(APIS).await;
    let kept = broker
        .command(&["config", "set", "brokers", "log.retention.mss=5"])
        .await;
    let warning = "warning: neither Kafka nor Millrace knows log.retention.mss; it is kept, and nothing reads it; perhaps \
                   log.retention.ms is meant\n";
    assert_eq!((kept.status.code(), err(&kept).as_str()), (Some(0), warning));
}

/// It was taken without a word, and the disk filled.
#[tokio::test]
async fn who_asks_for_compaction_is_told_that_there_is_none_yet() {
    const APIS: &[ApiKey] = &[
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::CreateTopics,
        ApiKey::DescribeConfigs,
        ApiKey::IncrementalAlterConfigs,
    ];
    let broker = Broker::serving(APIS).await;
    let warning = "warning: cleanup.policy: this cluster does not compact yet; without delete in the list every record is \
                   kept\n";
    for line in [
        &["config", "set", "topic:ours", "cleanup.policy=delete,compact"][..],
        &[
            "config",
            "set",
            "topic:ours",
            "--append",
            "cleanup.policy=compact",
        ],
        &["topic", "create", "ours", "--config", "cleanup.policy=compact"],
    ] {
        let warned = broker.command(line).await;
        assert_eq!(
            (warned.status.code(), err(&warned).as_str()),
            (Some(0), warning),
            "{line:?}"
        );
    }
    for line in [
        &["config", "set", "topic:ours", "cleanup.policy=delete"][..],
        &[
            "config",
            "set",
            "topic:ours",
            "--subtract",
            "cleanup.policy=compact",
        ],
        &["config", "set", "topic:theirs", "cleanup.policy=compact"],
    ] {
        let quiet = broker.command(line).await;
        assert_eq!(
            (quiet.status.code(), err(&quiet).as_str()),
            (Some(0), ""),
            "{line:?}"
        );
    }
}

//! Claims about hints and holds, one test each (KIP-951).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::ids::LeaderEpoch;

use super::*;
use crate::testing::{at, changed, cluster, led_by, partition, with_orders};

const ME: BrokerId = BrokerId(2);

#[test]
fn a_hint_names_leader_epoch_and_endpoint() {
    let image = led_by(&with_orders(cluster(3), &[&[1, 2, 3]]), 0, 3);
    let hint = leader_hint(&image, partition(0)).unwrap();
    assert_eq!(
        hint,
        LeaderHint {
            leader: Some(BrokerId(3)),
            epoch: LeaderEpoch(1)
        }
    );
    let (endpoint, rack) = leader_endpoint(&image, BrokerId(3), "PLAINTEXT").unwrap();
    assert_eq!((endpoint.host.as_str(), rack), ("broker-3", Some("rack-3")));
    assert_eq!(leader_endpoint(&image, BrokerId(3), "SSL"), None);
}

/// The client heard of the move before this broker did.
#[test]
fn a_produce_that_comes_before_the_news_is_held_for_50_ms() {
    let image = with_orders(cluster(3), &[&[1, 2, 3]]);
    assert_eq!(
        arrival(&image, partition(0), ME, None, at(100), at(100)),
        Arrival::Hold { until: at(150) }
    );
    let moved = led_by(&image, 0, 2);
    assert_eq!(
        arrival(&moved, partition(0), ME, None, at(100), at(120)),
        Arrival::Lead
    );
    let hint = LeaderHint {
        leader: Some(BrokerId(1)),
        epoch: LeaderEpoch(0),
    };
    assert_eq!(
        arrival(&image, partition(0), ME, None, at(100), at(150)),
        Arrival::Refuse(hint),
        "nothing came"
    );
}

/// The old leader knows better than its client, and a detour of 50 ms would lengthen every failover.
#[test]
fn a_deposed_leader_sends_its_clients_on_at_once() {
    let image = led_by(&with_orders(cluster(3), &[&[2, 1, 3]]), 0, 1);
    let hint = LeaderHint {
        leader: Some(BrokerId(1)),
        epoch: LeaderEpoch(1),
    };
    assert_eq!(
        arrival(&image, partition(0), ME, Some(LeaderEpoch(0)), at(0), at(0)),
        Arrival::Refuse(hint)
    );
}

#[test]
fn a_broker_that_cannot_be_elected_holds_nothing() {
    let image = changed(&with_orders(cluster(3), &[&[1, 2, 3]]), 0, |record| {
        record.in_sync = Some(vec![BrokerId(1), BrokerId(3)]);
    });
    assert!(matches!(
        arrival(&image, partition(0), ME, None, at(0), at(0)),
        Arrival::Refuse(_)
    ));
    assert_eq!(
        arrival(&image, partition(7), ME, None, at(0), at(0)),
        Arrival::Unknown
    );
}

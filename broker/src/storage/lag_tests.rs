//! How far a follower is behind is seen while it follows.

use std::sync::atomic::Ordering;

use broker_core::offsets::{HighWatermark, LogStart, Offset};

use super::follower::Work;
use super::testing::{Follower, ORDERS, batch};

#[test]
fn the_lag_is_what_is_committed_at_the_leader_and_missing_here() {
    let follower = Follower::new();
    let lag = || {
        let hosted = follower.partitions.get(ORDERS).expect("it is hosted");
        hosted.lag.load(Ordering::Relaxed)
    };
    let fetched = |from: i64, watermark: i64| {
        follower.work(Work::Append {
            from: Offset(from),
            batches: batch(from, b'a'),
            watermark: HighWatermark(Offset(watermark)),
            log_start: LogStart(Offset(0)),
        })
    };
    fetched(0, 10);
    assert_eq!(lag(), 7);
    fetched(3, 10);
    assert_eq!(lag(), 4);
    fetched(6, 9);
    assert_eq!(lag(), 0);
    fetched(9, 9);
    assert_eq!(lag(), 0, "what is not committed yet is no lag");
}

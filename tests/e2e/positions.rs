//! Offsets that clients go by, asked for at every wrong moment.

use tests::cases::positions;
use tests::cluster::Cluster;

#[test]
fn times_epochs_and_ends_lead_to_the_right_offset() {
    let mut cluster = Cluster::builder()
        .set("offsets.topic.replication.factor", 1)
        .set("group.initial.rebalance.delay.ms", 100)
        .start()
        .unwrap();
    positions::by_time(&cluster).unwrap();
    positions::ends_of_epochs(&mut cluster).unwrap();
    positions::end_of_partition(&mut cluster).unwrap();
}

#[test]
fn an_offset_is_right_or_an_error_and_never_out_of_range_for_a_while() {
    let mut cluster = Cluster::builder().controllers(3).brokers(3).start().unwrap();
    positions::between_watermark_and_end(&mut cluster).unwrap();
    positions::no_false_zero(&mut cluster, 4).unwrap();
}

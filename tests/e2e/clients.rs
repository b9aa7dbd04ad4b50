//! Stock clients against the smallest cluster.

use tests::cluster::Cluster;
use tests::raw::requests::NewTopic;
use tests::{ask, clients};

#[test]
fn kcat_reads_what_kcat_wrote() {
    let cluster = Cluster::builder().start().unwrap();
    ask::create(&cluster.bootstrap(), NewTopic::new("orders", 1, 1)).unwrap();

    clients::kcat_produce(&cluster.bootstrap(), "orders", "none", b"one\ntwo\nthree\n").unwrap();

    let read = clients::kcat_consume(&cluster.bootstrap(), "orders", 0, 3).unwrap();
    assert_eq!(String::from_utf8_lossy(&read), "one\ntwo\nthree\n");
}

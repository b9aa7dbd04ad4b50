//! What a controller says when it must not start: one clear line, 2, and nothing changed on disk.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::process::Command;

use support::{Controllers, cut, eventually};

/// Runs a controller that must refuse to start, and returns what it said.
fn refused(command: &mut Command) -> String {
    let output = command.env("RUST_LOG", "off").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said.trim_end().to_owned()
}

#[test]
fn a_wrong_configuration_is_told_in_one_line_each_and_nothing_is_opened() {
    let controllers = Controllers::configured(1);
    let cases = [
        ("no.such.key=1", "no.such.key=1: "),
        ("num.partitions=0", "num.partitions=0: "),
        (
            "broker.session.timeout.ms=soon",
            "broker.session.timeout.ms=soon: ",
        ),
        ("process.roles=broker", "process.roles=broker: "),
    ];
    for (set, begins) in cases {
        let said = refused(controllers.command(0).args(["--set", set]));

        assert!(said.starts_with(begins), "{set}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!controllers.data(0).exists());
    }
}

#[test]
fn a_listener_beyond_loopback_is_refused() {
    let controllers = Controllers::configured(1);
    let said = refused(
        controllers
            .command(0)
            .args(["--set", "listeners=CONTROLLER://0.0.0.0:0"]),
    );

    assert!(
        said.starts_with("listeners=CONTROLLER://0.0.0.0:0: only loopback addresses"),
        "{said}"
    );
    assert!(!controllers.data(0).exists());
}

#[test]
fn a_port_that_is_taken_is_told_with_its_key() {
    let controllers = Controllers::configured(1);
    let _taken = std::net::TcpListener::bind(("127.0.0.1", controllers.ports[0])).unwrap();
    let said = refused(&mut controllers.command(0));

    assert!(
        said.starts_with(&format!(
            "listeners=CONTROLLER://127.0.0.1:{}: ",
            controllers.ports[0]
        )),
        "{said}"
    );
    assert!(said.contains("another process listens there: stop it"), "{said}");
    assert!(!controllers.data(0).exists());
}

#[tokio::test]
async fn a_second_process_with_the_id_of_one_that_runs_is_refused() {
    let controllers = Controllers::start(1);
    controllers.active().await;
    let data = controllers.dir.path().join("second");
    let said = refused(controllers.command(0).args([
        "--set",
        "listeners=CONTROLLER://127.0.0.1:0",
        "--set",
        &format!("log.dirs={}", data.display()),
    ]));

    assert!(
        said.starts_with("node.id=101: another process is controller 101 at "),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!data.exists());
}

#[tokio::test]
async fn a_second_process_that_was_there_first_ends_when_the_other_comes() {
    let mut controllers = Controllers::configured(1);
    let mut second = controllers.command(0);
    second.args([
        "--set",
        "listeners=CONTROLLER://127.0.0.1:0",
        "--set",
        &format!("log.dirs={}", controllers.dir.path().join("second").display()),
    ]);
    let second = second.stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("it has started", async || {
        controllers
            .dir
            .path()
            .join("second/meta.properties")
            .exists()
            .then_some(())
    })
    .await;

    controllers.run(0);

    let ended = tokio::task::spawn_blocking(move || second.wait_with_output()).await;
    let output = ended.unwrap().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another process is controller 101"), "{said}");
}

#[tokio::test]
async fn a_directory_of_another_node_is_refused() {
    let mut controllers = Controllers::start(1);
    controllers.active().await;
    controllers.terminate(0);
    let other = Controllers::configured(2);
    let set = format!("log.dirs={}", controllers.data(0).display());
    let said = refused(other.command(1).args(["--set", &set]));

    assert!(
        said.ends_with("node.id=101, but this node is configured as node.id=102"),
        "{said}"
    );
}

#[tokio::test]
async fn a_sole_controller_never_starts_on_a_damaged_log() {
    let mut controllers = Controllers::start(1);
    controllers.active().await;
    controllers.register(1).await;
    controllers.terminate(0);
    let db = controllers.data(0).join("__cluster_metadata-0/raft/db");
    cut(&db, 300);
    let before = std::fs::read(&db).unwrap();
    let said = refused(&mut controllers.command(0));

    assert!(said.contains("the metadata log is damaged: "), "{said}");
    assert!(said.contains("Start the other controllers first"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        before.len() <= std::fs::read(&db).unwrap().len(),
        "nothing is deleted"
    );
    let floor = controllers.data(0).join("metadata.floor");
    assert!(floor.exists(), "nothing is set aside");
}

#[tokio::test]
async fn a_floor_that_is_gone_is_damage() {
    let mut controllers = Controllers::start(1);
    controllers.active().await;
    controllers.terminate(0);
    std::fs::remove_file(controllers.data(0).join("metadata.floor")).unwrap();
    std::fs::remove_dir_all(controllers.data(0).join("__cluster_metadata-0")).unwrap();
    let said = refused(&mut controllers.command(0));

    assert!(
        said.contains("the metadata log is damaged: its floor file is gone"),
        "{said}"
    );
}

#[tokio::test]
async fn a_controller_starts_again_on_its_own_data() {
    let mut controllers = Controllers::start(1);
    controllers.active().await;
    let epoch = controllers.register(7).await;
    controllers.kill(0);
    controllers.run(0);
    controllers.active().await;

    let end = eventually("the end is known", async || {
        Some(controllers.status(0).await?.committed_end)
    })
    .await;

    assert!(
        epoch < end,
        "the registration at {epoch} is in the log that ends at {end}"
    );
}

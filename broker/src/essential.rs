//! Tasks and threads without which the node must not live on.
//!
//! A broken assertion in one of them means that what this node believes is wrong. A broker that ends is fenced and
//! replaced; one that lives on without its lanes, its session or its metadata would lie. Must not: catch and go on.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tracing::error;

/// Runs a task; a panic in it ends the process.
pub fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            end_the_process(name);
        }
    });
}

/// Runs a thread; a panic in it ends the process.
///
/// # Errors
/// When the system gives no thread.
pub fn thread(name: String, what: &'static str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name).spawn(move || {
        if std::panic::catch_unwind(AssertUnwindSafe(body)).is_err() {
            end_the_process(what);
        }
    })?;
    Ok(())
}

fn end_the_process(what: &str) -> ! {
    error!(
        what,
        "an essential part of this broker is broken; the process ends"
    );
    std::process::abort()
}

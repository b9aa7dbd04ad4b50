//! Waiting by asking: the only place in the tests where time may pass. It must never be used to hope that
//! something has happened; every wait names what it waits for and fails with the last answer.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long between two questions.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Asks until `question` gives an answer, at most for `limit`; then fails with the last complaint.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut question: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let began = Instant::now();
    loop {
        match question() {
            Ok(answer) => return Ok(answer),
            Err(complaint) if began.elapsed() >= limit => {
                anyhow::bail!("{what}: not within {:.1} s: {complaint:#}", limit.as_secs_f64());
            }
            Err(_) => std::thread::sleep(ASK_EVERY),
        }
    }
}

/// Asks until `question` is answered with `wanted`.
pub fn until_equal<T: PartialEq + Debug>(
    what: &str,
    limit: Duration,
    wanted: T,
    mut question: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<()> {
    until(what, limit, || {
        let got = question()?;
        anyhow::ensure!(got == wanted, "{got:?} instead of {wanted:?}");
        Ok(())
    })
}

/// Lets time pass because time is what is asked for: the pace of a load, the length of a quiet phase.
pub fn pass(time: Duration) {
    std::thread::sleep(time);
}

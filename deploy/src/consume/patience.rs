//! How long a reader waits: for records as long as `--timeout` says, whatever it is that they wait for, and for nothing
//! after Ctrl-C.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use host::{Clock, Monotonic, OsClock};
use tokio::time::{MissedTickBehavior, interval};

use crate::interrupt::Interrupt;
use crate::outcome::Failure;
use crate::table::counted;

/// How often the time without records is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// What is left of it, and how many records have come.
pub struct Patience {
    clock: OsClock,
    /// In seconds; endless without it.
    limit: Option<f64>,
    last: Cell<Monotonic>,
    printed: Cell<u64>,
    busy_with: RefCell<Option<String>>,
}

impl Patience {
    /// Begins now. `limit` is in seconds.
    pub fn new(limit: Option<f64>) -> Self {
        let clock = OsClock::new();
        Self {
            limit,
            last: Cell::new(clock.now()),
            printed: Cell::new(0),
            busy_with: RefCell::default(),
            clock,
        }
    }

    /// Records have come, of which so many were printed.
    pub fn renew(&self, printed: u64) {
        self.last.set(self.clock.now());
        self.printed.set(self.printed.get() + printed);
    }

    /// What keeps records from coming, which is told when it took too long; nothing where they just do not come.
    pub fn is_busy_with(&self, what: Option<String>) {
        self.busy_with.replace(what);
    }

    /// How many records were printed.
    pub fn printed(&self) -> u64 {
        self.printed.get()
    }

    /// What comes of `work`; `None` when Ctrl-C came first. `work` is then left where it stands.
    ///
    /// # Errors
    /// When no record came for too long, or `work` failed.
    pub async fn within<T>(
        &self,
        interrupt: &mut Interrupt,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Option<T>, Failure> {
        let mut glance = interval(GLANCE);
        glance.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done.map(Some),
                _ = glance.tick() => self.lose()?,
                () = interrupt.next() => return Ok(None),
            }
        }
    }

    fn lose(&self) -> Result<(), Failure> {
        let silent = self.clock.now().since(self.last.get());
        match self.limit {
            Some(limit) if Duration::from_secs_f64(limit) < silent => {
                let busy = self.busy_with.borrow();
                let why = busy
                    .as_ref()
                    .map_or_else(String::new, |what| format!("; it waited: {what}"));
                let read = counted(self.printed(), "record");
                Err(Failure::Refused(format!(
                    "no record for {limit} s; {read} read{why}"
                )))
            }
            _ => Ok(()),
        }
    }
}

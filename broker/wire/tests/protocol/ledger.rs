//! Counts what a thread allocates, so that tests can say how much memory some bytes may cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static LEDGER: Ledger = Ledger;

struct Ledger;

fn add(size: isize) {
    // A thread that ends may free after its counters are gone; nobody measures there.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + size);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

#[allow(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; this one adds up sizes and passes on to the system's"
)]
// SAFETY: every call goes to the system's allocator with the caller's own arguments.
unsafe impl GlobalAlloc for Ledger {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes that were allocated at one time while `work` ran, beyond what was before.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, usize::try_from(PEAK.get() - before).unwrap())
}

#[test]
fn the_ledger_sees_an_allocation_that_is_gone_at_the_end() {
    let (length, peak) = peak_of(|| vec![1u8; 100_000].len());
    assert_eq!(length, 100_000);
    assert!((100_000..110_000).contains(&peak), "{peak}");
}

//! What the heap of a thread holds, and what the thread has computed. Tests run on a thread each, and
//! simulations on that of their test.
#![expect(unsafe_code, reason = "an allocator that counts; all else is the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nix::time::{ClockId, clock_gettime};
use quickset_base::Duration;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Bytes allocated by this thread and not freed.
pub(crate) fn held() -> isize {
    HELD.get()
}

/// Allocations by this thread.
pub(crate) fn calls() -> u64 {
    CALLS.get()
}

/// Nanoseconds that this thread has had a processor: what others compute meanwhile does not count. For what
/// is measured of the build and no part of the protocol.
pub(crate) fn clock() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("threads have clocks");
    Duration::from(time).as_nanos() as u64
}

/// Nanoseconds that looking at it twice takes at least.
pub(crate) fn glance() -> u64 {
    let twice = || {
        let at = clock();
        clock() - at
    };
    (0..100).map(|_| twice()).min().unwrap_or(0)
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: isize) {
    // A thread that ends frees what it has no counter for any more.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
    if bytes > 0 {
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    }
}

/// Nothing is larger (`Layout`).
fn signed(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing, since the
// counters are constants without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size) - signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

//! Planted faults: mistakes that a kernel could make, to show that the stress finds them.
//!
//! | `plant=` | the mistake |
//! |---|---|
//! | `shared-interrupt-cpu` | interrupts use the allocator's CPU of the thread that they interrupt |
//! | `pin-keeps-preemption` | a pin does not turn preemption off |
//! | `fence-reaches-nobody` | the heavy fence interrupts no other CPU |
//!
//! A kernel of your own leaves this file out, and its three questions in `pages.rs`.

use core::sync::atomic::{AtomicU8, Ordering};

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Plant {
    SharedInterruptCpu = 1,
    PinKeepsPreemption,
    FenceReachesNobody,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Makes a mistake from now on; returns whether the name is one.
pub(crate) fn set(name: &str) -> bool {
    let plant = match name {
        "none" => return true,
        "shared-interrupt-cpu" => Plant::SharedInterruptCpu,
        "pin-keeps-preemption" => Plant::PinKeepsPreemption,
        "fence-reaches-nobody" => Plant::FenceReachesNobody,
        _ => return false,
    };
    PLANTED.store(plant as u8, Ordering::Relaxed);
    true
}

/// Returns whether a mistake is made.
#[inline(always)]
pub(crate) fn is(plant: Plant) -> bool {
    PLANTED.load(Ordering::Relaxed) == plant as u8
}

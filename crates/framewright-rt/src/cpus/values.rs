//! One value for each CPU of a machine, found together with the CPU.
//!
//! The core keeps in it what its fast path needs ([`framewright::machine::PerCpu`]). A thread that leases its CPU finds
//! the value by a thread-local: the values' number, and the address of the thread's own ([`crate::current`]). The
//! number tells values of different machines apart, and is never used again. So a comparison is all that a call needs,
//! and nothing is left to do when it ends. A thread on the slot of its processor takes the slot first, and finds the
//! value by the processor's number.
//!
//! # Why a value need not be safe to share
//!
//! It is used only through a pin of its CPU, and no two threads have a pin of one CPU at the same time. The interrupts
//! of a thread have a CPU of their own. A CPU that changes hands is released by the last holder and acquired by the
//! next, with all that was written to its value.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use framewright::units::CpuId;

use super::lease;
use super::rseq::Rseq;
use super::slots::{Cpus, Side, Slot, Wait};
use crate::current::{self, Place};

/// The values of a machine's CPUs.
#[derive(Debug)]
pub struct CpuValues<T> {
    /// Tells values apart in a thread's memory of them: never 0, never used again.
    id: u64,
    values: Box<[T]>,
    rseq: Option<Rseq>,
    cpus: Arc<Cpus>,
}

// SAFETY: a value is used by the holder of its CPU alone, as the description of this module explains. The values are
// made by one thread and used by others, so they must be safe to send.
unsafe impl<T: Send> Sync for CpuValues<T> {}

impl<T> CpuValues<T> {
    /// Calls `operation` with the value of a CPU whose slot the thread has taken, and leaves the slot.
    #[inline(always)]
    fn with_slot<R>(&self, (place, slot): (Place, &Slot), operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        let _leave = Leave(slot);
        self.values.get(place.cpu.index()).and_then(operation)
    }

    /// Finds the CPU of a thread that leases none yet, or does not get the slot of its processor at once.
    #[cold]
    #[inline(never)]
    fn with_other<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        if self.cpus.refuses() {
            return None;
        }
        let side = Side::here();
        let entered = match self.rseq {
            Some(rseq) => rseq.enter_otherwise(&self.cpus, Wait::Never),
            None => {
                let leased = match side {
                    Side::Threads => lease::enter(&self.cpus),
                    Side::Interrupts => lease::enter_apart(&self.cpus),
                };
                if let Some(place) = leased {
                    let value = self.values.get(place.cpu.index())?;
                    current::note_value(self.cpus.id, self.id, ptr::from_ref(value).cast());
                    return operation(value);
                }
                self.cpus.share(current::mark(), side, Wait::Never)
            }
        };
        self.with_slot(entered.ok().flatten()?, operation)
    }
}

/// Leaves a slot when dropped, also if the operation panics.
struct Leave<'a>(&'a Slot);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<T> CpuValues<T> {
    /// Makes the values of as many CPUs as `count` says, or until `make` has none.
    pub(crate) fn new(
        rseq: Option<Rseq>,
        cpus: &Arc<Cpus>,
        count: usize,
        make: impl FnMut(CpuId) -> Option<T>,
    ) -> CpuValues<T> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let numbers = (0..=u16::MAX).take(count).map(CpuId);
        let values = numbers.map_while(make).collect();
        CpuValues { id: NEXT.fetch_add(1, Relaxed), values, rseq, cpus: Arc::clone(cpus) }
    }

    /// Calls `operation` with the value of the CPU that the thread leases and used last.
    #[inline(always)]
    pub(crate) fn with_leased<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        let value = current::value_of(self.id)?;
        // SAFETY: `with_other` noted it: the value lies in `values`, and the thread has had its CPU since. `current`
        // forgets the value together with the CPU.
        operation(unsafe { &*value.cast() })
    }

    /// Calls `operation` with the value of the processor's CPU, if its slot is free.
    #[inline(always)]
    pub(crate) fn with_processor<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        self.with_slot(self.rseq?.enter(&self.cpus)?, operation)
    }

    /// Calls `operation` with the value of whatever CPU the thread can have without a wait.
    #[inline(always)]
    pub(crate) fn with_any_cpu<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        match self.rseq.and_then(|rseq| rseq.enter(&self.cpus)) {
            Some(entered) => self.with_slot(entered, operation),
            None if current::value_of(self.id).is_some() => self.with_leased(operation),
            None => self.with_other(operation),
        }
    }
}

//! One value for each CPU of a machine, found together with the CPU.
//!
//! The core keeps in it what its fast path needs ([`framewright::machine::PerCpu`]). A thread that leases its CPU finds
//! the value by a thread-local: the values' number, and the address of the thread's own ([`crate::current`]). The
//! number tells values of different machines apart, and is never used again. So a comparison is all that a call needs,
//! and nothing is left to do when it ends. A thread that follows its processor notes the same of that processor's CPU,
//! under a second number, and the slot. It takes the slot first ([`super::rseq`]), and leaves it at the end. Where the
//! noted slot is not that of this processor, or is taken, it finds slot and value by the processor's number.
//!
//! # Why the unsafe code is right
//!
//! A value need not be safe to share. It is used only through a pin of its CPU, and no two threads have a pin of one
//! CPU at the same time. The interrupts of a thread have a CPU of their own. A CPU that changes hands is released by
//! the last holder and acquired by the next, with all that was written to its value.
//!
//! The addresses that a thread notes are of a value, a slot and its own area. Numbers of values are never used again,
//! so a number that matches names values that are alive: those at hand. A thread forgets all four together.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use framewright::machine::Operation;
use framewright::units::CpuId;

use super::lease;
use super::rseq::Rseq;
use super::sequence::{self, OwnArea};
use super::slots::{Cpus, Side, Slot, Wait};
use crate::current::{self, Place, Taking};

/// The values of a machine's CPUs: what the core keeps for each, as [`Machine::PerCpu`](framewright::Machine::PerCpu).
///
/// Made and used by the core alone.
#[derive(Debug)]
pub struct CpuValues<T> {
    /// Tells values apart in a thread's memory of them: never 0, never used again.
    id: u64,
    /// The number by which a thread notes the value of a CPU that it does not keep.
    // A word of its own, because a comparison with memory takes one instruction.
    processors_id: u64,
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
        let id = NEXT.fetch_add(2, Relaxed);
        CpuValues { id, processors_id: id + 1, values, rseq, cpus: Arc::clone(cpus) }
    }

    /// Calls `operation` with the value of the CPU that the thread noted: its own, or that of its processor.
    ///
    /// `None` also if that processor is another one by now, or its slot is taken.
    #[inline(always)]
    pub(crate) fn with_noted<O: Operation<T>>(&self, operation: O) -> Option<O::Output> {
        let (noted, value) = current::value();
        if noted == self.id {
            // SAFETY: `with_other` noted it: the value lies in `values`, and the thread has had its CPU since.
            // `current` forgets the value together with the CPU.
            return operation.run(unsafe { &*value.cast() });
        }
        if noted == self.processors_id {
            let Taking { area, slot } = current::taking();
            // SAFETY: `with_any_cpu` noted all three: they lie in `values` and `cpus`, and the area is the thread's.
            // A fork's child that must not use the slots has forgotten them.
            let (here, slot) = unsafe { (OwnArea::new(area.cast()), &*slot.cast::<Slot>()) };
            if !sequence::take_noted(here, slot) {
                return None;
            }
            let _leave = Leave(slot);
            // SAFETY: as above, and the slot is that of the value's CPU.
            return operation.run(unsafe { &*value.cast() });
        }
        None
    }

    /// Calls `operation` with the value of whatever CPU the thread can have without a wait.
    #[inline(always)]
    pub(crate) fn with_any_cpu<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        let (noted, _) = current::value();
        if noted == self.id {
            return self.with_noted(operation);
        }
        let Some((place, slot, here)) = self.rseq.and_then(|rseq| rseq.enter_here(&self.cpus)) else {
            return self.with_other(operation);
        };
        let _leave = Leave(slot);
        let value = self.values.get(place.cpu.index())?;
        let taking = Taking { area: here.address().cast(), slot: ptr::from_ref(slot).cast() };
        current::note_processor(self.processors_id, ptr::from_ref(value).cast(), taking);
        operation(value)
    }
}

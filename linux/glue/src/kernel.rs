//! Linux as the kit sees it: functions of `framewright_support.c`, and the one allocator.
//!
//! Each CPU has three sets of lists, because a soft interrupt may hit a task within a call, and a hard interrupt both.
//! A pin is preemption off. A drain makes itself seen by an interrupt to the other CPUs, so that no allocation has a
//! fence.
#![allow(unsafe_code, reason = "functions of Linux are called, by the contract of `framewright_kernel::Kernel`")]

use framewright::Features;
use framewright::event::Event;
use framewright::machine::{Busy, FreeChange};
use framewright::units::{MigrateType, Order, Pfn, ZoneIdx};
use framewright_kernel::{Context, Contexts, Fences, Framewright, Kernel, Pages};

unsafe extern "C" {
    fn fw_linux_pin();
    fn fw_linux_unpin();
    fn fw_linux_irq_save() -> usize;
    fn fw_linux_irq_restore(saved: usize);
    fn fw_linux_cpu() -> usize;
    /// The number of a CPU's set of lists: `cpus` times the context, plus the CPU; `usize::MAX` where there is none.
    fn fw_linux_record(cpus: usize) -> usize;
    /// 0 a task, 1 a soft interrupt, 2 a hard interrupt, 3 any other.
    fn fw_linux_context() -> u32;
    fn fw_linux_fence_others();
    fn fw_linux_may_fence_others() -> bool;
    fn fw_linux_relax();
    fn fw_linux_now() -> u64;
    fn fw_linux_free_changed(zone: u32, free: i64, cma: i64, highatomic: i64);
    fn fw_linux_retyped(pfn: u64, migratetype: u32);
    fn fw_linux_migrates() -> bool;
    /// Whether `to` is Linux's now.
    fn fw_linux_migrate(from: u64, to: u64) -> bool;
    fn fw_linux_traces() -> bool;
    fn fw_linux_trace_extfrag(pfn: u64, orders: u32, types: u32, owned: bool);
    fn fw_linux_trace_locked(pfn: u64, order: u32, migratetype: u32, refill: bool);
    fn fw_linux_trace_drain(pfn: u64, order: u32, migratetype: u32);
}

/// Linux.
pub struct Linux;

static PAGES: Framewright<Linux> = Framewright::new();

pub(crate) fn cell() -> &'static Framewright<Linux> {
    &PAGES
}

/// Returns the allocator, once it is booted.
#[inline(always)]
pub fn pages() -> Option<&'static Pages<Linux>> {
    PAGES.get()
}

// SAFETY: Linux stays on its CPU while preemption is off, numbers its CPUs, and tells its contexts apart by its
// preemption counter. `smp_call_function` returns when the function, which has a full fence, has run on all others.
unsafe impl Kernel for Linux {
    const CONTEXTS: Contexts = Contexts::Softirqs;

    const FENCES: Fences<Self> = Fences::Interrupts {
        // SAFETY: as for all functions here, Linux does what their names say.
        fence_others: |_| unsafe { fw_linux_fence_others() },
        // SAFETY: as above.
        interrupts_on: |_| unsafe { fw_linux_may_fence_others() },
    };

    /// Linux has its own limits, reclaim and zeroes, and its own page poisoning.
    const FEATURES: Features = Features { nodes: true, mobility: true, repair: true, ..Features::NONE };

    #[inline(always)]
    fn pin(&self) {
        // SAFETY: as above.
        unsafe { fw_linux_pin() }
    }

    #[inline(always)]
    fn unpin(&self) {
        // SAFETY: as above.
        unsafe { fw_linux_unpin() }
    }

    #[inline(always)]
    fn irq_save(&self) -> usize {
        // SAFETY: as above.
        unsafe { fw_linux_irq_save() }
    }

    #[inline(always)]
    fn irq_restore(&self, saved: usize) {
        // SAFETY: as above.
        unsafe { fw_linux_irq_restore(saved) }
    }

    #[inline(always)]
    fn cpu(&self) -> usize {
        // SAFETY: as above.
        unsafe { fw_linux_cpu() }
    }

    #[inline(always)]
    fn context(&self) -> Context {
        // SAFETY: as above.
        match unsafe { fw_linux_context() } {
            0 => Context::Task,
            1 => Context::Softirq,
            2 => Context::Interrupt,
            _ => Context::Other,
        }
    }

    #[inline(always)]
    fn record(&self, cpus: usize) -> Option<usize> {
        // SAFETY: as above.
        let record = unsafe { fw_linux_record(cpus) };
        (record != usize::MAX).then_some(record)
    }

    fn relax(&self) {
        // SAFETY: as above.
        unsafe { fw_linux_relax() }
    }

    fn now(&self) -> u64 {
        // SAFETY: as above.
        unsafe { fw_linux_now() }
    }

    fn free_changed(&self, zone: ZoneIdx, change: FreeChange) {
        // SAFETY: as above.
        unsafe { fw_linux_free_changed(zone.index() as u32, change.free, change.cma, change.highatomic) }
    }

    /// The depot is free memory to Linux, which would reclaim for nothing otherwise.
    fn stored_changed(&self, zone: ZoneIdx, frames: i64) {
        // SAFETY: as above.
        unsafe { fw_linux_free_changed(zone.index() as u32, frames, 0, 0) }
    }

    fn retyped(&self, pfn: Pfn, migratetype: MigrateType) {
        // SAFETY: as above.
        unsafe { fw_linux_retyped(pfn.0, migratetype.index() as u32) }
    }

    #[inline]
    fn traces(&self) -> bool {
        // SAFETY: as above.
        unsafe { fw_linux_traces() }
    }

    /// Linux reports allocations and frees itself.
    #[inline(always)]
    fn traces_calls(&self) -> bool {
        false
    }

    fn event(&self, event: &Event) {
        match *event {
            Event::ExtFrag {
                pfn,
                alloc_order,
                fallback_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
                ..
            } => {
                let orders = u32::from(alloc_order.0) | u32::from(fallback_order.0) << 8;
                let types = alloc_migratetype.index() as u32 | (fallback_migratetype.index() as u32) << 8;
                // SAFETY: as above.
                unsafe { fw_linux_trace_extfrag(pfn.0, orders, types, change_ownership) }
            }
            Event::AllocZoneLocked { pfn, order, migratetype, percpu_refill } => {
                // SAFETY: as above.
                unsafe {
                    fw_linux_trace_locked(pfn.0, order.0.into(), migratetype.index() as u32, percpu_refill);
                }
            }
            Event::PcpuDrain { pfn, order, migratetype } => {
                // SAFETY: as above.
                unsafe { fw_linux_trace_drain(pfn.0, order.0.into(), migratetype.index() as u32) }
            }
            _ => {}
        }
    }

    fn migrates(&self) -> bool {
        // SAFETY: as above.
        unsafe { fw_linux_migrates() }
    }

    /// Only single pages, as Linux 6.1.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        // SAFETY: as above.
        if order.0 == 0 && unsafe { fw_linux_migrate(from.0, to.0) } { Ok(()) } else { Err(Busy) }
    }
}

//! Threads of a process as the allocator's CPUs.
//!
//! Words are the standard library's atomics. A *CPU* is a slot that one thread holds at a time: pinning takes the slot that the
//! thread held last if it is free, else another, else waits for one. So any number of threads may allocate, as many at a
//! time as there are slots; with at least as many slots as threads nobody waits.
//!
//! The asymmetric fence is Linux's `membarrier`, where it is allowed; otherwise both sides pass a full fence.

use std::cell::RefCell;
use std::sync::atomic::{self, AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use framewright::machine::{Machine, Pinned};
use framewright::pfn::{CpuId, NodeId};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::words::NativeWord;

/// The threads of this process; see the module's description.
#[derive(Debug)]
pub struct Native {
    /// Tells machines apart in what a thread remembers.
    id: usize,
    nodes: Vec<NodeId>,
    taken: Vec<AtomicBool>,
    /// The kernel can make every thread of the process pass a fence, so that the other side of it costs nothing.
    asymmetric: bool,
}

impl Native {
    /// One CPU slot for each entry of `cpus`, on that node: the same list that the configuration has.
    pub fn new(cpus: &[NodeId]) -> Native {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Native {
            id: NEXT.fetch_add(1, atomic::Ordering::Relaxed),
            nodes: cpus.to_vec(),
            taken: cpus.iter().map(|_| AtomicBool::new(false)).collect(),
            asymmetric: membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok(),
        }
    }

    /// Takes any slot, `first` if possible.
    fn take_slot(&self, first: usize) -> usize {
        let count = self.taken.len().max(1);
        let mut looks = 0_usize;
        loop {
            let slot = (first + looks) % count;
            if self.taken.get(slot).is_none_or(|taken| !taken.swap(true, atomic::Ordering::Acquire)) {
                return slot;
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(count) {
                std::thread::yield_now();
            }
        }
    }
}

/// A slot that this thread holds, or held last.
struct Lease {
    machine: usize,
    slot: usize,
    depth: usize,
}

thread_local! {
    static LEASES: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
}

/// The thread has one of the machine's CPU slots to itself.
pub struct NativePin<'a> {
    machine: &'a Native,
    slot: usize,
}

impl Pinned for NativePin<'_> {
    fn cpu(&self) -> CpuId {
        CpuId(self.slot as u16)
    }

    fn node(&self) -> NodeId {
        self.machine.nodes.get(self.slot).copied().unwrap_or_default()
    }
}

impl Drop for NativePin<'_> {
    fn drop(&mut self) {
        LEASES.with_borrow_mut(|leases| {
            if let Some(lease) = leases.iter_mut().find(|lease| lease.machine == self.machine.id) {
                lease.depth -= 1;
                if lease.depth == 0
                    && let Some(taken) = self.machine.taken.get(self.slot)
                {
                    taken.store(false, atomic::Ordering::Release);
                }
            }
        });
    }
}

/// Nothing interrupts a thread but signal handlers, which must not call the allocator.
pub struct NativeIrq;

impl Machine for Native {
    type U8 = NativeWord<AtomicU8>;
    type U16 = NativeWord<AtomicU16>;
    type U32 = NativeWord<AtomicU32>;
    type U64 = NativeWord<AtomicU64>;
    type Usize = NativeWord<AtomicUsize>;
    type Pin<'a> = NativePin<'a>;
    type Irq<'a> = NativeIrq;

    fn pin(&self) -> NativePin<'_> {
        let slot = LEASES.with_borrow_mut(|leases| {
            if let Some(lease) = leases.iter_mut().find(|lease| lease.machine == self.id) {
                if lease.depth == 0 {
                    lease.slot = self.take_slot(lease.slot);
                }
                lease.depth += 1;
                return lease.slot;
            }
            let slot = self.take_slot(0);
            leases.push(Lease { machine: self.id, slot, depth: 1 });
            slot
        });
        NativePin { machine: self, slot }
    }

    fn irq_save(&self) -> NativeIrq {
        NativeIrq
    }

    fn fence(&self) {
        atomic::fence(atomic::Ordering::SeqCst);
    }

    fn light_fence(&self) {
        if self.asymmetric {
            atomic::compiler_fence(atomic::Ordering::SeqCst);
        } else {
            atomic::fence(atomic::Ordering::SeqCst);
        }
    }

    fn heavy_fence(&self) {
        atomic::fence(atomic::Ordering::SeqCst);
        if self.asymmetric && membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            // A forked child has to register for itself.
            let _ = membarrier(MembarrierCommand::RegisterPrivateExpedited);
            let _ = membarrier(MembarrierCommand::PrivateExpedited);
        }
    }

    fn relax(&self) {
        std::hint::spin_loop();
    }

    fn now(&self) -> u64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }

    fn sleep_until(&self, _: framewright::machine::Waiter, deadline: u64) {
        let left = deadline.saturating_sub(self.now()).min(1_000_000_000);
        std::thread::sleep(std::time::Duration::from_nanos(left));
    }
}

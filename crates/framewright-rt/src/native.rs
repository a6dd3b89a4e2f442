//! Threads of a process as the allocator's CPUs.
//!
//! Words are the standard library's atomics. How a thread comes to a CPU is the matter of [`crate::cpus`]; which way is
//! taken is decided when a machine is made ([`Native::new`]) and costs a predicted branch.
//!
//! The asymmetric fence is Linux's `membarrier`, where it is allowed; otherwise both sides pass a full fence.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use framewright::machine::{Machine, Pinned};
use framewright::pfn::{CpuId, NodeId};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::cpus::{CpuMode, Cpus, Place, Slot, lease};
use crate::words::NativeWord;

/// The threads of this process; see the module's description.
#[derive(Debug)]
pub struct Native {
    /// The same as that of `cpus`, within reach.
    id: u64,
    /// The kernel can make every thread of the process pass a fence, so that the other side of it costs nothing.
    asymmetric: bool,
    cpus: Arc<Cpus>,
}

impl Native {
    /// One CPU for each entry of `cpus`, on that node: the same list that the configuration has. A thread leases one at its
    /// first pin and keeps it until it exits. The last CPU is leased to nobody: it is shared by the threads that
    /// find no other, and they wait for each other there. So there should be one CPU more than busy threads.
    pub fn new(cpus: &[NodeId]) -> Native {
        Native::with(Cpus::new(cpus, 1), membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
    }

    fn with(cpus: Cpus, asymmetric: bool) -> Native {
        Native { id: cpus.id, asymmetric, cpus: Arc::new(cpus) }
    }

    /// The same with full fences on both sides, as where `membarrier` is denied: slower, and on every operation. Only for a machine
    /// that nobody uses yet.
    #[must_use]
    pub fn with_full_fences(self) -> Native {
        Native { asymmetric: false, ..self }
    }

    /// Whether the fast side of the asymmetric fence is free, by `membarrier`.
    pub fn has_light_fence(&self) -> bool {
        self.asymmetric
    }

    /// How threads come to their CPUs.
    pub fn mode(&self) -> CpuMode {
        CpuMode::Lease
    }

    /// The node of each CPU: what the allocator's configuration must say too.
    pub fn nodes(&self) -> &[NodeId] {
        self.cpus.nodes()
    }

    /// Ends the calling thread's lease now instead of at its exit, and lets another thread have the CPU with what is cached
    /// there. Says whether it had one. The thread's next pin leases again.
    ///
    /// # Safety
    /// The thread has no pin of this machine: it is not in a call of the allocator (in one of its callbacks, say), and has
    /// nothing that keeps it on a CPU.
    pub unsafe fn give_up_lease(&self) -> bool {
        lease::give_up(&self.cpus)
    }

    #[cold]
    #[inline(never)]
    fn pin_otherwise(&self) -> NativePin<'_> {
        if self.cpus.refuses() {
            return NativePin::new(Place::NOWHERE, None);
        }
        match lease::enter(&self.cpus) {
            Some(place) => NativePin::new(place, None),
            None => self.share(lease::mark()),
        }
    }

    fn share(&self, me: usize) -> NativePin<'_> {
        match self.cpus.share(me) {
            Some((place, slot)) => NativePin::new(place, Some(slot)),
            None => NativePin::new(Place::NOWHERE, None),
        }
    }
}

/// The thread has one of the machine's CPUs to itself. Must stay in its thread.
pub struct NativePin<'a> {
    place: Place,
    /// To be left; none if the thread keeps it anyway.
    slot: Option<&'a Slot>,
    thread: PhantomData<*const ()>,
}

impl<'a> NativePin<'a> {
    #[inline]
    fn new(place: Place, slot: Option<&'a Slot>) -> NativePin<'a> {
        NativePin { place, slot, thread: PhantomData }
    }
}

impl Pinned for NativePin<'_> {
    #[inline]
    fn cpu(&self) -> CpuId {
        self.place.cpu
    }

    #[inline]
    fn node(&self) -> NodeId {
        self.place.node
    }
}

impl Drop for NativePin<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.leave();
        }
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

    #[inline]
    fn pin(&self) -> NativePin<'_> {
        match lease::current(self.id) {
            Some(place) => NativePin::new(place, None),
            None => self.pin_otherwise(),
        }
    }

    #[inline]
    fn irq_save(&self) -> NativeIrq {
        NativeIrq
    }

    #[inline]
    fn fence(&self) {
        atomic::fence(atomic::Ordering::SeqCst);
    }

    #[inline]
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

    #[inline]
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

//! A machine as a kernel's on x86-64 is: what a call of the allocator costs there, without a kernel.
//!
//! A pin turns preemption off and reads the CPU number, each by one instruction (`gs_area.rs`). Its end turns
//! preemption on and asks whether a reschedule is due. Words are core's atomics. Interrupts have a CPU of their own:
//! the code that enters an interrupt writes that CPU's number to the area, so a pin needs no test. The light fence is
//! one for the compiler. A kernel sends an interrupt to the other CPUs for the heavy one; here there is no other CPU.
//!
//! This file and the calls that are counted (`counted.rs`) use core alone, as code in a kernel does.
//!
//! Rejected: to reuse `framewright_rt`'s words. Their waiting loop yields to the scheduler of a process.

use core::marker::PhantomData;
use core::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use framewright::machine::{Busy, Machine, NoPerCpu, Operation, Ordering, Patience, PerCpu, Pinned, Word};
use framewright::units::{CpuId, NodeId};

use crate::instructions::gs_area::GsArea;

/// A word in memory that all CPUs share.
#[repr(transparent)]
pub(crate) struct KernelWord<A>(A);

const fn load_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Release => atomic::Ordering::Relaxed,
        Ordering::Acquire | Ordering::AcqRel => atomic::Ordering::Acquire,
    }
}

const fn store_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Acquire => atomic::Ordering::Relaxed,
        Ordering::Release | Ordering::AcqRel => atomic::Ordering::Release,
    }
}

const fn rmw_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed => atomic::Ordering::Relaxed,
        Ordering::Acquire => atomic::Ordering::Acquire,
        Ordering::Release => atomic::Ordering::Release,
        Ordering::AcqRel => atomic::Ordering::AcqRel,
    }
}

macro_rules! kernel_words {
    ($($int:ty => $atomic:ty),+) => { $(
        impl Word<$int> for KernelWord<$atomic> {
            #[inline]
            fn new(value: $int) -> Self {
                KernelWord(<$atomic>::new(value))
            }

            #[inline]
            fn load(&self, order: Ordering) -> $int {
                self.0.load(load_order(order))
            }

            #[inline]
            fn store(&self, value: $int, order: Ordering) {
                self.0.store(value, store_order(order));
            }

            #[inline]
            fn swap(&self, value: $int, order: Ordering) -> $int {
                self.0.swap(value, rmw_order(order))
            }

            #[inline]
            fn cas(&self, current: $int, new: $int, order: Ordering) -> Result<$int, $int> {
                self.0.compare_exchange(current, new, rmw_order(order), load_order(order))
            }

            #[inline]
            fn add(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_add(value, rmw_order(order))
            }

            fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
                let mut looks = 0_u32;
                loop {
                    let value = self.0.load(atomic::Ordering::Acquire);
                    if !waiting(value) {
                        return Ok(value);
                    }
                    looks = looks.saturating_add(1);
                    if matches!(patience, Patience::Tries(tries) if looks >= tries) {
                        return Err(Busy);
                    }
                    core::hint::spin_loop();
                }
            }
        }
    )+ };
}

kernel_words!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64, usize => AtomicUsize);

/// The nodes of the CPU and of its interrupts.
pub(crate) const NODES: [NodeId; 2] = [NodeId(0); 2];

/// Whether a kernel's machine keeps a value for each CPU.
pub(crate) trait Keeping: Sized {
    /// The values.
    type Values<T>: PerCpu<T, KernelMachine<Self>>;
}

/// It does: plain calls find the value.
pub(crate) struct Keeps;

impl Keeping for Keeps {
    type Values<T> = KernelValues<T>;
}

/// It does not: callers keep handles.
pub(crate) struct KeepsNone;

impl Keeping for KeepsNone {
    type Values<T> = NoPerCpu;
}

/// One CPU with a preemption counter; a second CPU is that of its interrupts.
pub(crate) struct KernelMachine<K>(GsArea, PhantomData<K>);

impl<K> KernelMachine<K> {
    /// Makes the calling thread the CPU, once in the life of the process.
    pub(crate) fn take() -> Option<Self> {
        GsArea::take().map(|own| KernelMachine(own, PhantomData))
    }
}

/// Guard: preemption is off.
pub(crate) struct KernelPin {
    cpu: CpuId,
    own: GsArea,
}

impl Pinned for KernelPin {
    #[inline]
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    #[inline]
    fn node(&self) -> NodeId {
        NodeId(self.own.node() as u8)
    }
}

impl Drop for KernelPin {
    #[inline]
    fn drop(&mut self) {
        self.own.enable_preemption();
    }
}

/// A value for the CPU and one for its interrupts, found by the number.
pub(crate) struct KernelValues<T> {
    values: [Option<T>; NODES.len()],
    own: GsArea,
}

impl<T, K> PerCpu<T, KernelMachine<K>> for KernelValues<T> {
    fn new(machine: &KernelMachine<K>, cpus: usize, mut make: impl FnMut(CpuId) -> Option<T>) -> Self {
        let make = |cpu: usize| if cpu < cpus { make(CpuId(cpu as u16)) } else { None };
        KernelValues { values: core::array::from_fn(make), own: machine.0 }
    }

    #[inline(always)]
    fn with<O: Operation<T>>(&self, operation: O) -> Option<O::Output> {
        self.own.disable_preemption();
        let value = self.values.get(self.own.cpu() as usize).and_then(Option::as_ref);
        // Each way out has an end of the pin of its own: the result is not kept across it.
        match value.and_then(|value| operation.run(value)) {
            Some(result) => {
                self.own.enable_preemption();
                Some(result)
            }
            None => {
                self.own.enable_preemption();
                None
            }
        }
    }
}

/// Guard: interrupts are off, as far as a process can have that.
pub(crate) struct KernelIrq(GsArea);

impl Drop for KernelIrq {
    #[inline]
    fn drop(&mut self) {
        self.0.enable_interrupts();
    }
}

impl<K: Keeping> Machine for KernelMachine<K> {
    type U8 = KernelWord<AtomicU8>;
    type U16 = KernelWord<AtomicU16>;
    type U32 = KernelWord<AtomicU32>;
    type U64 = KernelWord<AtomicU64>;
    type Usize = KernelWord<AtomicUsize>;
    type Pin<'a>
        = KernelPin
    where
        Self: 'a;
    type Irq<'a>
        = KernelIrq
    where
        Self: 'a;
    type PerCpu<T> = K::Values<T>;

    #[inline]
    fn pin(&self) -> KernelPin {
        self.0.disable_preemption();
        KernelPin { cpu: CpuId(self.0.cpu() as u16), own: self.0 }
    }

    fn near(&self) -> NodeId {
        NodeId(self.0.node() as u8)
    }

    #[inline]
    fn irq_save(&self) -> KernelIrq {
        self.0.disable_interrupts();
        KernelIrq(self.0)
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    #[inline]
    fn fence(&self) {
        atomic::fence(atomic::Ordering::SeqCst);
    }

    #[inline]
    fn light_fence(&self) {
        atomic::compiler_fence(atomic::Ordering::SeqCst);
    }

    fn may_fence(&self) -> bool {
        self.0.has_interrupts_on()
    }

    #[inline]
    fn relax(&self) {
        core::hint::spin_loop();
    }

    #[inline(always)]
    fn prefetch(&self, word: &Self::U64) {
        self.0.prefetch(word);
    }
}

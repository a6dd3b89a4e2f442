//! A machine as a kernel's on x86-64 is: what a call of the allocator costs there, without a kernel.
//!
//! A pin turns preemption off and reads the CPU number, each by one instruction (`gs_area.rs`). Its end turns
//! preemption on and asks whether a reschedule is due. Words are core's atomics. Interrupts have a CPU of their own:
//! the code that enters an interrupt writes that CPU's number to the area, so a pin needs no test. The light fence is
//! one for the compiler. A kernel sends an interrupt to the other CPUs for the heavy one; here there is no other CPU.
//!
//! There are two machines. [`KernelMachine`] is written by hand, and keeps a value for each CPU or none. [`GsKernel`]
//! is the functions of a kernel that takes the rest from `framewright-kernel`. Both have `%gs`'s instructions to give.
//!
//! This file and the calls that are counted (`counted.rs`) use core alone, as code in a kernel does.
//!
//! Rejected: to reuse `framewright_rt`'s words. Their waiting loop yields to the scheduler of a process.

use core::marker::PhantomData;
use core::sync::atomic;

use framewright::machine::{Machine, NoPerCpu, Operation, PerCpu, Pinned};
use framewright::units::{CpuId, NodeId};
use framewright_kernel::{Context, Contexts, Fences, Kernel, U8, U16, U32, U64, Usize};

use crate::instructions::gs_area::GsArea;

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
    type U8 = U8;
    type U16 = U16;
    type U32 = U32;
    type U64 = U64;
    type Usize = Usize;
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

/// A kernel with the kit: the functions that it writes.
pub(crate) struct GsKernel(GsArea);

impl GsKernel {
    /// Makes the calling thread the CPU, once in the life of the process.
    pub(crate) fn take() -> Option<&'static GsKernel> {
        GsArea::take().map(|own| &*Box::leak(Box::new(GsKernel(own))))
    }
}

// SAFETY: it is made once in the life of a process, and its maker calls it on the thread that it was made on.
#[allow(unsafe_code, reason = "a token of one thread, in a machine of one CPU")]
unsafe impl Sync for GsKernel {}

// SAFETY: the thread is the one CPU, and nothing interrupts it. The number in `%gs` is that of the CPU and its context.
#[allow(unsafe_code, reason = "as above")]
unsafe impl Kernel for GsKernel {
    const CONTEXTS: Contexts = Contexts::Interrupts;
    /// There is no other CPU to interrupt.
    const FENCES: Fences<Self> =
        Fences::Interrupts { fence_others: |_| (), interrupts_on: |kernel| kernel.0.has_interrupts_on() };

    #[inline(always)]
    fn pin(&self) {
        self.0.disable_preemption();
    }

    #[inline(always)]
    fn unpin(&self) {
        self.0.enable_preemption();
    }

    #[inline(always)]
    fn irq_save(&self) -> usize {
        self.0.disable_interrupts();
        0
    }

    #[inline(always)]
    fn irq_restore(&self, _: usize) {
        self.0.enable_interrupts();
    }

    #[inline(always)]
    fn cpu(&self) -> usize {
        self.0.cpu() as usize
    }

    /// Nothing interrupts this process.
    #[inline(always)]
    fn context(&self) -> Context {
        Context::Task
    }

    #[inline(always)]
    fn record(&self, _: usize) -> Option<usize> {
        Some(self.cpu())
    }

    #[inline(always)]
    fn prefetch(&self, word: *const u8) {
        self.0.prefetch(word);
    }
}

//! From a kernel's functions to the core's seam.
//!
//! Each method of the machine is a call of one function of the kernel. The constants of [`Kernel`] choose between them
//! when the kernel is compiled, so that nothing is left of the choice.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{Ordering, compiler_fence, fence};

use framewright::event::Event;
use framewright::machine::{Busy, FreeChange, Machine, Need, Operation, PerCpu, Pinned, Reclaimed, Waiter};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneIdx};
use framewright::{Features, Mechanisms};

use crate::kernel::{Context, Contexts, Fences, Kernel};
use crate::memory::{PerCpuValues, Room};
use crate::words::{U8, U16, U32, U64, Usize};

/// The machine of a kernel.
pub struct KernelMachine<K: Kernel> {
    pub(crate) kernel: &'static K,
    /// The node of each CPU.
    pub(crate) nodes: &'static [NodeId],
    pub(crate) room: Room,
}

impl<K: Kernel> KernelMachine<K> {
    /// Returns the kernel.
    pub const fn kernel(&self) -> &'static K {
        self.kernel
    }

    /// Returns the guard of a pin that the caller made and will end itself; the guard does not end it.
    ///
    /// For a kernel that turns preemption off and computes its record where that costs less than calls of
    /// [`Kernel::pin`] and [`Kernel::record`], such as inline in another language.
    ///
    /// # Safety
    /// While the guard lives, the caller is pinned as after [`Kernel::pin`], and [`Kernel::record`], with this
    /// machine's number of CPUs, would return `record`. [`CpuId::NONE`] stands for none.
    #[expect(unsafe_code, reason = "without the caller's promise, two contexts could use one CPU's lists")]
    #[inline(always)]
    pub unsafe fn pinned_at(&self, record: CpuId) -> impl Deref<Target = PinGuard<'_, K>> {
        ManuallyDrop::new(PinGuard { machine: self, cpu: record, saved: 0, stays: PhantomData })
    }
}

/// Turns interrupts off, and returns what [`irq_restore`] needs.
///
/// The compiler moves no access across it: a kernel may hold interrupts off by a plain flag.
#[inline(always)]
fn irq_save<K: Kernel>(kernel: &K) -> usize {
    let saved = kernel.irq_save();
    compiler_fence(Ordering::SeqCst);
    saved
}

#[inline(always)]
fn irq_restore<K: Kernel>(kernel: &K, saved: usize) {
    compiler_fence(Ordering::SeqCst);
    kernel.irq_restore(saved);
}

/// Pins, and returns what [`unpin`] needs.
///
/// The compiler moves no access across it: a kernel's `pin` may be a plain increment.
#[inline(always)]
fn pin<K: Kernel>(kernel: &K) -> usize {
    if matches!(K::CONTEXTS, Contexts::InterruptsOff) {
        return irq_save(kernel);
    }
    kernel.pin();
    compiler_fence(Ordering::SeqCst);
    0
}

#[inline(always)]
fn unpin<K: Kernel>(kernel: &K, saved: usize) {
    if matches!(K::CONTEXTS, Contexts::InterruptsOff) {
        return irq_restore(kernel, saved);
    }
    compiler_fence(Ordering::SeqCst);
    kernel.unpin();
}

/// Guard: the caller stays on its CPU. It cannot be sent to another task.
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// fn test<K: framewright_kernel::Kernel>() { sent::<framewright_kernel::PinGuard<'static, K>>() }
/// ```
pub struct PinGuard<'m, K: Kernel> {
    machine: &'m KernelMachine<K>,
    cpu: CpuId,
    saved: usize,
    stays: PhantomData<*const ()>,
}

impl<K: Kernel> Pinned for PinGuard<'_, K> {
    #[inline]
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn node(&self) -> NodeId {
        self.machine.near()
    }
}

impl<K: Kernel> Drop for PinGuard<'_, K> {
    #[inline]
    fn drop(&mut self) {
        unpin(self.machine.kernel, self.saved);
    }
}

/// Guard: interrupts of this CPU are off. It cannot be sent to another task.
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// fn test<K: framewright_kernel::Kernel>() { sent::<framewright_kernel::IrqGuard<K>>() }
/// ```
pub struct IrqGuard<K: Kernel> {
    kernel: &'static K,
    saved: usize,
    stays: PhantomData<*const ()>,
}

impl<K: Kernel> Drop for IrqGuard<K> {
    #[inline]
    fn drop(&mut self) {
        irq_restore(self.kernel, self.saved);
    }
}

impl<T, K: Kernel> PerCpu<T, KernelMachine<K>> for PerCpuValues<T, K> {
    fn new(machine: &KernelMachine<K>, records: usize, make: impl FnMut(CpuId) -> Option<T>) -> Self {
        PerCpuValues::in_room(&machine.room, machine.kernel, machine.nodes.len(), records, make)
    }

    #[inline(always)]
    fn with<O: Operation<T>>(&self, operation: O) -> Option<O::Output> {
        let saved = pin(self.kernel);
        let value = self.kernel.record(self.cpus).and_then(|record| self.get(record));
        // Each way out has an end of the pin of its own: the result is not kept across it.
        match value.and_then(|value| operation.run(value)) {
            Some(result) => {
                unpin(self.kernel, saved);
                Some(result)
            }
            None => {
                unpin(self.kernel, saved);
                None
            }
        }
    }
}

impl<K: Kernel> Machine for KernelMachine<K> {
    type U8 = U8;
    type U16 = U16;
    type U32 = U32;
    type U64 = U64;
    type Usize = Usize;
    type Pin<'a>
        = PinGuard<'a, K>
    where
        Self: 'a;
    type Irq<'a>
        = IrqGuard<K>
    where
        Self: 'a;
    type PerCpu<T> = PerCpuValues<T, K>;

    const MECHANISMS: Option<Mechanisms> = K::MECHANISMS;
    const FEATURES: Features = K::FEATURES;

    #[inline]
    fn pin(&self) -> PinGuard<'_, K> {
        let saved = pin(self.kernel);
        let record = self.kernel.record(self.nodes.len()).and_then(|record| u16::try_from(record).ok());
        PinGuard { machine: self, cpu: record.map_or(CpuId::NONE, CpuId), saved, stays: PhantomData }
    }

    /// Another machine may number its records in another way, or be of another kernel.
    #[inline(always)]
    fn with_pinned<T, O>(&self, values: &PerCpuValues<T, K>, pin: &Self::Pin<'_>, operation: O) -> Option<O::Output>
    where
        O: Operation<T>,
    {
        if !core::ptr::eq(pin.machine, self) {
            return None;
        }
        values.get(pin.cpu.index()).and_then(|value| operation.run(value))
    }

    fn near(&self) -> NodeId {
        self.nodes.get(self.kernel.cpu()).copied().unwrap_or(NodeId(0))
    }

    #[inline]
    fn irq_save(&self) -> IrqGuard<K> {
        IrqGuard { kernel: self.kernel, saved: irq_save(self.kernel), stays: PhantomData }
    }

    /// They have lists of their own, are held off, or are refused ([`Contexts`]).
    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    #[inline]
    fn in_interrupt(&self) -> bool {
        self.kernel.context() != Context::Task
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn light_fence(&self) {
        match K::FENCES {
            Fences::Full => fence(Ordering::SeqCst),
            Fences::OneCpu | Fences::Interrupts { .. } => compiler_fence(Ordering::SeqCst),
        }
    }

    fn heavy_fence(&self) {
        fence(Ordering::SeqCst);
        if let Fences::Interrupts { fence_others, .. } = K::FENCES {
            fence_others(self.kernel);
        }
    }

    fn may_fence(&self) -> bool {
        match K::FENCES {
            Fences::Interrupts { interrupts_on, .. } => interrupts_on(self.kernel),
            Fences::Full | Fences::OneCpu => true,
        }
    }

    fn relax(&self) {
        self.kernel.relax();
    }

    fn now(&self) -> u64 {
        self.kernel.now()
    }

    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        self.kernel.sleep_until(waiter, deadline);
    }

    fn wake(&self, waiter: Waiter) {
        self.kernel.wake(waiter);
    }

    #[inline(always)]
    fn prefetch(&self, word: &U64) {
        self.kernel.prefetch(core::ptr::from_ref(word).cast());
    }

    fn zero(&self, pfn: Pfn, order: Order) {
        self.kernel.zero(pfn, order);
    }

    fn poison(&self, pfn: Pfn, order: Order) {
        self.kernel.poison(pfn, order);
    }

    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        self.kernel.is_poisoned(pfn, order)
    }

    fn starts_zeroed(&self) -> bool {
        self.kernel.starts_zeroed()
    }

    #[inline]
    fn traces(&self) -> bool {
        self.kernel.traces()
    }

    #[inline]
    fn traces_calls(&self) -> bool {
        self.kernel.traces_calls()
    }

    fn event(&self, event: &Event) {
        self.kernel.event(event);
    }

    #[inline]
    fn free_changed(&self, zone: ZoneIdx, change: FreeChange) {
        self.kernel.free_changed(zone, change);
    }

    #[inline]
    fn stored_changed(&self, zone: ZoneIdx, frames: i64) {
        self.kernel.stored_changed(zone, frames);
    }

    #[inline]
    fn retyped(&self, pfn: Pfn, migratetype: MigrateType) {
        self.kernel.retyped(pfn, migratetype);
    }

    fn reclaim(&self, need: &Need) -> Reclaimed {
        self.kernel.reclaim(need)
    }

    fn migrates(&self) -> bool {
        self.kernel.migrates()
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        self.kernel.migrate(from, to, order)
    }
}

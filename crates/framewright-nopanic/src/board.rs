//! A machine about which the compiler knows nothing.
//!
//! The words are plain atomics (`words.rs`). Everything else comes from a [`Board`] in foreign memory: the CPU, the
//! time, the results of callbacks, and injected faults. So no branch of the core can be folded away. The machine is
//! never run. It only has to be compiled like that of a kernel.

use core::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use framewright::Features;
use framewright::event::Event;
use framewright::machine::{
    Busy, Fault, FreeChange, LockEvent, LockName, Machine, Need, NoPerCpu, Pinned, Reclaimed, Step, Waiter,
};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneIdx};

use framewright_kernel::{U8, U16, U32, U64, Usize};

/// The machine: its answers to the core's questions.
pub struct Board {
    cpu: AtomicU16,
    node: AtomicU8,
    in_interrupt: AtomicU8,
    now: AtomicU64,
    traces: AtomicU8,
    fault: AtomicU32,
    reclaimed: AtomicU64,
    migrates: AtomicU8,
    seen: extern "C" fn(*const ()),
}

/// A pinned CPU.
pub struct Pin {
    cpu: CpuId,
    node: NodeId,
}

impl Pinned for Pin {
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn node(&self) -> NodeId {
        self.node
    }
}

/// Interrupts held off. Both ends make a call, as in a kernel.
pub struct Irq<'a>(&'a Board);

impl Drop for Irq<'_> {
    fn drop(&mut self) {
        self.0.tell(self);
    }
}

impl Board {
    /// Passes `what` to foreign code, so that it must exist at this point.
    fn tell<T>(&self, what: &T) {
        (self.seen)(core::ptr::from_ref(what).cast());
    }
}

impl Machine for Board {
    type U8 = U8;
    type U16 = U16;
    type U32 = U32;
    type U64 = U64;
    type Usize = Usize;
    type Pin<'a> = Pin;
    type Irq<'a> = Irq<'a>;
    type PerCpu<T> = NoPerCpu;

    // All code of the core, so that all of it is shown not to panic.
    const FEATURES: Features = Features { shortage: true, ..Features::ALL };

    fn pin(&self) -> Pin {
        let (cpu, node) = (self.cpu.load(atomic::Ordering::Relaxed), self.node.load(atomic::Ordering::Relaxed));
        Pin { cpu: CpuId(cpu), node: NodeId(node) }
    }

    fn irq_save(&self) -> Irq<'_> {
        self.tell(self);
        Irq(self)
    }

    fn keeps_interrupts_apart(&self) -> bool {
        !self.in_interrupt()
    }

    fn in_interrupt(&self) -> bool {
        self.in_interrupt.load(atomic::Ordering::Relaxed) != 0
    }

    fn fence(&self) {
        atomic::fence(atomic::Ordering::SeqCst);
    }

    fn relax(&self) {
        core::hint::spin_loop();
    }

    fn now(&self) -> u64 {
        self.now.load(atomic::Ordering::Relaxed)
    }

    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        self.tell(&(waiter, deadline));
    }

    fn wake(&self, waiter: Waiter) {
        self.tell(&waiter);
    }

    fn step(&self, step: Step) {
        self.tell(&step);
    }

    fn lock(&self, lock: LockName, event: LockEvent) {
        self.tell(&(lock, event));
    }

    fn prefetch(&self, word: &U64) {
        self.tell(word);
    }

    fn zero(&self, pfn: Pfn, order: Order) {
        self.tell(&(pfn, order));
    }

    fn traces(&self) -> bool {
        self.traces.load(atomic::Ordering::Relaxed) != 0
    }

    fn event(&self, event: &Event) {
        self.tell(event);
    }

    fn free_changed(&self, zone: ZoneIdx, change: FreeChange) {
        self.tell(&(zone, change));
    }

    fn retyped(&self, pfn: Pfn, migratetype: MigrateType) {
        self.tell(&(pfn, migratetype));
    }

    fn reclaim(&self, need: &Need) -> Reclaimed {
        self.tell(need);
        Reclaimed { frames: self.reclaimed.load(atomic::Ordering::Relaxed) }
    }

    fn migrates(&self) -> bool {
        self.migrates.load(atomic::Ordering::Relaxed) != 0
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        self.tell(&(from, to, order));
        if self.migrates.load(atomic::Ordering::Relaxed) != 0 { Ok(()) } else { Err(Busy) }
    }

    fn fault(&self, point: Fault) -> bool {
        self.fault.load(atomic::Ordering::Relaxed) & (1 << (point as u32 & 31)) != 0
    }
}

//! A machine about which the compiler knows nothing.
//!
//! The words are plain atomics. Everything else comes from a [`Board`] in foreign memory: the CPU, the time, the
//! results of callbacks, and injected faults. So no branch of the core can be folded away. The machine is never run.
//! It only has to be compiled like that of a kernel.

use core::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use framewright::event::Event;
use framewright::machine::{
    Busy, Fault, LockEvent, LockName, Machine, Need, NoPerCpu, Ordering, Patience, Pinned, Reclaimed, Step, Waiter,
    Word,
};
use framewright::units::{CpuId, NodeId, Order, Pfn};

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

/// The ordering for a load.
///
/// The standard atomics panic on an ordering that a load cannot have; the core's words ignore it.
const fn for_load(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Release => atomic::Ordering::Relaxed,
        Ordering::Acquire | Ordering::AcqRel => atomic::Ordering::Acquire,
    }
}

/// The ordering for a store.
const fn for_store(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Acquire => atomic::Ordering::Relaxed,
        Ordering::Release | Ordering::AcqRel => atomic::Ordering::Release,
    }
}

/// The ordering for a read-modify-write.
const fn for_both(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed => atomic::Ordering::Relaxed,
        Ordering::Acquire => atomic::Ordering::Acquire,
        Ordering::Release => atomic::Ordering::Release,
        Ordering::AcqRel => atomic::Ordering::AcqRel,
    }
}

macro_rules! words {
    ($( $name:ident($atomic:ident) of $integer:ident; )*) => { $(
        #[doc = concat!("A shared `", stringify!($integer), "`.")]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl Word<$integer> for $name {
            fn new(value: $integer) -> Self {
                $name($atomic::new(value))
            }

            fn load(&self, order: Ordering) -> $integer {
                self.0.load(for_load(order))
            }

            fn store(&self, value: $integer, order: Ordering) {
                self.0.store(value, for_store(order));
            }

            fn swap(&self, value: $integer, order: Ordering) -> $integer {
                self.0.swap(value, for_both(order))
            }

            fn cas(&self, current: $integer, new: $integer, order: Ordering) -> Result<$integer, $integer> {
                self.0.compare_exchange(current, new, for_both(order), for_load(order))
            }

            fn add(&self, value: $integer, order: Ordering) -> $integer {
                self.0.fetch_add(value, for_both(order))
            }

            fn wait_while(
                &self,
                patience: Patience,
                mut waiting: impl FnMut($integer) -> bool,
            ) -> Result<$integer, Busy> {
                let mut tries = 0;
                loop {
                    let value = self.0.load(atomic::Ordering::Acquire);
                    if !waiting(value) {
                        return Ok(value);
                    }
                    if patience == Patience::Tries(tries) {
                        return Err(Busy);
                    }
                    tries = tries.wrapping_add(1);
                    core::hint::spin_loop();
                }
            }
        }
    )* };
}

words! {
    U8(AtomicU8) of u8;
    U16(AtomicU16) of u16;
    U32(AtomicU32) of u32;
    U64(AtomicU64) of u64;
    Usize(AtomicUsize) of usize;
}

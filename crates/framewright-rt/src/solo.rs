//! One thread that plays every CPU.
//!
//! Words are plain cells, so that nothing is paid for atomicity. The caller sets the CPU it plays ([`Solo::run_on`]).
//! Time stands still unless it is set. Hooks handle the rest: a sink takes events, callbacks reclaim and migrate, and a
//! plan injects faults. Runs are deterministic.
//!
//! A hook that panics unwinds through the core to the caller. A test's assertion must not count as a refusal, unlike in
//! [`crate::Native`]. The core undoes the interrupted call, but blocks that a bulk call had already handed out are the
//! caller's to find.

use std::cell::{Cell, RefCell};

use framewright::event::Event;
use framewright::machine::{Busy, Fault, Machine, Need, NoPerCpu, Ordering, Patience, Pinned, Reclaimed, Waiter, Word};
use framewright::units::{CpuId, NodeId, Order, Pfn};

use crate::prefetch;

/// A word of one thread.
#[repr(transparent)]
pub struct SoloWord<T>(Cell<T>);

macro_rules! solo_words {
    ($($int:ty),+) => { $(
        impl Word<$int> for SoloWord<$int> {
            fn new(value: $int) -> Self {
                SoloWord(Cell::new(value))
            }

            #[inline]
            fn load(&self, _: Ordering) -> $int {
                self.0.get()
            }

            #[inline]
            fn store(&self, value: $int, _: Ordering) {
                self.0.set(value);
            }

            #[inline]
            fn swap(&self, value: $int, _: Ordering) -> $int {
                self.0.replace(value)
            }

            #[inline]
            fn cas(&self, current: $int, new: $int, _: Ordering) -> Result<$int, $int> {
                let now = self.0.get();
                if now == current {
                    self.0.set(new);
                    Ok(now)
                } else {
                    Err(now)
                }
            }

            #[inline]
            fn add(&self, value: $int, _: Ordering) -> $int {
                self.0.replace(self.0.get().wrapping_add(value))
            }

            /// Looks once: no other thread can end the wait.
            ///
            /// # Panics
            /// On a wait for a turn that cannot come, a deadlock of this one thread.
            fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
                let value = self.0.get();
                if !waiting(value) {
                    return Ok(value);
                }
                assert!(patience != Patience::Turn, "a thread waits for itself");
                Err(Busy)
            }
        }
    )+ };
}

solo_words!(u8, u16, u32, u64, usize);

type Sink<'h> = Box<dyn FnMut(&Event) + 'h>;
type FaultHandler<'h> = Box<dyn FnMut(Fault) -> bool + 'h>;
type Reclaim<'h> = Box<dyn FnMut(&Need) -> u64 + 'h>;
type Migrate<'h> = Box<dyn FnMut(Pfn, Pfn, Order) -> Result<(), Busy> + 'h>;

/// One thread that plays all CPUs of an allocator. `'h` is the lifetime of the hooks.
///
/// The caller sets the CPU that it plays ([`Solo::run_on`]). Time stands still unless it is set, and hooks do the rest.
/// So runs are deterministic. A hook that panics unwinds to the caller, unlike in [`crate::Native`].
#[derive(Default)]
pub struct Solo<'h> {
    nodes: Vec<NodeId>,
    cpu: Cell<CpuId>,
    now: Cell<u64>,
    traces: Cell<bool>,
    sink: RefCell<Option<Sink<'h>>>,
    reclaim: RefCell<Option<Reclaim<'h>>>,
    migrate: RefCell<Option<Migrate<'h>>>,
    faults: RefCell<Option<FaultHandler<'h>>>,
    woken: Cell<u64>,
}

impl<'h> Solo<'h> {
    /// Makes one CPU for each entry of `cpus`, on that node, as in the configuration.
    pub fn new(cpus: &[NodeId]) -> Solo<'h> {
        Solo { nodes: cpus.to_vec(), ..Solo::default() }
    }

    /// Calls from now on come from `cpu`.
    pub fn run_on(&self, cpu: CpuId) {
        self.cpu.set(cpu);
    }

    /// Sets the clock, in nanoseconds.
    pub fn set_now(&self, now: u64) {
        self.now.set(now);
    }

    /// Hands every event to `sink` from now on.
    pub fn on_event(&self, sink: impl FnMut(&Event) + 'h) {
        *self.sink.borrow_mut() = Some(Box::new(sink));
        self.traces.set(true);
    }

    /// Switches the tracepoints: while they are off, the sink hears of nothing.
    pub fn set_traces(&self, on: bool) {
        self.traces.set(on);
    }

    /// Lets `reclaim` free memory when it is short and say how many frames.
    pub fn on_reclaim(&self, reclaim: impl FnMut(&Need) -> u64 + 'h) {
        *self.reclaim.borrow_mut() = Some(Box::new(reclaim));
    }

    /// Lets `migrate` move blocks: from the first frame to the second ([`Machine::migrate`]).
    pub fn on_migrate(&self, migrate: impl FnMut(Pfn, Pfn, Order) -> Result<(), Busy> + 'h) {
        *self.migrate.borrow_mut() = Some(Box::new(migrate));
    }

    /// Forgets all that was hooked up, so that nothing refers to the hooks any more.
    pub fn unhook(&self) {
        self.sink.borrow_mut().take();
        self.reclaim.borrow_mut().take();
        self.migrate.borrow_mut().take();
        self.faults.borrow_mut().take();
        self.traces.set(false);
    }

    /// Asks `fault` at every fault point whether it shall fail.
    pub fn on_fault(&self, fault: impl FnMut(Fault) -> bool + 'h) {
        *self.faults.borrow_mut() = Some(Box::new(fault));
    }

    /// How often background work was woken.
    pub fn woken(&self) -> u64 {
        self.woken.get()
    }
}

/// Which CPU the thread plays.
pub struct SoloPin(CpuId, NodeId);

impl Pinned for SoloPin {
    fn cpu(&self) -> CpuId {
        self.0
    }

    fn node(&self) -> NodeId {
        self.1
    }
}

/// Nothing interrupts the one thread.
pub struct SoloIrq;

impl Machine for Solo<'_> {
    type U8 = SoloWord<u8>;
    type U16 = SoloWord<u16>;
    type U32 = SoloWord<u32>;
    type U64 = SoloWord<u64>;
    type Usize = SoloWord<usize>;
    type Pin<'a>
        = SoloPin
    where
        Self: 'a;
    type Irq<'a>
        = SoloIrq
    where
        Self: 'a;
    type PerCpu<T> = NoPerCpu;

    fn pin(&self) -> SoloPin {
        let cpu = self.cpu.get();
        SoloPin(cpu, self.nodes.get(cpu.index()).copied().unwrap_or_default())
    }

    fn near(&self) -> NodeId {
        self.pin().node()
    }

    fn irq_save(&self) -> SoloIrq {
        SoloIrq
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn fence(&self) {}

    fn may_fence(&self) -> bool {
        true
    }

    #[inline(always)]
    fn prefetch(&self, word: &Self::U64) {
        prefetch::for_writing(word);
    }

    fn now(&self) -> u64 {
        self.now.get()
    }

    /// Time passes at once.
    fn sleep_until(&self, _: Waiter, deadline: u64) {
        self.now.set(self.now.get().max(deadline));
    }

    fn wake(&self, _: Waiter) {
        self.woken.set(self.woken.get() + 1);
    }

    fn traces(&self) -> bool {
        self.traces.get()
    }

    fn event(&self, event: &Event) {
        // A sink that is in use, because it made the event itself, does not hear of it.
        if let Ok(mut sink) = self.sink.try_borrow_mut()
            && let Some(sink) = sink.as_mut()
        {
            sink(event);
        }
    }

    fn reclaim(&self, need: &Need) -> Reclaimed {
        let hook = self.reclaim.try_borrow_mut();
        Reclaimed { frames: hook.ok().and_then(|mut hook| hook.as_mut().map(|hook| hook(need))).unwrap_or(0) }
    }

    fn migrates(&self) -> bool {
        self.migrate.try_borrow().is_ok_and(|hook| hook.is_some())
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let hook = self.migrate.try_borrow_mut();
        hook.ok().and_then(|mut hook| hook.as_mut().map(|hook| hook(from, to, order))).unwrap_or(Err(Busy))
    }

    fn fault(&self, point: Fault) -> bool {
        let hook = self.faults.try_borrow_mut();
        hook.ok().and_then(|mut hook| hook.as_mut().map(|hook| hook(point))).unwrap_or(false)
    }
}

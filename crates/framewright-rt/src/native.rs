//! Threads of a process as the allocator's CPUs.
//!
//! Words are the standard library's atomics. [`crate::cpus`] describes the two ways from a thread to a CPU. The way is
//! chosen when a machine is made ([`Native::new`], [`Native::per_cpu`]) and costs a predicted branch.
//!
//! The asymmetric fence is Linux's `membarrier`, where it is allowed ([`crate::fences`]). Otherwise both sides pass a
//! full fence.
//!
//! # Why the unsafe code is right
//!
//! There is one unsafe function, [`Native::give_up_lease`]: no code can tell whether a pin of a leased CPU is alive, so
//! its caller promises that there is none.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use framewright::Features;
use framewright::machine::{Busy, Machine, Need, Operation, PerCpu, Pinned, Reclaimed, Waiter};
use framewright::units::{CpuId, NodeId, Order, Pfn};

use crate::callbacks::{Callbacks, Called, Panics};
use crate::contents::Memory;
use crate::cpus::registry::{self, Freeze};
use crate::cpus::rseq::{self, Rseq};
use crate::cpus::values::CpuValues;
use crate::cpus::{CpuMode, Cpus, RseqUnavailable, Side, Slot, Wait, lease};
use crate::current::{self, Place};
use crate::fork;
use crate::interrupts::{self, Section};
use crate::waiters::Waiters;
use crate::words::NativeWord;
use crate::{fences, prefetch};

/// The threads of this process as CPUs of one allocator.
///
/// Any number of threads may allocate. There are two ways from a thread to its CPU:
///
/// | | [`Native::new`] | [`Native::per_cpu`] |
/// |---|---|---|
/// | a thread's CPU | its own, from its first call until it exits | that of the processor it runs on |
/// | CPUs | as many as one says; threads that find no other share the last | possible processors, some spares |
/// | cost of a call's pin | 0.3 ns | 1 ns, on the same processor |
/// | good for | a known number of busy threads | many threads, or threads that come and go |
/// | needs | nothing | Linux's restartable sequences |
///
/// A pin ([`Machine::pin`]) belongs to its thread and nests. It may be held for long (a thread may sleep meanwhile).
/// But a thread that has no CPU of its own, by lease, then keeps others waiting. A thread that exits leaves its CPU,
/// with the pages cached there, to the next. Signal handlers may call the allocator if its machine was made
/// [`Native::with_interrupts`], and only as [`crate::interrupts`] says. Forks: [`Native::set_fork_hook`].
#[derive(Debug)]
pub struct Native {
    /// The id of `cpus`, without a pointer to follow.
    id: u64,
    /// The kernel can make every thread pass a fence, so the other side needs none.
    asymmetric: bool,
    /// CPUs follow the processors; otherwise they are leased.
    rseq: Option<Rseq>,
    memory: Option<Memory>,
    cpus: Arc<Cpus>,
    called: Called,
    panics: Panics,
    waiters: Arc<Waiters<NativeWord<AtomicU32>>>,
}

impl Native {
    /// Makes one CPU for each entry of `cpus`, on that node, as in the configuration.
    ///
    /// A thread leases a CPU at its first pin and keeps it until it exits. The last CPU is never leased. It is shared
    /// by the threads that find no other, and they wait for each other there. So there should be one CPU more than busy
    /// threads.
    pub fn new(cpus: &[NodeId]) -> Native {
        let Ok(made) = fork::register(|| Ok::<_, Infallible>((None, Cpus::new(cpus, 1))));
        Native::with(made)
    }

    /// Makes one CPU for each processor that the machine can have, and some spares.
    ///
    /// A thread uses the CPU of the processor it runs on. The configuration's CPUs must be [`Native::nodes`], with
    /// processors of node `nodes` and above taken to be on node 0.
    ///
    /// # Errors
    /// [`RseqUnavailable`] where the architecture, the kernel or a sandbox does not let it.
    pub fn per_cpu(nodes: usize) -> Result<Native, RseqUnavailable> {
        fork::register(|| Ok((Some(Rseq::find()?), rseq::cpus(nodes)))).map(Native::with)
    }

    /// Makes CPUs as [`Native::per_cpu`] does, or else as [`Native::new`] does of `leased`.
    ///
    /// [`Native::mode`] tells which, and [`Native::nodes`] the CPUs that the configuration must have.
    pub fn auto(nodes: usize, leased: &[NodeId]) -> Native {
        Native::per_cpu(nodes).unwrap_or_else(|_| Native::new(leased))
    }

    fn with((rseq, cpus): (Option<Rseq>, Arc<Cpus>)) -> Native {
        Native {
            id: cpus.id,
            asymmetric: fences::register(),
            rseq,
            memory: None,
            cpus,
            called: Called::default(),
            panics: Panics::default(),
            waiters: Arc::default(),
        }
    }

    /// Adds interrupts, in which signal handlers may call the allocator ([`crate::interrupts`]).
    ///
    /// The machine has twice as many CPUs then: [`Native::nodes`] tells, and the configuration must have them all. Only
    /// for a machine that is not in use yet, and before it gets a fork hook.
    #[must_use]
    pub fn with_interrupts(self) -> Native {
        let Ok(((), cpus)) = fork::register(|| Ok::<_, Infallible>(((), self.cpus.with_interrupts())));
        Native { id: cpus.id, cpus, ..self }
    }

    /// Whether it was made with interrupts.
    pub fn has_interrupts(&self) -> bool {
        self.cpus.has_interrupts()
    }

    /// Uses full fences on both sides, as where `membarrier` is denied.
    ///
    /// That is slower, on every operation. Only for a machine that is not in use yet.
    #[must_use]
    pub fn with_full_fences(self) -> Native {
        Native { asymmetric: false, ..self }
    }

    /// Adds the memory of its frames: to clear and to poison.
    #[must_use]
    pub fn with_memory(self, memory: Memory) -> Native {
        Native { memory: Some(memory), ..self }
    }

    /// Adds callbacks, which are asked for memory.
    #[must_use]
    pub fn with_callbacks(self, callbacks: Arc<dyn Callbacks>) -> Native {
        Native { called: Called(Some(callbacks)), ..self }
    }

    /// How often a callback panicked, and was taken for one that refused ([`Callbacks`]).
    pub fn callback_panics(&self) -> u64 {
        self.panics.count()
    }

    /// Calls a callback; none if there are no callbacks, or this one panicked.
    fn call<T>(&self, call: impl FnOnce(&dyn Callbacks) -> T) -> Option<T> {
        let callbacks = self.called.0.as_deref()?;
        self.panics.catch(|| call(callbacks))
    }

    /// Where threads sleep until memory comes, or until it is short.
    pub(crate) fn waiters(&self) -> &Arc<Waiters<NativeWord<AtomicU32>>> {
        &self.waiters
    }

    /// How often a waiter was woken so far; goes round at 2^32.
    pub fn wakes(&self, waiter: Waiter) -> u32 {
        self.waiters.wakes(waiter)
    }

    /// Sleeps until a waiter was woken more than `seen` times, at most for `limit`.
    ///
    /// Returns that count.
    ///
    /// For a node's background threads. They pass the returned count as `seen` the next time, and so miss nothing.
    pub fn wait(&self, waiter: Waiter, seen: u32, limit: Duration) -> u32 {
        self.waiters.wait(waiter, seen, limit)
    }

    /// Sets how forks treat the allocator: `freeze` brings it to rest before the fork.
    ///
    /// Both processes then go on with their copies. Without a hook, as at first, the child refuses ([`crate::Freeze`]
    /// has the details).
    pub fn set_fork_hook(&self, freeze: Option<Freeze>) {
        registry::set_hook(&self.cpus, freeze);
    }

    /// Whether this process is a fork's child that must not use the allocator.
    pub fn refuses(&self) -> bool {
        self.cpus.refuses()
    }

    /// Whether the fast side of the asymmetric fence is free, by `membarrier`.
    pub fn has_light_fence(&self) -> bool {
        self.asymmetric
    }

    /// How threads come to their CPUs.
    pub fn mode(&self) -> CpuMode {
        if self.rseq.is_some() { CpuMode::PerCpu } else { CpuMode::Lease }
    }

    /// The node of each CPU, as the allocator's configuration must have them too.
    pub fn nodes(&self) -> &[NodeId] {
        self.cpus.nodes()
    }

    /// Ends the calling thread's lease now instead of at its exit.
    ///
    /// Returns whether it had one.
    ///
    /// Another thread may then lease the CPU, with its cached pages. The thread's next pin leases again.
    ///
    /// # Safety
    /// The thread has no pin of this machine. It is not inside a call of the allocator, as in a callback, or in a
    /// signal handler that interrupted a call. It holds nothing that keeps it on a CPU.
    pub unsafe fn give_up_lease(&self) -> bool {
        lease::give_up(&self.cpus)
    }

    #[cold]
    #[inline(never)]
    fn pin_otherwise(&self, wait: Wait) -> NativePin<'_> {
        self.try_pin(wait).unwrap_or(NativePin::leased(Place::BUSY))
    }

    fn try_pin(&self, wait: Wait) -> Result<NativePin<'_>, Busy> {
        if self.cpus.refuses() {
            return Ok(NativePin::of(None));
        }
        if let Some(rseq) = self.rseq {
            return rseq.enter_otherwise(&self.cpus, wait).map(NativePin::of);
        }
        let side = Side::here();
        let leased = match side {
            Side::Threads => lease::enter(&self.cpus),
            Side::Interrupts => lease::enter_apart(&self.cpus),
        };
        match leased {
            Some(place) => Ok(NativePin::leased(place)),
            None => self.cpus.share(current::mark(), side, wait).map(NativePin::of),
        }
    }

    #[inline(always)]
    fn pin_at_once(&self) -> Option<NativePin<'_>> {
        match &self.rseq {
            None => current::of(self.id).map(NativePin::leased),
            Some(rseq) => rseq.enter(&self.cpus).map(|entered| NativePin::of(Some(entered))),
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
    fn leased(place: Place) -> NativePin<'a> {
        NativePin { place, slot: None, thread: PhantomData }
    }

    #[inline]
    fn of(entered: Option<(Place, &'a Slot)>) -> NativePin<'a> {
        match entered {
            Some((place, slot)) => NativePin { place, slot: Some(slot), thread: PhantomData },
            None => NativePin::leased(Place::NOWHERE),
        }
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

    fn is_busy(&self) -> bool {
        self.place == Place::BUSY
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

impl<T> PerCpu<T, Native> for CpuValues<T> {
    fn new(machine: &Native, cpus: usize, make: impl FnMut(CpuId) -> Option<T>) -> Self {
        CpuValues::new(machine.rseq, &machine.cpus, cpus, make)
    }

    #[inline(always)]
    fn with<O: Operation<T>>(&self, operation: O) -> Option<O::Output> {
        self.with_noted(operation)
    }

    #[inline(always)]
    fn with_any<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        self.with_any_cpu(operation)
    }
}

impl Machine for Native {
    type U8 = NativeWord<AtomicU8>;
    type U16 = NativeWord<AtomicU16>;
    type U32 = NativeWord<AtomicU32>;
    type U64 = NativeWord<AtomicU64>;
    type Usize = NativeWord<AtomicUsize>;
    type Pin<'a> = NativePin<'a>;
    type Irq<'a> = Section;
    type PerCpu<T> = CpuValues<T>;

    const FEATURES: Features = Features { shortage: true, ..Features::ALL };
    const SLEEPS_PINNED: bool = true;

    #[inline]
    fn pin(&self) -> NativePin<'_> {
        match self.pin_at_once() {
            Some(pin) => pin,
            None => self.pin_otherwise(Wait::Always),
        }
    }

    #[inline]
    fn pin_now(&self) -> NativePin<'_> {
        match self.pin_at_once() {
            Some(pin) => pin,
            None => self.pin_otherwise(Wait::Never),
        }
    }

    fn pin_kept(&self) -> NativePin<'_> {
        match self.pin_at_once() {
            Some(pin) => pin,
            None => self.pin_otherwise(Wait::Kept),
        }
    }

    #[inline]
    fn irq_save(&self) -> Section {
        interrupts::section()
    }

    #[inline]
    fn is_in_section(&self) -> bool {
        interrupts::is_in_section()
    }

    /// An interrupt has a CPU of its own, or is refused.
    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    /// The node of the thread's lease, or else, by a system call, of the processor.
    fn near(&self) -> NodeId {
        let leased = if self.rseq.is_none() { current::of(self.id) } else { None };
        let node = leased.map_or_else(lease::node_here, |place| place.node);
        if self.nodes().contains(&node) { node } else { NodeId(0) }
    }

    fn in_interrupt(&self) -> bool {
        interrupts::is_in()
    }

    #[inline]
    fn fence(&self) {
        fences::full();
    }

    #[inline]
    fn light_fence(&self) {
        if self.asymmetric {
            fences::light();
        } else {
            fences::full();
        }
    }

    fn is_asymmetric(&self) -> bool {
        self.asymmetric
    }

    #[inline(always)]
    fn front_fence(&self) {
        fences::light();
    }

    fn heavy_fence(&self) {
        fences::full();
        if self.asymmetric {
            fences::heavy();
        }
    }

    /// A system call, or an instruction.
    fn may_fence(&self) -> bool {
        true
    }

    #[inline(always)]
    fn prefetch(&self, word: &Self::U64) {
        prefetch::for_writing(word);
    }

    fn zero(&self, pfn: Pfn, order: Order) {
        if let Some(memory) = &self.memory {
            memory.zero(pfn, order);
        }
    }

    fn poison(&self, pfn: Pfn, order: Order) {
        if let Some(memory) = &self.memory {
            memory.poison(pfn, order);
        }
    }

    fn starts_zeroed(&self) -> bool {
        self.memory.as_ref().is_none_or(Memory::starts_zeroed)
    }

    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.is_poisoned(pfn, order))
    }

    #[inline]
    fn relax(&self) {
        // The thread that the caller waits for may need this processor.
        std::thread::yield_now();
    }

    fn now(&self) -> u64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }

    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        let left = deadline.saturating_sub(self.now()).min(1_000_000_000);
        self.waiters.wait(waiter, self.waiters.wakes(waiter), Duration::from_nanos(left));
    }

    fn wake(&self, waiter: Waiter) {
        self.waiters.wake(waiter);
    }

    fn reclaim(&self, need: &Need) -> Reclaimed {
        Reclaimed { frames: self.call(|callbacks| callbacks.reclaim(need)).unwrap_or(0) }
    }

    fn migrates(&self) -> bool {
        self.call(|callbacks| callbacks.migrates()).unwrap_or(false)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        self.call(|callbacks| callbacks.migrate(from, to, order)).unwrap_or(Err(Busy))
    }
}

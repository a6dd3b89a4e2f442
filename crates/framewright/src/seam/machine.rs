//! Machine: the only interface between the core and its surroundings.
//!
//! The core names no atomic, no thread, no clock and no pointer to managed memory. Its shared data are [`Word`]s of a
//! generic [`Machine`]. Every service of the surroundings is a method of [`Machine`]. The same core therefore runs
//! natively, under a model checker, on a simulated machine that charges every access, and inside a kernel.
//!
//! Most methods have a default that does nothing and is removed by the compiler. A small kernel implements only the
//! five word types, [`Machine::pin`], the interrupt guard, [`Machine::keeps_interrupts_apart`] and [`Machine::fence`].
//! The crate `framewright-kernel` has all of that for kernels that use core's atomics.
//!
//! # Orderings
//!
//! A word's operation takes the core's own [`Ordering`]. Sequentially consistent accesses are left out on purpose:
//! model checkers treat them as acquire-release. A store that must be ordered before a later load is followed by
//! [`Machine::fence`]. Alternatively, the pair [`Machine::light_fence`] / [`Machine::heavy_fence`] orders them; there
//! the side that runs rarely pays for both.

use crate::policy::features::Features;
use crate::policy::mechanisms::Mechanisms;
use crate::seam::event::Event;
pub use crate::seam::fault::Fault;
pub use crate::seam::free_change::FreeChange;
pub use crate::seam::lock_event::{LockEvent, LockKind, LockName};
pub use crate::seam::per_cpu::{NoPerCpu, Operation, PerCpu};
pub use crate::seam::step::Step;
use crate::types::migratetype::MigrateType;
use crate::types::request::Gfp;
use crate::types::units::{CpuId, NodeId, Order, Pfn, ZoneIdx};

/// Ordering of an access to a word.
///
/// A load ignores `Release`, a store ignores `Acquire`; neither is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ordering {
    /// Atomic, nothing more.
    Relaxed,
    /// Later accesses stay after this load.
    Acquire,
    /// Earlier accesses stay before this store.
    Release,
    /// Both, for read-modify-write operations.
    AcqRel,
}

/// Error of a wait that was given up; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

/// Limit of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Without limit: the turn is certain to come.
    ///
    /// The queue is fair, and its holders run bounded sections and call no code outside the core.
    Turn,
    /// Check the word this number of times, then give up with [`Busy`].
    Tries(u32),
}

/// A shared integer of type `T`, with its size and alignment.
pub trait Word<T: Copy>: Sized {
    /// Creates a word that holds `value`.
    fn new(value: T) -> Self;
    /// Returns the value of the word.
    fn load(&self, order: Ordering) -> T;
    /// Writes the word.
    fn store(&self, value: T, order: Ordering);
    /// Writes the word and returns its previous value.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes `new` if the word holds `current`; otherwise changes nothing and returns its value.
    fn cas(&self, current: T, new: T, order: Ordering) -> Result<T, T>;
    /// Adds with wrap-around and returns the previous value. Subtract by adding the negated value.
    fn add(&self, value: T, order: Ordering) -> T;
    /// Waits until `waiting` no longer holds; returns the value that ended the wait.
    ///
    /// Every wait of the core uses this method.
    ///
    /// # Errors
    /// [`Busy`] when `patience` ran out; never with [`Patience::Turn`].
    ///
    /// Orders: the returned value is read with Acquire.
    fn wait_while(&self, patience: Patience, waiting: impl FnMut(T) -> bool) -> Result<T, Busy>;
}

/// Guard of a pin: the thread stays on this CPU until the drop.
///
/// Preemption is off.
pub trait Pinned {
    /// Returns the CPU that the guard pins to.
    fn cpu(&self) -> CpuId;
    /// Returns the memory node nearest to that CPU.
    fn node(&self) -> NodeId;
    /// Returns whether every CPU was held by another holder ([`Machine::pin_now`]).
    ///
    /// [`Pinned::cpu`] then returns [`CpuId::NONE`].
    fn is_busy(&self) -> bool {
        false
    }
}

/// Machine that the core runs on; the description of this module explains it.
pub trait Machine {
    /// 8-bit word.
    type U8: Word<u8>;
    /// 16-bit word.
    type U16: Word<u16>;
    /// 32-bit word.
    type U32: Word<u32>;
    /// 64-bit word.
    type U64: Word<u64>;
    /// Word as wide as an address.
    type Usize: Word<usize>;
    /// Guard: preemption is off while the guard lives.
    type Pin<'a>: Pinned
    where
        Self: 'a;
    /// Guard: interrupts of this CPU are off while the guard lives.
    ///
    /// The drop restores the previous state.
    type Irq<'a>
    where
        Self: 'a;
    /// One value for each CPU; [`NoPerCpu`] for a machine that keeps none.
    type PerCpu<T>: PerCpu<T, Self>;

    /// Whether a pinned caller may sleep.
    ///
    /// If so, a pin is a lease of the CPU's records instead of preemption turned off.
    const SLEEPS_PINNED: bool = false;

    /// Mechanisms that are known when the embedder is compiled.
    ///
    /// The compiler removes the code of all others. Boot refuses a configuration with other mechanisms. `None`: the
    /// configuration chooses at run time.
    const MECHANISMS: Option<Mechanisms> = None;

    /// Parts of the allocator that the embedder uses.
    ///
    /// The compiler removes the others. What needs one of them is refused.
    const FEATURES: Features = Features::ALL;

    /// Turns preemption off and returns the guard. Nests.
    ///
    /// Where interrupts are kept apart ([`Machine::keeps_interrupts_apart`]), an interrupt counts as a CPU of its own.
    /// In an interrupt, `pin` returns a second CPU of the same node. Its number is the interrupted CPU's number plus
    /// the number of CPUs ([`crate::Config::contexts`] is then 2). Soft interrupts may be a third context likewise.
    ///
    /// An interrupt that hits another interrupt, or code that holds interrupts off, has no further CPU. `pin` then
    /// returns [`CpuId::NONE`] without any wait, and every call that needs a CPU is refused.
    ///
    /// Context: any in which the allocator is called.
    fn pin(&self) -> Self::Pin<'_>;

    /// Like [`Machine::pin`], but never waits for another holder of a CPU.
    ///
    /// Used by frees, and by requests that may not wait. Only a machine whose pins may be held for long
    /// ([`Machine::SLEEPS_PINNED`]) has a holder to wait for. If it gives up, the guard says so ([`Pinned::is_busy`]),
    /// and the caller uses the zones without a CPU.
    fn pin_now(&self) -> Self::Pin<'_> {
        self.pin()
    }

    /// Like [`Machine::pin`], for a caller that keeps the pin for many calls ([`crate::Allocator::local`]).
    ///
    /// Only a machine whose pins may be held for long need tell them apart. It refuses by a CPU that does not exist,
    /// where other callers would wait as long as this one keeps the pin.
    fn pin_kept(&self) -> Self::Pin<'_> {
        self.pin()
    }

    /// Returns the node nearest to the caller: a hint.
    ///
    /// Context: any; the caller is not pinned ([`crate::Allocator::alloc_nolock`]). Must neither wait nor rely on code
    /// that the caller may have interrupted.
    fn near(&self) -> NodeId {
        NodeId(0)
    }

    /// Holds interrupts of this CPU off and returns the guard. Nests.
    ///
    /// Does nothing where nothing can interrupt (a plain thread).
    ///
    /// Context: any, including nested inside `irq_save` itself ([`crate::Allocator::alloc_nolock`]).
    fn irq_save(&self) -> Self::Irq<'_>;

    /// Returns whether the caller holds interrupts off by a guard of [`Machine::irq_save`].
    ///
    /// The core does so in its locked sections, and calls no code outside the core from there. A call that interrupts
    /// such a section would wait for its own CPU, so every call that needs a CPU is refused. This is for machines that
    /// cannot hold such calls off: a process, for example, cannot hold off its signal handlers.
    fn is_in_section(&self) -> bool {
        false
    }

    /// Returns whether no interrupt uses the CPU that it interrupted.
    ///
    /// That is so where interrupts use a CPU of their own, where they never call the allocator, and where every pin
    /// holds them off. Asked once, at boot: `pcp-protection=own-lists`, our default, relies on it. A machine that
    /// returns true and does otherwise makes the allocator hand frames out twice. A machine that returns false boots
    /// with another protection only.
    fn keeps_interrupts_apart(&self) -> bool;

    /// Returns whether the caller runs in an interrupt or a signal handler.
    ///
    /// Requests of such a caller never reclaim.
    fn in_interrupt(&self) -> bool {
        false
    }

    /// Executes a sequentially consistent fence.
    fn fence(&self);

    /// Executes the cheap half of an asymmetric fence.
    ///
    /// It orders the compiler. It orders the processor only as far as the other side's [`Machine::heavy_fence`] does.
    /// Any machine may use a full fence for both. That is the default, and adds a full fence to each allocation.
    ///
    /// Context: pinned.
    fn light_fence(&self) {
        self.fence();
    }

    /// Returns whether [`Machine::front_fence`] is as good as the light fence.
    ///
    /// Asked once, at boot; if not, no operation uses it.
    fn is_asymmetric(&self) -> bool {
        true
    }

    /// Executes the light fence of the fast path.
    ///
    /// For a machine that finds out at run time whether it has a light fence: this method does not check again.
    fn front_fence(&self) {
        self.light_fence();
    }

    /// Executes the expensive half of an asymmetric fence.
    ///
    /// On return, this CPU and every other one have passed a full fence since the call began. Contexts of one CPU count
    /// as one.
    ///
    /// Context: pinned, no lock held; several CPUs may be here at once. Drains and requests that may wait call it with
    /// interrupts as their caller had them, that is, on. Other callers call it only if [`Machine::may_fence`]. A fence
    /// by interrupts to the other CPUs must not turn interrupts off while it waits: two of them would wait for each
    /// other. For the same reason, pins must then leave interrupts on.
    fn heavy_fence(&self) {
        self.fence();
    }

    /// Returns whether a request that may not wait, or an interrupt, may call [`Machine::heavy_fence`] now.
    ///
    /// If not, such a request gets no block that other CPUs have cached. The result is true where the fence is a
    /// processor instruction or a system call. On some machines the fence is an interrupt to every other CPU. Such a
    /// machine returns whether this CPU has interrupts on: with interrupts off, two such fences would wait for each
    /// other.
    fn may_fence(&self) -> bool {
        false
    }

    /// Marks one iteration of a waiting loop.
    fn relax(&self) {}

    /// Returns the time in nanoseconds from any start.
    ///
    /// The clock may stand still; a step back is tolerated.
    fn now(&self) -> u64 {
        0
    }

    /// Sleeps until `deadline` or until [`Machine::wake`] for this waiter.
    ///
    /// `deadline` is on the clock of [`Machine::now`]. Spurious wake-ups are allowed; returns at once where nothing can
    /// sleep.
    ///
    /// Context: no lock held, not pinned.
    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        let _ = (waiter, deadline);
    }

    /// Wakes the threads that sleep as `waiter`.
    ///
    /// Context: no lock held.
    fn wake(&self, waiter: Waiter) {
        let _ = waiter;
    }

    /// Reports that the code reached a point with a named instruction cost.
    ///
    /// Only a simulator uses it.
    fn step(&self, step: Step) {
        let _ = step;
    }

    /// Reports an event of a lock on the running CPU.
    ///
    /// Only a lock profiler uses it.
    ///
    /// Context: the lock may be held, so the callee must not call the allocator.
    fn lock(&self, lock: LockName, event: LockEvent) {
        let _ = (lock, event);
    }

    /// Announces that the core will soon write the descriptor at `word`.
    fn prefetch(&self, word: &Self::U64) {
        let _ = word;
    }

    /// Fills the memory of a block with zeros, for `__GFP_ZERO`.
    fn zero(&self, pfn: Pfn, order: Order) {
        let _ = (pfn, order);
    }

    /// Fills the memory of a freed block with a pattern, if `hardened` is on.
    fn poison(&self, pfn: Pfn, order: Order) {
        let _ = (pfn, order);
    }

    /// Returns whether all memory is zero when the allocator is set up.
    ///
    /// Asked once, at boot, where the mechanism `hardened` is on. If memory is not zero, every block is filled before
    /// it is first free. That writes to all memory. The default is false: firmware or an earlier owner left data there.
    /// Memory that is brought online later is filled in any case.
    fn starts_zeroed(&self) -> bool {
        false
    }

    /// Returns whether each frame of a block holds only the pattern, or only zeros.
    ///
    /// If so, no code wrote to it since it was freed, or ever.
    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        let _ = (pfn, order);
        true
    }

    /// Returns whether [`Machine::event`] listens; asked before an event is built.
    fn traces(&self) -> bool {
        false
    }

    /// Returns whether [`Machine::event`] listens to requests and frees; asked in each, also on the fast path.
    ///
    /// For an embedder that reports those itself, and only the lists' events come from here.
    fn traces_calls(&self) -> bool {
        self.traces()
    }

    /// Reports an event that has a tracepoint.
    ///
    /// Context: a lock may be held, so the callee must not call the allocator.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// Reports that a zone's free memory changed, for an embedder that keeps counts of its own.
    ///
    /// The sums of all changes are what [`crate::Allocator::zone_memory`] returns for the zone.
    ///
    /// Context: the zone lock is held, so the callee must not call the allocator. Where frees share the lock
    /// (`free-path=range-locks` and `splice`), several CPUs report changes of one zone at once.
    fn free_changed(&self, zone: ZoneIdx, change: FreeChange) {
        let _ = (zone, change);
    }

    /// Reports that a zone's depot has more or fewer frames, for an embedder that counts them as free too.
    ///
    /// A request gets them as long as its zone is asked ([`crate::Allocator::alloc_in`]). The sums of all changes are
    /// what [`crate::Allocator::depot_frames`] returns. Context: the depot's lock is held, otherwise as
    /// [`Machine::free_changed`].
    fn stored_changed(&self, zone: ZoneIdx, frames: i64) {
        let _ = (zone, frames);
    }

    /// Reports that a pageblock has another type now, for an embedder that keeps types of its own.
    ///
    /// `pfn` is the pageblock's first frame. Context: as [`Machine::free_changed`].
    fn retyped(&self, pfn: Pfn, migratetype: MigrateType) {
        let _ = (pfn, migratetype);
    }

    /// Frees memory through the allocator's own calls; returns the number of frames.
    ///
    /// Called when memory is short. It may fail, sleep or call the allocator. Its own requests must carry
    /// `__GFP_MEMALLOC` (as those of a task that frees memory do in Linux) or ask for no reclaim. Otherwise it would be
    /// called recursively.
    ///
    /// Context: no lock held.
    fn reclaim(&self, need: &Need) -> Reclaimed {
        let _ = need;
        Reclaimed { frames: 0 }
    }

    /// Returns whether [`Machine::migrate`] moves anything. If not, no call searches for blocks to move.
    fn migrates(&self) -> bool {
        false
    }

    /// Moves an allocated, movable block from `from` to `to` and frees `from`.
    ///
    /// The block at `to` has the same order, and belongs to the callee from now on. The callee may sleep or call the
    /// allocator, under the rules of [`Machine::reclaim`].
    ///
    /// Context: no lock held.
    ///
    /// # Errors
    /// [`Busy`] when the block cannot move now. It then stays as it was, or was freed by its owner. `to` belongs to the
    /// allocator again.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let _ = (from, to, order);
        Err(Busy)
    }

    /// Calls `operation` as [`PerCpu::with`] of `values` does, for a caller that `pin` pins already.
    ///
    /// `None` as well for a pin of another machine. The default pins the caller once more.
    #[inline(always)]
    fn with_pinned<T, O>(&self, values: &Self::PerCpu<T>, pin: &Self::Pin<'_>, operation: O) -> Option<O::Output>
    where
        O: Operation<T>,
    {
        let _ = pin;
        values.with(operation)
    }

    /// Returns whether the named point must fail this time; for tests, constant `false` elsewhere.
    fn fault(&self, point: Fault) -> bool {
        let _ = point;
        false
    }
}

/// Name under which threads sleep and are woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiter {
    /// Background reclaim of the node.
    Kswapd(NodeId),
    /// Background compaction of the node.
    Kcompactd(NodeId),
    /// Requests that wait for free memory on the node.
    Allocation(NodeId),
}

/// Shortage of a failing request; the argument of [`Machine::reclaim`].
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Node that the request prefers.
    pub node: NodeId,
    /// Order of the request; 0 if frames anywhere suffice.
    ///
    /// They suffice if compaction makes a block of them.
    pub order: Order,
    /// Flags of the request.
    pub gfp: Gfp,
    /// Rounds already made by this request, or by this run of background reclaim.
    ///
    /// A request searches harder in each round.
    pub attempt: u32,
    /// Number of frames wanted.
    ///
    /// More is welcome if it needs no extra work; less counts as progress.
    pub frames: u64,
    /// Exponent of the search: reclaim looks at 1 / 2^`priority` of the freeable frames.
    ///
    /// It looks at no fewer than are wanted. The value begins at [`Need::LIGHTEST`] and falls as rounds free too
    /// little.
    pub priority: u32,
    /// Whether to free only memory that need not be written out.
    ///
    /// Set while background reclaim works off a boost.
    pub gentle: bool,
}

impl Need {
    /// The first priority (`DEF_PRIORITY`).
    pub const LIGHTEST: u32 = 12;
    /// Frames that a request wants freed at a time (`SWAP_CLUSTER_MAX`).
    const CLUSTER: u64 = 32;

    /// Returns the shortage of a request that frees memory itself.
    #[inline]
    pub(crate) fn of_request(node: NodeId, order: Order, frames: u64, gfp: Gfp, attempt: u32) -> Need {
        let frames = frames.max(Need::CLUSTER);
        Need { node, order, gfp, attempt, frames, priority: Need::LIGHTEST, gentle: false }
    }
}

/// Result of reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reclaimed {
    /// Frames freed.
    pub frames: u64,
}

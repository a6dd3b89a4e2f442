//! The one way in and out of the core.
//!
//! The core names no atomic, no thread, no clock and no pointer to managed memory. What it shares is a [`Word`] of a
//! generic [`Machine`]; what it needs of its surroundings is a method of [`Machine`]. The same core therefore runs
//! natively, under a model checker, on a simulated machine that charges every access, and inside a kernel.
//!
//! Most methods have a default that does nothing and vanishes when compiled: a small kernel implements the five word
//! types, [`Machine::pin`], the interrupt guard and [`Machine::fence`], and is done.
//!
//! # Orderings
//!
//! A word's operation takes the core's own [`Ordering`]. There is no sequentially consistent access on purpose: model
//! checkers treat it as acquire-release. Where a store must be ordered before a later load, the code says so with
//! [`Machine::fence`], or with the pair [`Machine::light_fence`] / [`Machine::heavy_fence`], in which the side that
//! runs rarely pays for both.

use crate::seam::event::Event;
pub use crate::seam::lock_event::{LockEvent, LockKind, LockName};
pub use crate::seam::step::Step;
use crate::types::request::Gfp;
use crate::types::units::{CpuId, NodeId, Order, Pfn};

/// What an access to a word orders. A load ignores `Release`, a store ignores `Acquire`; neither is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ordering {
    /// Atomic, nothing more.
    Relaxed,
    /// Later accesses stay behind this load.
    Acquire,
    /// Earlier accesses stay before this store.
    Release,
    /// Both, for read-modify-write operations.
    AcqRel,
}

/// A wait gave up; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

/// How long a wait may last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// The turn is certain to come: a fair queue whose holders run bounded sections and call nobody.
    Turn,
    /// Look so many times, then give up with [`Busy`].
    Tries(u32),
}

/// A shared integer of type `T`, with its size and alignment.
pub trait Word<T: Copy>: Sized {
    /// A word that holds `value`.
    fn new(value: T) -> Self;
    /// Reads the word.
    fn load(&self, order: Ordering) -> T;
    /// Writes the word.
    fn store(&self, value: T, order: Ordering);
    /// Writes the word and returns what it held.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes `new` if the word holds `current`; otherwise changes nothing and returns what it holds.
    fn cas(&self, current: T, new: T, order: Ordering) -> Result<T, T>;
    /// Adds with wrap-around and returns what the word held before. Subtract by adding the negated value.
    fn add(&self, value: T, order: Ordering) -> T;
    /// Waits until `waiting` no longer holds of the word and returns the value that ended the wait, read with
    /// acquire ordering. Every wait of the core comes through here.
    ///
    /// # Errors
    /// [`Busy`] when `patience` ran out; never with [`Patience::Turn`].
    fn wait_while(&self, patience: Patience, waiting: impl FnMut(T) -> bool) -> Result<T, Busy>;
}

/// Preemption is off: the thread stays on this CPU until the guard is dropped.
pub trait Pinned {
    /// The CPU the guard pins to.
    fn cpu(&self) -> CpuId;
    /// The memory node nearest to that CPU.
    fn node(&self) -> NodeId;
    /// Whether no CPU was to be had without waiting for its holder ([`Machine::pin_now`]). It then names [`CpuId::NONE`].
    fn is_busy(&self) -> bool {
        false
    }
}

/// What the core runs on. See the module's description.
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
    /// Guard: preemption is off while it lives.
    type Pin<'a>: Pinned
    where
        Self: 'a;
    /// Guard: interrupts of this CPU are held off while it lives; dropping it restores what was before.
    type Irq<'a>
    where
        Self: 'a;

    /// Whether a pinned caller may sleep: a pin is a lease of the CPU's records, not preemption turned off.
    const SLEEPS_PINNED: bool = false;

    /// Turns preemption off. Nests.
    ///
    /// Where interrupts are kept apart ([`Machine::keeps_interrupts_apart`]), one is a CPU of its own: in an interrupt this names another CPU than
    /// outside, of the same node (as its number, and the number of CPUs added; the configuration then has twice as many). In an interrupt
    /// of an interrupt, or of whoever holds interrupts off, there is no other CPU left: then it names [`CpuId::NONE`] without waiting for
    /// anybody, and all calls are refused that need one.
    fn pin(&self) -> Self::Pin<'_>;

    /// Like [`Machine::pin`], but never waits for another holder of a CPU: for frees, and for requests that must not wait.
    ///
    /// Only a machine whose pins may be held for long ([`Machine::SLEEPS_PINNED`]) has anybody to wait for. If it gives up, the
    /// guard says so ([`Pinned::is_busy`]), and the caller goes to the zones without a CPU.
    fn pin_now(&self) -> Self::Pin<'_> {
        self.pin()
    }

    /// The node nearest to the caller, who is not pinned and may be anywhere ([`crate::Allocator::alloc_nolock`]): a hint. Must neither
    /// wait nor rely on what the caller may have interrupted.
    fn near(&self) -> NodeId {
        NodeId(0)
    }

    /// Holds interrupts of this CPU off. Nests. Where nothing can interrupt (a plain thread), does nothing. May be called at any moment,
    /// in the middle of itself too ([`crate::Allocator::alloc_nolock`]).
    fn irq_save(&self) -> Self::Irq<'_>;

    /// Whether the caller holds interrupts off by a guard of [`Machine::irq_save`]: the core does so in its sections under a lock, and
    /// calls nobody from there. A call that comes then would wait for its own CPU, so whatever needs a CPU is refused. For
    /// machines that cannot keep such calls away, as a process cannot with its signal handlers.
    fn is_in_section(&self) -> bool {
        false
    }

    /// Whether what an interrupt does to the allocator it does on a CPU of its own, or no interrupt ever calls it. Asked once, at boot:
    /// `pcp-protection=own-lists`, our default, relies on it. A machine that says so and does otherwise hands frames out twice.
    fn keeps_interrupts_apart(&self) -> bool {
        false
    }

    /// Whether the caller runs in an interrupt (or a signal handler). Such a caller's requests never reclaim.
    fn in_interrupt(&self) -> bool {
        false
    }

    /// Sequentially consistent fence.
    fn fence(&self);

    /// The cheap half of an asymmetric fence: orders the compiler, and the processor only as far as the other side's
    /// [`Machine::heavy_fence`] makes it. Any machine may use a full fence for both.
    fn light_fence(&self) {
        self.fence();
    }

    /// Whether [`Machine::front_fence`] is as good as the light fence. Asked once, at boot; if not, no operation uses it.
    fn is_asymmetric(&self) -> bool {
        true
    }

    /// The light fence of a machine that finds out at run time whether it has one, without asking again.
    fn front_fence(&self) {
        self.light_fence();
    }

    /// The dear half: when it returns, every other CPU has passed a full fence. Called with no lock held and interrupts as the caller of the
    /// allocator has them: by drains and by requests that may wait, with interrupts on; by others only if [`Machine::may_fence`].
    fn heavy_fence(&self) {
        self.fence();
    }

    /// Whether [`Machine::heavy_fence`] may be called here and now, by a request that may not wait or in an interrupt. If not, such a request
    /// gets nothing of what other CPUs have cached. True where the fence is one of the processor's or a system call. A machine whose fence is an
    /// interrupt to every other CPU says whether this CPU has interrupts on: with interrupts off, two such fences would wait for each other.
    fn may_fence(&self) -> bool {
        false
    }

    /// One turn of a waiting loop.
    fn relax(&self) {}

    /// Time in nanoseconds from any start. May stand still; a step back is tolerated.
    fn now(&self) -> u64 {
        0
    }

    /// Sleeps until `deadline` (on the clock of [`Machine::now`]) or until [`Machine::wake`] for the same waiter. Called
    /// with no lock held, not pinned. May return early, or at once where nothing can sleep.
    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        let _ = (waiter, deadline);
    }

    /// Wakes whoever sleeps as `waiter`. Called with no lock held.
    fn wake(&self, waiter: Waiter) {
        let _ = waiter;
    }

    /// The code reached a point with a named instruction cost; only a simulator cares.
    fn step(&self, step: Step) {
        let _ = step;
    }

    /// Something happened to a lock, on the running CPU; only who measures waiting and holding cares. May be called with the
    /// lock held: must not call the allocator.
    fn lock(&self, lock: LockName, event: LockEvent) {
        let _ = (lock, event);
    }

    /// The core will soon write the descriptor behind `word`.
    fn prefetch(&self, word: &Self::U64) {
        let _ = word;
    }

    /// Fills the memory of a block with zeros, for `__GFP_ZERO`.
    fn zero(&self, pfn: Pfn, order: Order) {
        let _ = (pfn, order);
    }

    /// Fills the memory of a freed block with a pattern, where the mechanisms say `hardened`.
    fn poison(&self, pfn: Pfn, order: Order) {
        let _ = (pfn, order);
    }

    /// Whether all memory is zero when the allocator is set up.
    ///
    /// Asked once, at boot, where the mechanisms say `hardened`. If it is not (the default: firmware, or an earlier owner, left
    /// something there), every block is filled before it is first free, which writes to all memory. Memory that is brought
    /// online later is filled in any case.
    fn starts_zeroed(&self) -> bool {
        false
    }

    /// Whether nobody wrote to the memory of a block since it was freed, or ever: each of its frames holds that pattern
    /// throughout, or zeros.
    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        let _ = (pfn, order);
        true
    }

    /// Whether [`Machine::event`] listens; asked before an event is put together.
    fn traces(&self) -> bool {
        false
    }

    /// Something worth a tracepoint happened. May be called under a lock: must not call the allocator.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// Memory is short: free something through the allocator's own calls and say how much. Called with no lock held; may
    /// fail, sleep or call the allocator again. What it allocates itself must carry `__GFP_MEMALLOC` (as a task that
    /// frees memory does in Linux) or ask for no reclaim, or it would be called from inside of itself.
    fn reclaim(&self, need: &Need) -> Reclaimed {
        let _ = need;
        Reclaimed { frames: 0 }
    }

    /// Whether [`Machine::migrate`] moves anything. If not, nobody looks for what to move.
    fn migrates(&self) -> bool {
        false
    }

    /// Moves the contents of the allocated, movable block at `from` to the block of the same order at `to`, which is the callee's
    /// from now on, and frees `from`. Called with no lock held; may sleep or call the allocator again, under the rules of [`Machine::reclaim`].
    ///
    /// # Errors
    /// [`Busy`] when the block cannot move now; it then stays as it was, or was freed by its owner. `to` is the allocator's again.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let _ = (from, to, order);
        Err(Busy)
    }

    /// Whether the named point shall fail this time; for tests, constant `false` elsewhere.
    fn fault(&self, point: Fault) -> bool {
        let _ = point;
        false
    }
}

/// Who may sleep or be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiter {
    /// The node's background reclaim.
    Kswapd(NodeId),
    /// The node's background compaction.
    Kcompactd(NodeId),
    /// Requests that wait for free memory on the node.
    Allocation(NodeId),
}

/// What a failing request is short of; the argument of [`Machine::reclaim`].
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Node that the request prefers.
    pub node: NodeId,
    /// Order of the request; 0 if frames anywhere do, since compaction makes a block of them.
    pub order: Order,
    /// Flags of the request.
    pub gfp: Gfp,
    /// Rounds that this request, or this run of background reclaim, has made before. A request looks harder and harder in each round.
    pub attempt: u32,
    /// How many frames are wanted. More is welcome as long as it comes with them, less is progress.
    pub frames: u64,
    /// How hard to look: at one in two to this power of what could be freed, at least at as much as is wanted. It begins at
    /// [`Need::LIGHTEST`] and falls as rounds bring too little.
    pub priority: u32,
    /// Only what costs nothing but its absence: nothing is to be written out for it. So it is while background reclaim works off a boost.
    pub gentle: bool,
}

impl Need {
    /// The first priority (`DEF_PRIORITY`).
    pub const LIGHTEST: u32 = 12;
    /// What a request wants freed at a time, in frames (`SWAP_CLUSTER_MAX`).
    const CLUSTER: u64 = 32;

    /// What a request is short of, which frees memory itself.
    #[inline]
    pub(crate) fn of_request(node: NodeId, (order, frames): (Order, u64), gfp: Gfp, attempt: u32) -> Need {
        let frames = frames.max(Need::CLUSTER);
        Need { node, order, gfp, attempt, frames, priority: Need::LIGHTEST, gentle: false }
    }
}

/// What reclaim achieved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reclaimed {
    /// Frames freed.
    pub frames: u64,
}

/// Points at which a test can make the allocator fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// A whole request: no zone has anything.
    Alloc,
    /// A refill of a per-CPU list brings nothing.
    Refill,
    /// Entering a per-CPU list is refused, as if another CPU were draining it.
    PcpBusy,
    /// A block of a contiguous range cannot be isolated.
    Isolate,
    /// A request that found nothing drains nothing of what is cached.
    Drain,
}

impl Fault {
    /// Every point.
    pub const ALL: [Fault; 5] = [Fault::Alloc, Fault::Refill, Fault::PcpBusy, Fault::Isolate, Fault::Drain];
}

//! What a kernel writes: five functions, and two choices.
//!
//! The first choice is which contexts call the allocator ([`Contexts`]). The second is how a CPU that drains another
//! CPU's lists makes sure that it is seen ([`Fences`]).

use framewright::event::Event;
use framewright::machine::{Busy, FreeChange, Need, Reclaimed, Waiter};
use framewright::units::{MigrateType, Order, Pfn, ZoneIdx};
use framewright::{Features, Mechanisms};

/// Contexts that call the allocator.
///
/// The allocator keeps a CPU's free pages in lists that the running context uses without a lock. So no context may
/// interrupt another one that uses the same lists:
///
/// | | callers | what a pin does | lists of a CPU |
/// |---|---|---|---|
/// | `Tasks` | tasks; an interrupt is refused, if [`Kernel::context`] tells of it | preemption off | one set |
/// | `InterruptsOff` | tasks and interrupts | interrupts off | one set |
/// | `Interrupts` | tasks; interrupts, which do not interrupt each other | preemption off | two sets |
/// | `Softirqs` | tasks; soft interrupts; hard interrupts | preemption off | three sets |
///
/// `InterruptsOff` is the one to begin with: it needs no preemption counter and no [`Kernel::context`]. It costs the
/// two instructions that switch interrupts. Pins (`Allocator::local`) must end in reverse order there, since each
/// restores what the one before it found. The two below it keep interrupts on, and lists of interrupts hold pages that
/// tasks reach only by a drain. Any other context (an NMI, an interrupt of an interrupt) has no lists. Its plain calls
/// are refused; `Allocator::any_context` serves it from the zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contexts {
    /// Tasks alone. Interrupts never call, or are refused where [`Kernel::context`] tells of them.
    Tasks,
    /// Tasks and interrupts, whose pins hold interrupts off.
    InterruptsOff,
    /// Tasks, and interrupts with lists of their own.
    Interrupts,
    /// Tasks, soft interrupts and hard interrupts, each with lists of their own.
    Softirqs,
}

impl Contexts {
    /// Returns the sets of lists that each CPU has (`Config::contexts`).
    pub const fn sets(self) -> usize {
        match self {
            Contexts::Tasks | Contexts::InterruptsOff => 1,
            Contexts::Interrupts => 2,
            Contexts::Softirqs => 3,
        }
    }

    /// Returns the set that `context` uses; none where it has none.
    #[inline]
    pub const fn set_of(self, context: Context) -> Option<usize> {
        match (self, context) {
            (_, Context::Task) => Some(0),
            (_, Context::Other) | (Contexts::Tasks, _) | (Contexts::Interrupts, Context::Softirq) => None,
            (Contexts::InterruptsOff, _) => Some(0),
            (Contexts::Interrupts, Context::Interrupt) | (Contexts::Softirqs, Context::Softirq) => Some(1),
            (Contexts::Softirqs, Context::Interrupt) => Some(2),
        }
    }
}

/// Context of the running code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// A task, also while it holds interrupts off.
    Task,
    /// A soft interrupt: it interrupts tasks only.
    Softirq,
    /// An interrupt that hit a task or a soft interrupt.
    Interrupt,
    /// Any other: an NMI, an interrupt of an interrupt, code that does not know its CPU yet.
    Other,
}

/// How one CPU's stores are ordered against another CPU's loads without a full fence in each allocation.
pub enum Fences<K: ?Sized> {
    /// Both sides execute a full fence: right on every machine, and some 20 cycles in each allocation.
    Full,
    /// The machine has one CPU: the compiler's order suffices.
    OneCpu,
    /// Allocations execute none; a drain interrupts the other CPUs.
    Interrupts {
        /// Makes every other CPU pass a full fence; returns when all have passed one.
        ///
        /// Context: pinned, with interrupts as the allocator's caller has them, without locks of the allocator. Several
        /// CPUs may be here at once, so a CPU that waits must still answer the others: interrupts stay on.
        fence_others: fn(&K),
        /// Returns whether interrupts of this CPU are on.
        ///
        /// Asked where a request may not wait, or comes from an interrupt. If they are off, such a request drains no
        /// other CPU's lists, and may fail while those hold pages.
        interrupts_on: fn(&K) -> bool,
    },
}

/// A kernel, as the allocator uses it.
///
/// Five functions and [`Kernel::CONTEXTS`] are needed; with [`Contexts::Interrupts`] and [`Contexts::Softirqs`] also
/// [`Kernel::context`]. All others have a default. `&self` may be a value without size.
///
/// No function may call the allocator, except [`Kernel::reclaim`] and [`Kernel::migrate`]. None may panic.
///
/// # Safety
/// - Between [`Kernel::pin`] and its [`Kernel::unpin`] the caller stays on its CPU, and no other task runs there. With
///   [`Contexts::InterruptsOff`] this holds between [`Kernel::irq_save`] and its [`Kernel::irq_restore`], and no
///   interrupt except an NMI runs there either.
/// - [`Kernel::cpu`] returns the running CPU's number, and no other CPU has that number.
/// - [`Kernel::context`] tells apart those contexts that [`Kernel::CONTEXTS`] keeps apart, and returns
///   [`Context::Other`] in every context that may have interrupted one of its kind.
/// - [`Kernel::record`], if the kernel writes it, returns for each CPU and context what the default would.
/// - [`Kernel::starts_zeroed`] is true only where all memory was zero.
/// - With [`Fences::OneCpu`] there is one CPU. With [`Fences::Interrupts`], its functions do what is said there.
///
/// A kernel that breaks one of these makes two contexts use one CPU's lists at once: a page may be handed out twice.
#[allow(unsafe_code, reason = "the allocator's fast path is sound only if the kernel keeps this contract")]
pub unsafe trait Kernel: Sync + 'static {
    /// Contexts that call the allocator.
    const CONTEXTS: Contexts;

    /// How stores of one CPU are ordered against loads of another.
    const FENCES: Fences<Self> = Fences::Full;

    /// Mechanisms, if they are known when the kernel is compiled; all other code is then left out.
    const MECHANISMS: Option<Mechanisms> = None;

    /// Parts of the allocator that the kernel uses; all other code is left out, and what needs it is refused.
    ///
    /// A kernel that writes [`Kernel::zero`] says so here, and then has requests with `__GFP_ZERO`:
    /// `Features { zero: true, ..Features::WITHOUT_CONTENTS }`. One that says so without it does not compile.
    const FEATURES: Features = Features::WITHOUT_CONTENTS;

    /// Turns preemption off. Nests.
    ///
    /// Called in every context that the allocator is called in; not with [`Contexts::InterruptsOff`].
    fn pin(&self);

    /// Ends one [`Kernel::pin`]; may reschedule at the last one.
    fn unpin(&self);

    /// Turns interrupts of this CPU off, and returns what [`Kernel::irq_restore`] needs. Nests.
    ///
    /// Called in every context, an NMI included.
    fn irq_save(&self) -> usize;

    /// Restores the state before the [`Kernel::irq_save`] that returned `saved`.
    fn irq_restore(&self, saved: usize);

    /// Returns the number of the running CPU, below the number of CPUs in the configuration.
    ///
    /// Called pinned; or not, and then for a hint.
    fn cpu(&self) -> usize;

    /// Returns the context of the running code.
    ///
    /// Called pinned or not. A kernel whose interrupts never call the allocator needs none. It costs such a kernel a
    /// load, and an interrupt that calls by mistake is then refused instead of getting a page that another has.
    ///
    /// The default says [`Context::Task`], and does not compile where interrupts have lists of their own.
    #[inline]
    fn context(&self) -> Context {
        const { assert!(Self::CONTEXTS.sets() == 1, "with these CONTEXTS, a kernel writes Kernel::context") };
        Context::Task
    }

    /// Returns the record of the running CPU and context among those of `cpus` CPUs; none where it has none.
    ///
    /// For a kernel that keeps this number where it keeps that of the CPU. The default computes it from
    /// [`Kernel::cpu`] and [`Kernel::context`]: set of lists times `cpus`, plus CPU. Called pinned.
    #[inline]
    fn record(&self, cpus: usize) -> Option<usize> {
        let set = Self::CONTEXTS.set_of(self.context())?;
        let cpu = self.cpu();
        (cpu < cpus).then(|| set.wrapping_mul(cpus).wrapping_add(cpu))
    }

    /// Marks one iteration of a waiting loop.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Hints that the line at `word` will be written soon; must not fault.
    #[inline]
    fn prefetch(&self, word: *const u8) {
        let _ = word;
    }

    /// Returns nanoseconds since any start. Back-offs and waits of requests need it; the default returns 0.
    fn now(&self) -> u64 {
        0
    }

    /// Sleeps until `deadline` on the clock of [`Kernel::now`], or until [`Kernel::wake`] for `waiter`.
    ///
    /// Spurious wake-ups are allowed. The default returns at once, so `__GFP_NOFAIL` fails where others would.
    ///
    /// Context: a task, not pinned, interrupts as its caller has them.
    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        let _ = (waiter, deadline);
    }

    /// Wakes the tasks that sleep as `waiter`.
    ///
    /// Context: any except an NMI; pinned or not. Without locks of the allocator.
    fn wake(&self, waiter: Waiter) {
        let _ = waiter;
    }

    /// Fills a block with zeros, for `__GFP_ZERO`, if [`Kernel::FEATURES`] have `zero`.
    ///
    /// Context: that of the allocator's caller. The block is the caller's.
    fn zero(&self, pfn: Pfn, order: Order) {
        const { assert!(!Self::FEATURES.zero, "with these FEATURES, a kernel writes Kernel::zero") };
        let _ = (pfn, order);
    }

    /// Fills a freed block with a pattern, for the mechanism `hardened`, if [`Kernel::FEATURES`] have it.
    ///
    /// Context: that of the allocator's caller. No other context uses the block.
    fn poison(&self, pfn: Pfn, order: Order) {
        const { assert!(!Self::FEATURES.hardened, "with these FEATURES, a kernel writes Kernel::poison") };
        let _ = (pfn, order);
    }

    /// Returns whether each frame of a block holds only that pattern, or only zeros.
    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        const { assert!(!Self::FEATURES.hardened, "with these FEATURES, a kernel writes Kernel::is_poisoned") };
        let _ = (pfn, order);
        true
    }

    /// Returns whether all memory was zero at boot, the block of the descriptors included.
    ///
    /// Asked at boot. If so, boot writes less. A boot that failed may have written to the block, which must then be
    /// cleared before the next try.
    fn starts_zeroed(&self) -> bool {
        false
    }

    /// Returns whether [`Kernel::event`] listens.
    #[inline]
    fn traces(&self) -> bool {
        false
    }

    /// Returns whether [`Kernel::event`] listens to requests and frees; asked in each.
    ///
    /// For a kernel that reports those itself.
    #[inline]
    fn traces_calls(&self) -> bool {
        self.traces()
    }

    /// Takes an event: what Linux calls a tracepoint.
    ///
    /// Context: any in which the allocator is called; a lock of the allocator may be held.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// Takes a change of a zone's free memory, for a kernel that keeps counts of its own.
    ///
    /// Context: a lock of the allocator is held, and interrupts are off.
    #[inline]
    fn free_changed(&self, zone: ZoneIdx, change: FreeChange) {
        let _ = (zone, change);
    }

    /// Takes a change of the frames in a zone's depot. Context: as [`Kernel::free_changed`].
    #[inline]
    fn stored_changed(&self, zone: ZoneIdx, frames: i64) {
        let _ = (zone, frames);
    }

    /// Takes the new type of a pageblock, by its first frame. Context: as [`Kernel::free_changed`].
    #[inline]
    fn retyped(&self, pfn: Pfn, migratetype: MigrateType) {
        let _ = (pfn, migratetype);
    }

    /// Frees memory through the allocator's own calls; returns the number of frames.
    ///
    /// Its own requests carry `__GFP_MEMALLOC`, or ask for no reclaim.
    ///
    /// Context: a task, without locks or pins of the allocator. Preemption and interrupts are as the request's caller
    /// had them. So a caller that holds either off asks with `GFP_NOWAIT` or `GFP_ATOMIC`, as in Linux.
    fn reclaim(&self, need: &Need) -> Reclaimed {
        let _ = need;
        Reclaimed { frames: 0 }
    }

    /// Returns whether [`Kernel::migrate`] moves blocks.
    fn migrates(&self) -> bool {
        false
    }

    /// Moves an allocated, movable block from `from` to `to`, and frees `from`. Context: as [`Kernel::reclaim`].
    ///
    /// # Errors
    /// [`Busy`] if it cannot move now; `to` then belongs to the allocator again.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let _ = (from, to, order);
        Err(Busy)
    }
}

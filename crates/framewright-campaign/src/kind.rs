//! The kinds of fault, by name: the denominator of the campaign's coverage.
//!
//! A seed enables a random half of them (swarm testing): a fault that always comes hides the states that are reached
//! only without it. A kind counts as *hit* when it took effect, not when it was only planned: a refill was refused, a
//! wrong free was made and refused, a lock's holder was stopped while it held the lock.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal;)+) => {
        /// A kind of fault.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$name),+];

            /// Returns the kind's name.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$name => $text,)+ }
            }

            /// Returns what happens, in a sentence.
            pub const fn what(self) -> &'static str {
                match self { $(Kind::$name => concat!($($doc),+),)+ }
            }
        }
    };
}

kinds! {
    /// A whole request fails as if no zone had memory.
    RequestFails "request-fails";
    /// A refill of a per-CPU list returns nothing.
    RefillFails "refill-fails";
    /// A CPU is refused its own lists, as if another CPU were draining them.
    ListsRefused "lists-refused";
    /// A block of a range cannot be isolated.
    IsolationFails "isolation-fails";
    /// A request that found nothing drains no list.
    DrainFails "drain-fails";
    /// A block is freed twice.
    DoubleFree "double-free";
    /// A frame that is no memory is freed.
    ForeignFree "foreign-free";
    /// A block is freed by a frame that is not aligned to its order.
    MisalignedFree "misaligned-free";
    /// A block is freed with another order.
    WrongOrderFree "wrong-order-free";
    /// A page inside a block is freed.
    TailFree "tail-free";
    /// A withheld frame is freed.
    OfflineFree "offline-free";
    /// A block is split by another order than its own.
    WrongSplit "wrong-split";
    /// A request has an impossible order, range, alignment, node or flags.
    BadRequest "bad-request";
    /// A freed block was written to before its next use.
    WrittenAfterFree "written-after-free";
    /// A request finds no memory, because memory is used up or in pieces.
    Exhausted "exhausted";
    /// A bulk request gets fewer blocks than it asked for.
    BulkCutShort "bulk-cut-short";
    /// Reclaim frees nothing.
    ReclaimNothing "reclaim-nothing";
    /// Reclaim frees nothing and says that it did.
    ReclaimLies "reclaim-lies";
    /// Reclaim panics.
    ReclaimPanics "reclaim-panics";
    /// Reclaim allocates and frees by itself.
    ReclaimReenters "reclaim-reenters";
    /// A block is not moved.
    MoveRefused "move-refused";
    /// A block is said to be moved, but stays, and its new place is freed.
    MoveLies "move-lies";
    /// The callback that moves blocks panics.
    MovePanics "move-panics";
    /// The callback that moves blocks allocates and frees by itself.
    MoveReenters "move-reenters";
    /// A block's owner frees it while it is being moved.
    MovedBlockFreed "moved-block-freed";
    /// An interrupt between two accesses allocates.
    InterruptAllocates "interrupt-allocates";
    /// An interrupt between two accesses frees.
    InterruptFrees "interrupt-frees";
    /// An NMI between two accesses allocates.
    NmiAllocates "nmi-allocates";
    /// An NMI between two accesses frees.
    NmiFrees "nmi-frees";
    /// An NMI makes a call that needs a CPU, or a wrong free.
    NmiWrongCall "nmi-wrong-call";
    /// An NMI interrupts an interrupt or an NMI.
    NmiNested "nmi-nested";
    /// An interrupt or NMI comes while its CPU holds a zone lock.
    NmiInLock "nmi-in-lock";
    /// A block is freed while its zone is locked, and waits for the lock's holder.
    FreeDeferred "free-deferred";
    /// A thread goes on with another CPU's number in the middle of a call.
    CpuChanged "cpu-changed";
    /// The hint for the nearest node is wrong.
    NearIsFar "near-is-far";
    /// A CPU in the middle of a call is drained by another.
    CpuDrained "cpu-drained";
    /// A CPU goes offline while others are in the middle of calls.
    CpuOffline "cpu-offline";
    /// A thread is stopped while it holds a zone lock.
    ZoneHolderStopped "zone-holder-stopped";
    /// A thread is stopped while it has claimed a CPU's lists.
    ListsHolderStopped "lists-holder-stopped";
    /// A thread is stopped while it holds the lock of a depot.
    DepotHolderStopped "depot-holder-stopped";
    /// A thread is stopped between two accesses.
    ThreadStopped "thread-stopped";
    /// A wait of limited patience is given up at the first look.
    PatienceOver "patience-over";
    /// A fence of all CPUs is forbidden to a request that must not wait.
    FenceForbidden "fence-forbidden";
    /// The clock stands still.
    ClockStopped "clock-stopped";
    /// The clock jumps back.
    ClockBack "clock-back";
    /// The clock jumps ahead.
    ClockAhead "clock-ahead";
    /// A sleep ends at once.
    SleepCutShort "sleep-cut-short";
    /// Background reclaim is woken and does not come.
    KswapdStalled "kswapd-stalled";
    /// Background compaction is woken and does not come.
    KcompactdStalled "kcompactd-stalled";
    /// Memory is taken offline while others are in the middle of calls.
    MemoryOffline "memory-offline";
    /// A range cannot be taken offline, and all of it is as before.
    OfflineRefused "offline-refused";
    /// Memory is added.
    MemoryAdded "memory-added";
    /// A pageblock gets another type.
    Retyped "retyped";
    /// The allocator is held still while others are in the middle of calls.
    Frozen "frozen";
    /// A pass of free page reporting is given up, and its blocks are free again.
    ReportDropped "report-dropped";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let found = Kind::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| format!("{text:?} is no kind of fault"))
    }
}

/// Number of kinds.
pub const COUNT: usize = Kind::ALL.len();
const _: () = assert!(COUNT <= 64, "a set of kinds is a word of 64 bits");

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kinds(pub u64);

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds(u64::MAX >> (64 - COUNT));

    /// Returns whether the set has the kind.
    #[inline]
    pub const fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 != 0
    }

    /// Returns the set without the kind.
    pub const fn without(self, kind: Kind) -> Kinds {
        Kinds(self.0 & !(1 << kind as u8))
    }

    /// Returns the kinds of the set.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }
}

/// How often each kind took effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hits(pub [u64; COUNT]);

impl Default for Hits {
    fn default() -> Hits {
        Hits([0; COUNT])
    }
}

impl Hits {
    /// Adds the hits of another run.
    pub fn add(&mut self, more: &Hits) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| *sum += more);
    }

    /// Returns the kinds that took effect.
    pub fn kinds(&self) -> Kinds {
        Kinds(self.0.iter().enumerate().fold(0, |set, (at, hits)| set | u64::from(*hits != 0) << at))
    }
}

/// Counters of hits that the parts of a run share.
#[derive(Debug)]
pub(crate) struct Counters([Cell<u64>; COUNT]);

impl Default for Counters {
    fn default() -> Counters {
        Counters(std::array::from_fn(|_| Cell::new(0)))
    }
}

impl Counters {
    pub(crate) fn count(&self, kind: Kind) {
        let counter = &self.0[kind as usize];
        counter.set(counter.get() + 1);
    }

    pub(crate) fn hits(&self) -> Hits {
        Hits(std::array::from_fn(|at| self.0[at].get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_apart_and_parse_back() {
        for (number, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
            assert_eq!(kind.name().parse(), Ok(*kind));
            assert!(Kinds::ALL.has(*kind) && !Kinds::ALL.without(*kind).has(*kind));
        }
        assert_eq!(Kinds::ALL.iter().count(), COUNT);
        assert!("double".parse::<Kind>().is_err());
    }
}

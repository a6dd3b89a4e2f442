//! Sizes of per-CPU lists that follow their use, where the mechanisms say `pcp-size=tuned` (as in Linux 6.7).
//!
//! A fixed `high` is too small for a CPU that allocates and frees much at a time: each batch beyond it is a trip to the
//! zone lock. Here a CPU's lists of a zone may hold any number of frames between `high` as computed at boot and
//! [`most`].
//!
//! | when | `high` | frames moved |
//! |---|---|---|
//! | a ring of single pages is refilled | grows by a batch | a batch, doubled each time until a free, if room permits |
//! | the lists hold `high` frames | grows to the frames freed in a row, and a batch | the frames freed in a row |
//! | either, and the zone is below its high mark | shrinks by that much, not below the fixed one | as above |
//! | a CPU has taken [`PERIOD`] blocks | shrinks by an eighth | the excess, but at most [`DOUBLINGS`] doubled batches |
//!
//! A refill that finds nothing changes no size: a request that fails may try several times.
//!
//! "In a row" forgets: the number of freed frames is halved after each allocation, and the doubling after each free.
//!
//! # Time
//!
//! Linux uses a timer that takes an eighth off each second. The core has no timer, and the clock of a machine may stand
//! still. So a CPU's own allocations are its time. A CPU that moves from much work to little frees what it no longer
//! needs. The cost is one count, in a line that the CPU writes anyway.
//!
//! A CPU that stops altogether keeps its blocks until a drain, as with a fixed size.
//!
//! Rejected: trips to the zone as the measure of time. A CPU whose lists are too large makes none.
//!
//! All words belong to the owner. A claimer only takes blocks out and reads none of the words.

use crate::policy::pcp_size::PcpSize;
use crate::seam::compiled::Compiled;
use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};

/// Most doublings of a refill (`CONFIG_PCP_BATCH_SCALE_MAX`).
const DOUBLINGS: u32 = 5;
/// Blocks after which `high` decays.
///
/// A busy CPU makes a million allocations in a second; the period is then sixteen milliseconds.
const PERIOD: u32 = 1 << 14;
/// Divisor for the part of the zone that all CPUs of a node may list.
///
/// Linux: `MIN_PERCPU_PAGELIST_HIGH_FRACTION`.
const FRACTION: u64 = 8;
/// Most frames that one CPU's lists of a zone hold, a batch included.
///
/// 64 MiB in pages of 4 KiB. Rings are arrays, and have room for that many from the start.
const CAP: u64 = 1 << 14;

/// Returns the frames that `high` grows to at most.
///
/// This is a CPU's share of an eighth of the zone, within the cap, less the batch that may be added.
pub(crate) fn most(managed: u64, cpus: u64, batch: u32) -> u32 {
    let share = (managed / FRACTION).checked_div(cpus).unwrap_or(0);
    (share.min(CAP) as u32).saturating_sub(batch)
}

record! {
    /// The size of one CPU's lists of one zone, and the counts that determine it.
    ///
    /// Invariant T1: `size.high ≤ high ≤ most`, where it is on.
    pub(crate) struct Autotune<M: Machine> {
        word high: M::U32,
        word doublings: M::U32,
        /// Frames freed in a row.
        word freed: M::U32,
        /// Blocks taken since `high` decayed.
        word taken: M::U32,
        /// 0 if the size is fixed.
        fixed most: u32,
    }
}

/// A refill of a ring: the frames to fetch, and the size of the lists after it.
#[derive(Clone, Copy)]
pub(crate) struct TunedRefill {
    pub(crate) frames: u32,
    high: u32,
    doublings: u32,
}

impl<M: Machine> Autotune<M> {
    /// Starts with the fixed size, and keeps it if `most` is 0.
    ///
    /// Otherwise `most` is no less than the fixed size (`Config::pcp_most_of`).
    pub(crate) fn begin(&mut self, size: PcpSize, most: u32) {
        self.most = most;
        self.high.store(size.high, Ordering::Relaxed);
    }

    /// Whether the size follows the use.
    pub(crate) fn is_on(&self) -> bool {
        M::MAY_TUNE && self.most != 0
    }

    /// Returns the present `high`.
    pub(crate) fn high(&self) -> u32 {
        self.high.load(Ordering::Relaxed)
    }

    fn within(&self, high: u32, size: PcpSize) -> u32 {
        high.min(self.most).max(size.high)
    }

    fn set_high(&self, high: u32, size: PcpSize) -> u32 {
        let high = self.within(high, size);
        self.high.store(high, Ordering::Relaxed);
        high
    }

    /// Returns how many frames to fetch for an empty ring, and how the size adapts if there are any.
    ///
    /// `single`: the ring holds single pages, not larger blocks. `count`: frames in the other rings. `scarce`: the zone
    /// is below its high mark, so lists shrink.
    pub(crate) fn refill(&self, size: PcpSize, single: bool, count: u32, scarce: bool) -> TunedRefill {
        let (batch, high) = (size.batch, self.high());
        let high = if scarce { high.saturating_sub(batch) } else { high.saturating_add(batch) };
        let high = self.within(high, size);
        let doublings = self.doublings.load(Ordering::Relaxed);
        if !single || batch <= 1 {
            return TunedRefill { frames: batch, high, doublings };
        }
        let room = high.saturating_sub(count).saturating_sub(batch).max(batch);
        let wanted = batch << doublings.min(DOUBLINGS);
        let may_double = wanted <= room && doublings < DOUBLINGS;
        TunedRefill { frames: wanted.min(room), high, doublings: doublings.wrapping_add(may_double.into()) }
    }

    /// Notes a refill that found blocks.
    pub(crate) fn note_refilled(&self, refill: TunedRefill) {
        self.high.store(refill.high, Ordering::Relaxed);
        self.doublings.store(refill.doublings, Ordering::Relaxed);
    }

    /// Counts a block that was taken; returns whether `high` must decay now.
    pub(crate) fn note_taken(&self) -> bool {
        halve(&self.freed);
        let taken = self.taken.load(Ordering::Relaxed).wrapping_add(1);
        let is_over = taken >= PERIOD;
        self.taken.store(if is_over { 0 } else { taken }, Ordering::Relaxed);
        is_over
    }

    /// Lets `high` decay; returns how many of the `count` frames to free.
    pub(crate) fn decay(&self, size: PcpSize, count: u32) -> u32 {
        let high = self.high();
        // Not all at once: interrupts are off meanwhile.
        let high = high.saturating_sub(high / 8).max(count.saturating_sub(size.batch << DOUBLINGS));
        count.saturating_sub(self.set_high(high, size))
    }

    /// Counts a freed block of `frames` frames.
    pub(crate) fn note_freed(&self, frames: u32, batch: u32) {
        halve(&self.doublings);
        let freed = self.freed.load(Ordering::Relaxed).saturating_add(frames);
        self.freed.store(freed.min(batch << DOUBLINGS), Ordering::Relaxed);
    }

    /// Returns how many of the `count` frames to free; none below `high`.
    ///
    /// `scarce` is called only at `high`: it returns whether the zone is below its high mark.
    pub(crate) fn surplus(&self, size: PcpSize, count: u32, scarce: impl FnOnce() -> bool) -> u32 {
        let (batch, high, freed) = (size.batch, self.high(), self.freed.load(Ordering::Relaxed));
        if count < high {
            return 0;
        }
        if scarce() {
            self.set_high(high.saturating_sub(freed.max(batch)), size);
        } else {
            self.set_high(high.max(freed.saturating_add(batch)), size);
        }
        freed.min(high.saturating_sub(batch)).max(batch)
    }
}

fn halve<W: Word<u32>>(word: &W) {
    let value = word.load(Ordering::Relaxed);
    // Usually there is nothing to halve, and nothing to write.
    if value != 0 {
        word.store(value / 2, Ordering::Relaxed);
    }
}

//! Sizes of per-CPU lists that follow their use, where the mechanisms say `pcp-size=tuned` (as in Linux 6.7).
//!
//! A fixed `high` is too small for who allocates and frees much at a time, and each batch beyond it is a trip to the zone lock. Here a CPU's
//! lists of a zone may have any number of frames between `high` as computed at boot and [`most`].
//!
//! | when | `high` | frames moved |
//! |---|---|---|
//! | a ring of single pages is refilled | grows by a batch | a batch; twice as many each time, until something is freed, as far as there is room |
//! | there are `high` frames | grows to what was freed in a row, and a batch | as many as were freed in a row |
//! | either, and the zone is below its high mark | shrinks by as much, down to the fixed one | the same |
//! | a CPU has taken [`PERIOD`] blocks | shrinks by an eighth | what is above it then, but at most [`DOUBLINGS`] doubled batches |
//!
//! "In a row" forgets: what was freed counts half after each allocation, and so does what was doubled after each free.
//!
//! # Time
//!
//! Linux has a timer take an eighth off each second. The core has no timer, and the clock of a machine may stand still. So a CPU's own
//! allocations are its time: who moves from much work to little gives back what it no longer needs, and pays a count in a line that it
//! writes anyway. (Trips to the zone would not do: whose lists are too large makes none.) Who stops altogether keeps what it
//! has, as with a fixed size, until somebody drains.
//!
//! All words are the owner's; a claimer, who only takes out, looks at none.

use crate::policy::pcp_size::PcpSize;
use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Word};

/// How often a refill is doubled at most (`CONFIG_PCP_BATCH_SCALE_MAX`).
const DOUBLINGS: u32 = 5;
/// Blocks after which `high` decays: at the million allocations that a busy CPU makes in a second, sixteen milliseconds.
const PERIOD: u32 = 1 << 14;
/// Part of the zone that all CPUs of a node may have on their lists (`MIN_PERCPU_PAGELIST_HIGH_FRACTION`).
const FRACTION: u64 = 8;
/// Frames that one CPU's lists of a zone have at most, a batch included: 64 MiB in pages of 4 KiB. Rings are arrays, and have room for
/// as many from the start.
const CAP: u64 = 1 << 14;

/// Frames that `high` grows to at most: a CPU's share of an eighth of the zone, within the cap, less the batch that may come on top.
pub(crate) fn most(managed: u64, cpus: u64, batch: u32) -> u32 {
    let share = (managed / FRACTION).checked_div(cpus).unwrap_or(0);
    (share.min(CAP) as u32).saturating_sub(batch)
}

/// One CPU's words for one zone. See the module's description.
///
/// Invariant T1: `size.high ≤ high ≤ most`, where it is on.
pub(crate) struct Autotune<M: Machine> {
    high: M::U32,
    doublings: M::U32,
    /// Frames freed in a row.
    freed: M::U32,
    /// Blocks taken since `high` decayed.
    taken: M::U32,
    /// Fixed at boot; 0 if the size is.
    most: u32,
}

impl<M: Machine> Default for Autotune<M> {
    fn default() -> Self {
        Autotune { high: Word::new(0), doublings: Word::new(0), freed: Word::new(0), taken: Word::new(0), most: 0 }
    }
}

impl<M: Machine> Autotune<M> {
    /// Begins with the fixed size, and stays at it if `most` is 0. Otherwise that is no less (`Config::pcp_most_of`).
    pub(crate) fn begin(&mut self, size: PcpSize, most: u32) {
        self.most = most;
        self.high.store(size.high, Ordering::Relaxed);
    }

    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        tell(visit, format_args!("tuning.high"), &self.high);
        tell(visit, format_args!("tuning.doublings"), &self.doublings);
        tell(visit, format_args!("tuning.freed"), &self.freed);
        tell(visit, format_args!("tuning.taken"), &self.taken);
    }

    /// Whether the size follows the use.
    pub(crate) fn is_on(&self) -> bool {
        self.most != 0
    }

    /// The present `high`.
    pub(crate) fn high(&self) -> u32 {
        self.high.load(Ordering::Relaxed)
    }

    fn set_high(&self, high: u32, size: PcpSize) -> u32 {
        let high = high.min(self.most).max(size.high);
        self.high.store(high, Ordering::Relaxed);
        high
    }

    /// A ring is empty, of `single` pages or larger blocks, and there are `count` frames in others. Returns how many to
    /// fetch. In a `scarce` zone lists get smaller.
    pub(crate) fn refill(&self, size: PcpSize, (single, count): (bool, u32), scarce: bool) -> u32 {
        let (batch, high) = (size.batch, self.high());
        let high = if scarce { high.saturating_sub(batch) } else { high.saturating_add(batch) };
        let high = self.set_high(high, size);
        if !single || batch <= 1 {
            return batch;
        }
        let room = high.saturating_sub(count).saturating_sub(batch).max(batch);
        let doublings = self.doublings.load(Ordering::Relaxed);
        let wanted = batch << doublings.min(DOUBLINGS);
        if wanted <= room && doublings < DOUBLINGS {
            self.doublings.store(doublings.wrapping_add(1), Ordering::Relaxed);
        }
        wanted.min(room)
    }

    /// A block was taken. Returns whether it is time for `high` to decay.
    pub(crate) fn note_taken(&self) -> bool {
        halve(&self.freed);
        let taken = self.taken.load(Ordering::Relaxed).wrapping_add(1);
        let is_over = taken >= PERIOD;
        self.taken.store(if is_over { 0 } else { taken }, Ordering::Relaxed);
        is_over
    }

    /// Lets `high` decay; there are `count` frames. Returns how many are to go.
    pub(crate) fn decay(&self, size: PcpSize, count: u32) -> u32 {
        let high = self.high();
        // Not all at once: interrupts are off meanwhile.
        let high = high.saturating_sub(high / 8).max(count.saturating_sub(size.batch << DOUBLINGS));
        count.saturating_sub(self.set_high(high, size))
    }

    /// A block of so many frames was freed.
    pub(crate) fn note_freed(&self, frames: u32, batch: u32) {
        halve(&self.doublings);
        let freed = self.freed.load(Ordering::Relaxed).saturating_add(frames);
        self.freed.store(freed.min(batch << DOUBLINGS), Ordering::Relaxed);
    }

    /// How many frames are to go, as there are `count`: none below `high`. `scarce` is asked otherwise, whether the zone is below its
    /// high mark.
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
    // Mostly there is nothing to halve, and nothing to write.
    if value != 0 {
        word.store(value / 2, Ordering::Relaxed);
    }
}

//! Why a request got no memory, what memory there was, and what helps.

use core::fmt;
use core::num::NonZeroU32;

/// Why a request got no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// Every zone that the request may use is at its watermark, and reclaim brought nothing.
    Watermark,
    /// There is free memory above the watermarks, but no free block of this order.
    Fragmented,
    /// No zone with memory satisfies the request's flags, policy and address limit.
    NoZone,
    /// The request must not wait, and what it may use is exhausted.
    WouldWait,
    /// A test injected the failure.
    Fault,
    /// The machine reports a CPU that the allocator was not set up with.
    NoCpu,
}

/// Free memory at the moment at which a request failed for good, in frames.
///
/// It says where a remedy lies. Frames on the free lists of the request's zones are kept back by the marks, or lie in
/// blocks that are too small. Frames on per-CPU lists come back by a drain. Frames elsewhere are for other flags,
/// another policy or a higher address limit. Other CPUs allocate and free meanwhile, so each figure is that of a moment
/// of its own.
// Only the 0 of `elsewhere` is no figure. A word with more such values would hold the discriminant of `AllocError` too,
// and code that never sees a figure would be larger for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    free: u32,
    cached: u32,
    /// One more than the frames elsewhere.
    elsewhere: NonZeroU32,
}

impl Shortage {
    /// Takes the figures; none of them exceeds 32 bits, because no memory map has more frames.
    pub(crate) fn new(free: u64, cached: u64, elsewhere: u64) -> Shortage {
        let [free, cached, elsewhere] =
            [free, cached, elsewhere].map(|frames| u32::try_from(frames).unwrap_or(u32::MAX));
        Shortage { free, cached, elsewhere: NonZeroU32::MIN.saturating_add(elsewhere) }
    }

    /// Returns the frames on the free lists of the zones that the request may use.
    ///
    /// A zone that the address limit cuts counts with all its frames, those above the limit too.
    pub const fn free(&self) -> u32 {
        self.free
    }

    /// Returns the cached frames of these zones: on per-CPU lists, in depots, and free in pageblocks that CPUs own.
    pub const fn cached(&self) -> u32 {
        self.cached
    }

    /// Returns the frames on the free lists of the zones that the request may not use.
    pub const fn elsewhere(&self) -> u32 {
        self.elsewhere.get().wrapping_sub(1)
    }

    /// Writes the figures, and what helps a request that failed for this reason.
    pub(super) fn tell(&self, why: Why, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "; {self}")?;
        self.remedy(why).map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }

    /// Returns what helps; the figures decide before the reason does.
    const fn remedy(&self, why: Why) -> Option<&'static str> {
        match why {
            _ if self.free == 0 && self.cached == 0 && self.elsewhere() != 0 => {
                Some("other flags or another policy reach those elsewhere")
            }
            // Other requests drained what would have helped them.
            Why::WouldWait if self.cached > self.free => Some("a drain brings back those on the lists"),
            Why::WouldWait => Some("__GFP_DIRECT_RECLAIM lets it wait, and min_free keeps a reserve for GFP_ATOMIC"),
            Why::Watermark if self.free != 0 => Some("a smaller order or a smaller min_free may reach the free ones"),
            Why::Fragmented => Some("a smaller order may be free"),
            _ => None,
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, cached, elsewhere) = (self.free(), self.cached(), self.elsewhere());
        write!(f, "free frames: {free} in its zones, {cached} on per-CPU lists there, {elsewhere} elsewhere")
    }
}

impl fmt::Debug for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut figures = f.debug_struct("Shortage");
        figures.field("free", &self.free()).field("cached", &self.cached()).field("elsewhere", &self.elsewhere());
        figures.finish()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::ToString;

    use super::*;
    use crate::types::error::AllocError;

    #[test]
    fn figures_follow_the_reason_and_a_remedy_the_figures() {
        let text = |why, free, cached, elsewhere| {
            AllocError::NoMemory { why, left: Some(Shortage::new(free, cached, elsewhere)) }.to_string()
        };
        assert_eq!(
            text(Why::WouldWait, 12, 4, 0),
            "out of memory for a request that must not wait; free frames: 12 in its zones, 4 on per-CPU lists there, \
             0 elsewhere; __GFP_DIRECT_RECLAIM lets it wait, and min_free keeps a reserve for GFP_ATOMIC"
        );
        let remedy = |why, free, cached, elsewhere| {
            let text = text(why, free, cached, elsewhere);
            text.split_once(" elsewhere").unwrap().1.trim_start_matches("; ").to_string()
        };
        assert_eq!(remedy(Why::WouldWait, 12, 40, 0), "a drain brings back those on the lists");
        assert_eq!(remedy(Why::NoZone, 0, 0, 1), "other flags or another policy reach those elsewhere");
        assert_eq!(remedy(Why::WouldWait, 0, 0, 9), "other flags or another policy reach those elsewhere");
        assert_eq!(remedy(Why::Watermark, 3, 0, 9), "a smaller order or a smaller min_free may reach the free ones");
        assert_eq!(remedy(Why::Watermark, 0, 0, 0), "");
        assert_eq!(remedy(Why::Fragmented, 3, 0, 9), "a smaller order may be free");
        let most = Shortage::new(u64::MAX, 1 << 32, u64::MAX);
        assert_eq!((most.free(), most.cached(), most.elsewhere()), (u32::MAX, u32::MAX, u32::MAX - 1));
        assert_eq!(format!("{:?}", Shortage::new(1, 2, 3)), "Shortage { free: 1, cached: 2, elsewhere: 3 }");
    }
}

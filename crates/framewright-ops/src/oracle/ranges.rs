//! The right answer to a request for exact frames, and free ranges that a request could have had.

use framewright::machine::Machine;
use framewright::{AllocError, Order, Pfn, PfnRange, ZoneIdx};

use crate::oracle::memory::{Memory, Use};
use crate::oracle::rights::Judge;

/// The right answer to a request for exact frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeVerdict {
    /// The request is invalid, for this reason.
    Bad(AllocError),
    /// All is free.
    Serve,
    /// A movable block is in the way, and may be moved.
    Move,
    /// A block is in the way and stays.
    Busy,
}

/// Judges a range by what is in it.
pub(crate) fn range_verdict(memory: &Memory, range: PfnRange, may_move: bool) -> RangeVerdict {
    if let Some(error) = range_refusal(memory, range) {
        return RangeVerdict::Bad(error);
    }
    let mut verdict = RangeVerdict::Serve;
    for (_, known) in memory.frames_in(range) {
        verdict = match known.used {
            Use::Free | Use::Withheld { .. } => verdict,
            Use::Held { movable: true, .. } if may_move && verdict != RangeVerdict::Busy => RangeVerdict::Move,
            Use::Held { .. } => RangeVerdict::Busy,
        };
    }
    verdict
}

/// Returns why no range can have these frames.
///
/// That is the first frame that is no memory, is withheld, or is of another zone than the first.
fn range_refusal(memory: &Memory, range: PfnRange) -> Option<AllocError> {
    if range.is_empty() {
        return Some(AllocError::BadRange(range));
    }
    let zone = memory.known(range.start).map(|known| known.zone);
    (range.start.0..range.end.0).map(Pfn).find_map(|pfn| match memory.known(pfn) {
        None => Some(AllocError::Foreign(pfn)),
        Some(known) if Some(known.zone) != zone => Some(AllocError::OtherZone(pfn)),
        Some(known) if matches!(known.used, Use::Withheld { .. }) => Some(AllocError::Offline(pfn)),
        Some(_) => None,
    })
}

/// Returns a free range that a contiguous request of `frames` frames could have had.
///
/// The range is aligned and in an allowed zone, and `counts` selects each frame.
pub(crate) fn free_range<M: Machine>(
    judge: &Judge<'_, '_, M>,
    frames: u64,
    align: Order,
    counts: impl Fn(ZoneIdx, Pfn) -> bool,
) -> Option<PfnRange> {
    let (_, must) = judge.nodes();
    let highest = judge.request.gfp.highest_zone();
    let below = judge.request.below.unwrap_or(Pfn(u64::MAX));
    // The run of free frames of one zone that ends with this frame.
    let mut run: Option<(ZoneIdx, PfnRange)> = None;
    judge.memory.all().find_map(|(pfn, known)| {
        let zone = known.zone;
        let usable = zone.kind() <= highest && must.contains(zone.node()) && pfn < below && counts(zone, pfn);
        if known.used != Use::Free || !usable {
            run = None;
            return None;
        }
        let start = match run {
            Some((before, run)) if before == zone && run.end == pfn => run.start,
            _ => pfn,
        };
        let free = PfnRange { start, end: pfn.add(1) };
        run = Some((zone, free));
        let first = free.start.align_up(align);
        (first.add(frames) <= free.end).then(|| PfnRange { start: first, end: first.add(frames) })
    })
}

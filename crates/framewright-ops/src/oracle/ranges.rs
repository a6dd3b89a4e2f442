//! What must answer an allocation of exactly these frames, and which free range a request could have had.

use framewright::machine::Machine;
use framewright::{AllocError, Order, Pfn, PfnRange, ZoneIdx};

use crate::oracle::memory::{Memory, Use};
use crate::oracle::rights::Judge;

/// What must answer an allocation of exactly these frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeVerdict {
    /// It makes no sense, for this reason.
    Bad(AllocError),
    /// All is free.
    Serve,
    /// Something movable is in the way, and may be moved.
    Move,
    /// Something stays.
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

/// Why no range can have these frames: the first of them that is no memory, withheld, or of another zone than the range's first.
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

/// A range of free frames that a contiguous request of so many could have had: aligned, in an allowed zone, each frame one that counts.
pub(crate) fn free_range<M: Machine>(
    judge: &Judge<'_, '_, M>,
    frames: u64,
    align: Order,
    counts: impl Fn(ZoneIdx, Pfn) -> bool,
) -> Option<PfnRange> {
    let (_, must) = judge.nodes();
    let highest = judge.request.gfp.highest_zone();
    let below = judge.request.below.unwrap_or(Pfn(u64::MAX));
    // The free frames of one zone that end with the frame at hand.
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

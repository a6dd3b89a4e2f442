//! A pool that CPUs keep full, and whether a request may fail in it.
//!
//! In a case of this kind all requests are for single pages. CPUs allocate, free what any CPU got, and drain; nothing
//! else disturbs memory. Each request that fails is then checked against the promise: *no request fails while frames
//! that it may use under its watermark lie free*.
//!
//! Other CPUs go on meanwhile, so the number of free frames changes all the time. The table here bounds what others had
//! at the worst moment of the call. A frame counts as used from before the call that asks for it until after the call
//! that frees it. As long as its zone is not known, it counts in every zone. If a zone still had a frame above the
//! request's mark all the time, the request must not fail.

use framewright::machine::Machine;
use framewright::report::Source;
use framewright::request::{GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::{Allocator, CpuId, Order, Pfn, Request, ZoneIdx, ZoneKind};
use framewright_ops::rng::Rng;
use framewright_ops::{Handle, Op, Shape, Terms, lowest_mark, zones};

use super::case::Segment;
use super::wrong::{Kind, Wrong};

/// A zone's frames and marks.
struct Zone {
    idx: ZoneIdx,
    start: Pfn,
    end: Pfn,
    managed: u64,
    /// Frames handed out whose free has not ended.
    held: u64,
    min: u64,
    protection: [u64; ZoneKind::COUNT],
}

/// Bounds on the frames in use.
pub(crate) struct Pool {
    zones: Vec<Zone>,
    /// Frames asked for in calls that have not ended.
    asked: u64,
    /// For each CPU in a call: the most frames of each zone that were in use since it asked.
    worst: Vec<Option<Vec<u64>>>,
}

impl Pool {
    /// Makes a pool of which nothing is used. Zones without memory do not count.
    pub(crate) fn new<M: Machine>(pages: &Allocator<'_, M>, cpus: usize) -> Pool {
        let zones = zones(pages.nodes()).filter_map(|idx| {
            let zone = pages.zone(idx).filter(|zone| zone.managed != 0)?;
            let (start, end) = (zone.start_pfn, zone.start_pfn.add(zone.spanned));
            let (managed, min, protection) = (zone.managed, zone.min, zone.protection);
            Some(Zone { idx, start, end, managed, held: 0, min, protection })
        });
        Pool { zones: zones.collect(), asked: 0, worst: vec![None; cpus] }
    }

    fn note(&mut self) {
        for worst in self.worst.iter_mut().flatten() {
            for (worst, zone) in worst.iter_mut().zip(&self.zones) {
                *worst = (*worst).max(zone.held + self.asked);
            }
        }
    }

    /// Notes that a CPU asks for pages.
    pub(crate) fn ask(&mut self, cpu: usize, frames: u64) {
        self.asked += frames;
        self.worst[cpu] = Some(vec![0; self.zones.len()]);
        self.note();
    }

    /// Notes the pages that a CPU got, and checks whether the call may have failed.
    pub(crate) fn answer(&mut self, cpu: usize, (frames, request): (u64, &Request), got: &[Pfn]) -> Result<(), Wrong> {
        self.asked -= frames;
        for pfn in got {
            if let Some(zone) = self.zone_mut(*pfn) {
                zone.held += 1;
            }
        }
        let worst = self.worst[cpu].take().unwrap_or_default();
        let missing = frames - got.len() as u64;
        let served = self.zones.iter().zip(worst).find(|(zone, worst)| {
            let highest = request.gfp.highest_zone();
            let keep = lowest_mark(zone.min, request.gfp) + zone.protection[highest.index()];
            // The frames that this call did not get were free at the worst moment too.
            missing != 0 && zone.idx.kind() <= highest && zone.managed.saturating_sub(worst - missing) > keep
        });
        match served {
            None => Ok(()),
            Some((zone, _)) => {
                let text = format!(
                    "{missing} of {frames} pages were not served with {}, though {} on node {} had free frames all \
                        the time",
                    request.gfp,
                    zone.idx.kind(),
                    zone.idx.node().0
                );
                Err(Wrong { kind: Kind::Reach, text })
            }
        }
    }

    /// Notes that a free of these blocks has ended.
    pub(crate) fn freed(&mut self, blocks: &[(Pfn, Order)]) {
        for (pfn, order) in blocks {
            if let Some(zone) = self.zone_mut(*pfn) {
                zone.held -= order.frames();
            }
        }
    }

    fn zone_mut(&mut self, pfn: Pfn) -> Option<&mut Zone> {
        self.zones.iter_mut().find(|zone| zone.start <= pfn && pfn < zone.end)
    }
}

/// Makes a machine's memory a pool: no memory of CMA and no zone Movable.
pub(crate) fn shape(mut shape: Shape) -> Shape {
    shape.movable.clear();
    shape.cma.clear();
    shape
}

/// Returns what each CPU does in one segment.
///
/// Together the CPUs ask for a little more than there is, and free one page for each that they get.
pub(crate) fn segment(rng: &mut Rng, (cpus, frames): (usize, u64), next: &mut u32, operations: u64) -> Segment {
    let flags = [GFP_NOWAIT, GFP_NOWAIT, GFP_ATOMIC, GFP_KERNEL, GFP_HIGHUSER_MOVABLE];
    let mut lists: Segment = vec![Vec::new(); cpus];
    let mut held: Vec<Vec<Handle>> = vec![Vec::new(); cpus];
    let each = frames / cpus as u64;
    for number in 0..operations {
        let cpu = (number % cpus as u64) as usize;
        let mut name = || {
            *next += 1;
            Handle(*next)
        };
        let is_full = held[cpu].len() as u64 >= each + each / 16;
        let op = match rng.below(32) {
            0 if rng.one_in(8) => Op::DrainAll,
            0 => Op::DrainCpu(CpuId(rng.below(cpus as u64) as u16)),
            _ if is_full || rng.below(if number < operations / 2 { 8 } else { 2 }) == 0 => {
                // A page of this CPU or of another.
                let owner = if rng.one_in(4) { rng.below(cpus as u64) as usize } else { cpu };
                match held[owner].len() {
                    0 => Op::Refresh(CpuId(cpu as u16)),
                    len => Op::Free(held[owner].swap_remove(rng.below(len as u64) as usize)),
                }
            }
            _ => {
                let name = name();
                held[cpu].push(name);
                Op::Alloc { name, order: Order(0), terms: Terms::new(*rng.pick(&flags)) }
            }
        };
        lists[cpu].push(op);
    }
    lists
}

//! Memory maps for tests of boot, with ranges over them.

use framewright::machine::{Machine, Ordering, Word};
use framewright::units::{NodeId, PfnRange};
use framewright::{Config, Mechanisms, Parts, Region};
use proptest::prelude::*;

/// Regions from gaps and lengths, with borders anywhere; and `N` lists of ranges over them, in any order.
pub(crate) fn maps<const N: usize>() -> impl Strategy<Value = (Vec<Region>, [Vec<PfnRange>; N])> {
    let region = (0..5000_u64, 1..30_000_u64, 0..4_u8, any::<bool>());
    let regions = proptest::collection::vec(region, 1..6).prop_map(|all| {
        let mut next = 0x100;
        let place = |(gap, frames, usable, far): (u64, u64, u8, bool)| {
            let start = next + gap + if far { 1 << 20 } else { 0 };
            next = start + frames;
            let (at, node) = (start..next, 0);
            if usable == 0 { Region::reserved(at.start, at.end, node) } else { Region::usable(at.start, at.end, node) }
        };
        all.into_iter().map(place).collect::<Vec<Region>>()
    });
    let range = (any::<prop::sample::Index>(), 0..40_000_u64, 0..3_000_u64);
    let lists = [(); N].map(|()| proptest::collection::vec(range.clone(), 0..5));
    (regions, lists).prop_map(|(regions, lists)| {
        let place = |(region, skip, frames): (prop::sample::Index, u64, u64)| {
            let start = region.get(&regions).range.start.0 + skip;
            PfnRange::new(start, start + frames)
        };
        // A range above all memory is refused.
        let end = regions.last().map(|region| region.range.end);
        let lists = lists.map(|list| list.into_iter().map(place).filter(|range| Some(range.start) < end).collect());
        (regions, lists)
    })
}

/// The frames of usable regions.
pub(crate) fn usable_frames(regions: &[Region]) -> impl Iterator<Item = u64> {
    regions.iter().filter(|region| region.usable).flat_map(|region| region.range.start.0..region.range.end.0)
}

/// Writes to every descriptor of frames and pageblocks, as memory that does not start zeroed has any contents.
pub(crate) fn dirty<M: Machine>(parts: &mut Parts<'_, M>) {
    parts.states.fill_with(|| Word::new(u64::MAX));
    parts.heads.fill_with(|| Word::new(0x20));
    parts.pageblocks.fill_with(|| Word::new(u32::MAX));
    for link in parts.links.iter() {
        link.words().into_iter().for_each(|(_, word)| word.store(1, Ordering::Relaxed));
    }
}

/// Two nodes with five zones: DMA, DMA32 with CMA memory, Normal and Movable of node 0, and Normal of node 1.
const NODES: [Region; 4] = [
    Region::usable(1, 0x1000, 0),
    Region::usable(0x1_0000, 0x1_2000, 0),
    Region::usable(0x10_0000, 0x10_2000, 0),
    Region::usable(0x18_0000, 0x18_2000, 1),
];
const MOVABLE: [PfnRange; 1] = [PfnRange::new(0x10_1800, 0x10_2000)];
/// The CMA memory of [`zones_of_two_nodes`].
pub(crate) const CMA: PfnRange = PfnRange::new(0x1_1000, 0x1_1400);
/// The CPUs of [`zones_of_two_nodes`].
pub(crate) const CPUS: [NodeId; 3] = [NodeId(0), NodeId(0), NodeId(1)];

/// Returns a configuration of two nodes with five zones.
pub(crate) fn zones_of_two_nodes(mechanisms: Mechanisms) -> Config<'static> {
    Config { mechanisms, movable: &MOVABLE, cma: &[CMA], ..Config::new(&NODES, &CPUS) }
}

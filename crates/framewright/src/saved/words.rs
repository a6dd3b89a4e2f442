//! The words of an allocator in the order in which they are saved, and what two allocators must have in common.
//!
//! Records come first, in the order in which [`record!`](crate::seam::field) declares their words; arrays follow. All
//! that is no word is fixed at boot. It is not saved, but compared ([`shape`]).

use core::fmt::Write;

use crate::frame::frame::{Frames, Part};
use crate::policy::features::Features;
use crate::saved::crc::Crc;
use crate::seam::field::{AnyWord, Record, Typed};
use crate::seam::machine::{Machine, Word};
use crate::types::units::Frame;
use crate::zonelist::world::World;

/// What a word belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// The state of a frame.
    State(Frame),
    /// The link of a frame.
    Link(Frame),
    /// Anything else.
    Other,
}

/// Passes every word of an allocator to `visit`.
pub(super) fn each_word<M: Machine>(world: &World<'_, M>, visit: &mut dyn FnMut(Of, &dyn AnyWord)) {
    let shared = &world.shared;
    let mut other = |_: core::fmt::Arguments<'_>, word: &dyn AnyWord| visit(Of::Other, word);
    world.zones.iter().for_each(|zone| zone.words(&mut other));
    shared.cpus.iter().for_each(|cpu| cpu.words(&mut other));
    shared.events.words(&mut other);
    world.node_states.words(&mut other);
    shared.stats.words(&mut other);
    shared.stats.diffs.records.iter().for_each(|diffs| diffs.words(&mut other));
    shared.node_stats.every_told().for_each(|(_, told)| told.words(&mut other));
    shared.node_stats.every_kept().for_each(|(_, _, diffs)| diffs.words(&mut other));
    world.pcps.records.iter().for_each(|pcp| pcp.words(&mut other));
    world.pcps.depots.shards.iter().for_each(|shard| shard.words(&mut other));
    world.pcps.depots.magazines.iter().for_each(|magazine| magazine.words(&mut other));
    shared.clusters.all.iter().for_each(|cluster| cluster.words(&mut other));
    each(world.pcps.slots, visit);
    each(shared.range_locks, visit);
    each(shared.clusters.of, visit);
    let frames = &shared.frames;
    each(frames.owned.owners, visit);
    each(frames.owned.free, visit);
    each(frames.owned.hints, visit);
    each(frames.pageblocks, visit);
    each(frames.heads, visit);
    for (frame, state) in (0..).map(Frame).zip(frames.states) {
        visit(Of::State(frame), &Typed::new(state));
    }
    for (frame, link) in (0..).map(Frame).zip(frames.links) {
        Record::words(link, &mut |_, word| visit(Of::Link(frame), word));
    }
}

fn each<T: Copy + Into<u64> + TryFrom<u64>, W: Word<T>>(words: &[W], visit: &mut dyn FnMut(Of, &dyn AnyWord)) {
    words.iter().for_each(|word| visit(Of::Other, &Typed::new(word)));
}

/// The parts of a shape, by name.
pub(super) const PARTS: [&str; 7] = [
    "the page size and the orders",
    "the memory map",
    "the mechanisms",
    "the CPUs",
    "the zones",
    "the counters",
    "when sections are initialised",
];

/// Returns a check sum of each of the [`PARTS`]: of all that boot fixed.
pub(super) fn shape<M: Machine>(world: &World<'_, M>) -> [u64; PARTS.len()] {
    let frames = &world.shared.frames;
    let sum = |numbers: &mut dyn FnMut(&mut Crc)| {
        let mut crc = Crc::EMPTY;
        numbers(&mut crc);
        crc.sum()
    };
    let orders = sum(&mut |crc| {
        let geometry = frames.geometry;
        crc.add(&[geometry.page_shift, geometry.max_order.0, geometry.pageblock_order.0]);
    });
    let map = sum(&mut |crc| {
        for run in frames.map.runs() {
            [run.pfn.0, run.first.into(), run.frames.into()].iter().for_each(|&number| crc.number(number));
        }
        let zone_of = |index| frames.pageblock(Frame((index as u32) << frames.geometry.pageblock_order.0)).zone_index();
        (0..frames.pageblocks.len()).for_each(|index| crc.number(zone_of(index) as u64));
        each_hole(frames, &mut |hole| crc.number(hole.0.into()));
    });
    let mechanisms = sum(&mut |crc| {
        // Nothing can fail: the check sum takes all text.
        let _ = write!(crc, "{}", world.shared.mechanisms());
        // All but those that need contents or tell more, which shape no word.
        let Features {
            nodes,
            address_limits,
            mobility,
            deferred_frees,
            repair,
            reclaim,
            section_init,
            zero: _,
            hardened: _,
            shortage: _,
        } = M::FEATURES;
        crc.add(&[nodes, address_limits, mobility, deferred_frees, repair, reclaim, section_init].map(u8::from));
    });
    let cpus = sum(&mut |crc| {
        for cpu in world.shared.cpus {
            crc.add(&[cpu.node.0, cpu.has_fast_path.into()]);
        }
        world.zonelists.iter().for_each(|zone| crc.number(zone.index() as u64));
    });
    let zones = sum(&mut |crc| {
        for zone in world.zones {
            [zone.span.start.0, zone.span.end.0, zone.pcp.batch.into(), zone.pcp.high.into()]
                .iter()
                .for_each(|&number| crc.number(number));
            zone.reserve.iter().for_each(|&frames| crc.number(frames));
            crc.add(&[zone.fixed_marks.into()]);
        }
        [world.min_free_frames, world.scale].iter().for_each(|&number| crc.number(number));
    });
    let counters = sum(&mut |crc| {
        for names in [world.zone_counters, world.node_counters] {
            crc.number(names.len() as u64);
            names.iter().for_each(|name| crc.add(name.as_bytes()));
        }
    });
    let sections = sum(&mut |crc| crc.add(&[frames.is_lazy().into()]));
    [orders, map, mechanisms, cpus, zones, counters, sections]
}

/// Passes every frame that has a descriptor and is no memory. Sections that may be added have none.
fn each_hole<M: Machine>(frames: &Frames<'_, M>, visit: &mut dyn FnMut(Frame)) {
    let mut next = 0_u64;
    while next < frames.heads.len() as u64 {
        let frame = Frame(next as u32);
        let end = if frames.is_absent(frame) {
            frame.align_down(frames.geometry.max_order).add(frames.geometry.max_order.frames())
        } else {
            let part = frames.block_at(frame).unwrap_or(Part::Hole);
            if part == Part::Hole {
                visit(frame);
            }
            part.end(frame)
        };
        // A damaged descriptor may end anywhere; the walk goes on upwards.
        next = u64::from(end.0).max(next.saturating_add(1));
    }
}

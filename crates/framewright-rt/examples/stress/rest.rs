//! Checks while all threads rest: every frame is where the shadow says, and `validate` is clean.

use std::sync::{Arc, Barrier};

use framewright::mechanisms::Hardened;
use framewright::report::Source;
use framewright::request::GFP_KERNEL;
use framewright::{CpuId, FrameCounts, MigrateType, NodeId, Order, Pfn, PfnRange, Request, ZoneIdx, ZoneKind};

use crate::shadow::WITHHELD;
use crate::stage::{Block, Checked, Did, Rng, Stage, Tally, lock};

/// Blocks freed by two threads at once in each rest.
const RACES: usize = 40;

/// Checks all blocks with an owner, and that nothing else is allocated.
pub(crate) fn look(stage: &Stage) -> Checked<FrameCounts> {
    let census = stage.pages().validate().map_err(|violation| violation.to_string())?;
    let mut held = 0;
    for shelf in stage.shelves.iter().chain([&stage.exchange]) {
        for block in lock(shelf).iter() {
            stage.check(block)?;
            held += block.range.frames();
        }
    }
    let (owned, withheld) = stage.shadow.count();
    let expected = FrameCounts {
        free: census.free,
        pcp: census.pcp,
        allocated: owned,
        offline: withheld,
        present: stage.arena.frames().frames(),
        ..FrameCounts::default()
    };
    if census != expected || !census.is_conserved() || held != owned {
        return Err(format!("{owned} frames are owned, {held} held and {withheld} withheld, of {census:?}"));
    }
    Ok(census)
}

/// Frees all blocks and brings all memory online.
pub(crate) fn free_all(stage: &Stage) -> Checked {
    for shelf in stage.shelves.iter().chain([&stage.exchange]) {
        let blocks: Vec<Block> = lock(shelf).drain(..).collect();
        blocks.iter().try_for_each(|block| stage.free(block))?;
    }
    let withheld: Vec<PfnRange> = lock(&stage.withheld).drain(..).collect();
    withheld.into_iter().try_for_each(|range| bring_online(stage, range))
}

/// Brings back a range that was taken offline.
pub(crate) fn bring_online(stage: &Stage, range: PfnRange) -> Checked {
    stage.shadow.pass(range, WITHHELD, 0)?;
    match stage.pages().bring_online(range) {
        frames if frames == range.frames() => Ok(()),
        frames => Err(format!("of {range} {frames} frames came online")),
    }
}

/// Zones that have memory, and their frames.
fn zones(stage: &Stage) -> Vec<(ZoneIdx, PfnRange)> {
    let nodes = (0..stage.pages().nodes()).map(|node| NodeId(node as u8));
    let zones = nodes.flat_map(|node| ZoneKind::ALL.map(|kind| ZoneIdx::of(node, kind)));
    let populated = zones.filter_map(|idx| {
        let zone = stage.pages().zone(idx).filter(|zone| zone.present > 0)?;
        Some((idx, PfnRange { start: zone.start_pfn, end: zone.start_pfn.add(zone.spanned) }))
    });
    populated.collect()
}

/// Free blocks of each zone by order, whatever their type.
pub(crate) fn free_blocks(stage: &Stage) -> Vec<Vec<u64>> {
    let of_zone = |idx| stage.pages().zone(idx).map(|zone| zone.nr_free);
    let sums = zones(stage).into_iter().filter_map(|(idx, _)| of_zone(idx));
    sums.map(|orders| orders.iter().map(|types| types.iter().sum()).collect()).collect()
}

/// Checks that all memory is free, and can be one set of largest blocks. Returns the free blocks.
pub(crate) fn look_empty(stage: &Stage) -> Checked<Vec<Vec<u64>>> {
    stage.pages().drain_all();
    let census = look(stage)?;
    if census.free != stage.arena.frames().frames() {
        return Err(format!("all is freed and drained, but {census:?}"));
    }
    // Pageblocks of several types stay apart, as those of the reserve for urgent requests. Free buddies of two types
    // are merged when one of them is next freed.
    let pageblock = stage.pages().geometry().pageblock_order;
    for (_, range) in zones(stage) {
        for (pfn, _) in range.blocks(pageblock) {
            let retyped = stage.pages().set_pageblock_type(pfn, MigrateType::Movable);
            retyped.map_err(|error| format!("pageblock {pfn} is not retyped: {error}"))?;
        }
        let taken = stage.pages().alloc_range(range, GFP_KERNEL);
        taken.map_err(|error| format!("all is free, but {range} cannot be had: {error}"))?;
        stage.pages().free_range(range).map_err(|error| format!("{range} is not freed: {error}"))?;
    }
    stage.pages().drain_all();
    look(stage)?;
    Ok(free_blocks(stage))
}

/// Makes calls that need all other threads at rest: second frees, and CPUs that do not run.
pub(crate) fn disturb(stage: &Arc<Stage>, rng: &mut Rng) -> Checked {
    let mut tally = Tally::default();
    for order in [0, 1, 3, 9] {
        if let Ok(pfn) = stage.pages().alloc(&Request::new(GFP_KERNEL, order)) {
            free_twice(stage, pfn, Order(order), &mut tally)?;
        }
    }
    if stage.plan.mechanisms.hardened != Hardened::Off {
        for turn in 0..RACES {
            free_at_once(stage, Order([0, 1, 3, 9][turn % 4]), &mut tally)?;
        }
    }
    let cpu = CpuId(rng.below(stage.pages().cpus()) as u16);
    let drained = match rng.below(3) {
        0 => stage.pages().drain_all(),
        _ => {
            tally.did(Did::Folded);
            stage.pages().offline_cpu(cpu)
        }
    };
    tally.add(Did::DrainedFrames, drained);
    stage.add(&mut tally);
    // SAFETY: this thread has no pin here.
    unsafe { stage.pages().machine().give_up_lease() };
    let (counted, total) = (stage.pages().counters().bad_frees, stage.total());
    let refused = total.get(Did::WrongFrees);
    // The later of two frees at once may be found out after the checks whose refusals are counted.
    match (refused..=refused + total.get(Did::Races)).contains(&counted) {
        true => Ok(()),
        false => Err(format!("{counted} frees were counted as refused, and {refused} were")),
    }
}

/// Two threads free a block at once: one of them is refused, if the allocator is hardened.
fn free_at_once(stage: &Stage, order: Order, tally: &mut Tally) -> Checked {
    let Ok(pfn) = stage.pages().alloc(&Request { order, ..Request::page(GFP_KERNEL) }) else { return Ok(()) };
    let together = Barrier::new(2);
    let free = || {
        together.wait();
        stage.pages().free(pfn, order)
    };
    let freed = std::thread::scope(|scope| {
        let other = scope.spawn(free);
        (free(), other.join())
    });
    tally.did(Did::Races);
    match freed {
        (Ok(()), Ok(Err(_))) | (Err(_), Ok(Ok(()))) => Ok(()),
        other => Err(format!("{pfn} of order {order} was freed by two threads at once: {other:?}")),
    }
}

fn free_twice(stage: &Stage, pfn: Pfn, order: Order, tally: &mut Tally) -> Checked {
    stage.pages().free(pfn, order).map_err(|error| format!("{pfn} is not freed: {error}"))?;
    match stage.pages().free(pfn, order) {
        Err(_) => {
            tally.did(Did::WrongFrees);
            Ok(())
        }
        Ok(()) => Err(format!("{pfn} of order {order} was freed twice")),
    }
}

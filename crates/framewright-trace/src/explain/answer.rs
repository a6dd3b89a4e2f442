//! Combines the results of the two runs with the requesters that they name.

use std::collections::{BTreeMap, BTreeSet};

use framewright::Why;
use framewright::units::{MigrateType, Order, Pfn};

use super::explanation::{
    Class, Emptied, FailureRow, FallbackRow, Group, Holding, IncidentKind, Near, Obstacles, Row, Taken, Tried,
};
use super::incidents::{Incident, IncidentDetail};
use super::page_owner::{OwnedFrames, Owner, PageOwners};
use super::requester::Requester;
use super::second_run::{Before, Done, PageblockThen, SecondRun};

/// Number of pageblocks that are named as nearest to being free.
const NEAREST: usize = 4;

/// Requesters, by the number of the record of their request.
pub(super) type Requesters = BTreeMap<u64, Requester>;

/// An incident as a row of the list; none if the trace has changed since.
pub(super) fn row(number: u64, incident: &Incident, owners: &PageOwners, requesters: &Requesters) -> Option<Row> {
    let Incident { record, order, mobility, gfp, what, .. } = incident;
    let (kind, fallback, failure) = match what {
        IncidentDetail::Fallback(taken) => {
            let held = incident.held(taken, owners);
            let row = FallbackRow {
                pfn: taken.pfn.0,
                found_order: taken.order.0,
                from: taken.from.name(),
                fragmenting: taken.order < owners.order,
                claimed: taken.claimed,
                held_ns: held.time,
                left: owners.pageblock(taken.pfn).of(*mobility).frames,
                failed_meanwhile: held.failed,
            };
            (IncidentKind::Fallback, Some(row), None)
        }
        IncidentDetail::Failure { why, free, largest } => {
            let row = FailureRow { why: reason(*why), free: *free, largest: *largest };
            (IncidentKind::Failure, None, Some(row))
        }
    };
    let by = requesters.get(record)?.clone();
    Some(Row {
        number,
        kind,
        by,
        order: order.0,
        migratetype: mobility.name(),
        gfp: gfp.to_string(),
        fallback,
        failure,
    })
}

/// The name of a reason in the JSON form.
fn reason(why: Why) -> &'static str {
    match why {
        Why::Watermark => "watermark",
        Why::Fragmented => "fragmented",
        Why::NoZone => "no-zone",
        Why::WouldWait => "would-wait",
        Why::Fault => "fault",
        Why::NoCpu => "no-cpu",
        _ => "other",
    }
}

/// Sorts the worst first, and fallbacks before failures.
///
/// The worst fallbacks are those that were felt longest; the worst failures those with most free memory.
pub(super) fn worst_first(rows: &mut [Row]) {
    rows.sort_by_key(|row| {
        let fallback = row.fallback.as_ref().map_or((0, 0), |row| (row.failed_meanwhile, row.held_ns));
        let failure = row.failure.as_ref().map_or(0, |row| row.free);
        (row.kind, std::cmp::Reverse((fallback, failure)), row.number)
    });
}

/// The steps that were taken for a request.
pub(super) fn tried(done: &Done) -> Tried {
    let emptied =
        |(pfn, (frames, emptied)): (&Pfn, &(u64, bool))| Emptied { pfn: pfn.0, frames: *frames, emptied: *emptied };
    Tried {
        refill: done.refill == Some(true),
        woke_reclaim: done.woke_reclaim,
        stalled: done.stalls != 0,
        compacted: done.compactions != 0,
        scanned: done.scanned,
        stayed: done.stayed,
        moved: done.moved.iter().map(emptied).collect(),
        drained: done.drained,
        reclaimed: done.reclaims != 0,
    }
}

/// The frames of each owner, most first.
fn holdings(held: &OwnedFrames, requesters: &Requesters) -> Vec<Holding> {
    let holding = |(owner, &(pfn, frames)): (&Owner, &(Pfn, u64))| Holding {
        pfn: pfn.0,
        frames,
        migratetype: owner.mobility.name(),
        by: requesters.get(&owner.record).cloned(),
    };
    let mut holdings: Vec<Holding> = held.iter().map(holding).collect();
    holdings.sort_by_key(|holding| std::cmp::Reverse(holding.frames));
    holdings
}

/// Numbers of the fallbacks on a pageblock among the `first` incidents.
fn fallbacks_on(pageblock: Pfn, order: Order, first: &[Incident]) -> Vec<u64> {
    let is_on = |(incident, _): &(&Incident, u64)| {
        incident.fallback().is_some_and(|taken| {
            let size = taken.order.max(order);
            taken.pfn.align_down(size) == pageblock.align_down(size)
        })
    };
    first.iter().zip(1..).filter(is_on).map(|(_, number)| number).collect()
}

/// The pageblocks of a fallback.
pub(super) fn pageblocks(second_run: &SecondRun<'_>, earlier: &[Incident], requesters: &Requesters) -> Taken {
    let order = second_run.incidents.owners.order;
    let earlier: BTreeSet<u64> =
        second_run.own_pageblocks().flat_map(|pfn| fallbacks_on(pfn, order, earlier)).collect();
    let after = &second_run.after;
    Taken {
        pfns: second_run.own_pageblocks().map(|pfn| pfn.0).collect(),
        earlier: earlier.into_iter().collect(),
        memory: after.memory,
        held: holdings(&after.held, requesters),
        most: after.most,
        free_again_ns: after.free_again,
        failures: after.failures.clone(),
        alone: after.alone,
    }
}

/// The obstacles of a failed request. `earlier` has the incidents before it.
pub(super) fn obstacles(
    second_run: &SecondRun<'_>,
    before: &Before,
    earlier: &[Incident],
    requesters: &Requesters,
) -> Obstacles {
    let order = second_run.incidents.owners.order;
    let near = |then: &PageblockThen| Near {
        pfn: then.pfn.0,
        migratetype: then.migratetype.name(),
        movable: then.pageblock.of(MigrateType::Movable).frames,
        pinned: then.pageblock.pinned(),
        held: holdings(&then.pinned, requesters),
        fallbacks: fallbacks_on(then.pfn, order, earlier),
    };
    let is_held = |then: &&PageblockThen| then.pageblock.memory == order.frames() && then.pageblock.pinned() != 0;
    let mut held: Vec<_> = before.pageblocks.iter().filter(is_held).collect();
    held.sort_by_key(|then| (then.pageblock.pinned(), then.pageblock.used(), then.pfn));
    Obstacles {
        classes: classes(&before.pageblocks, order),
        nearest: held.into_iter().take(NEAREST).map(near).collect(),
        holders: groups(&before.pageblocks, requesters),
        next_served: second_run.next_served.and_then(|record| requesters.get(&record).cloned()),
    }
}

/// Counts pageblocks by their contents.
fn classes(pageblocks: &[PageblockThen], order: Order) -> Vec<Class> {
    type Is = fn(&PageblockThen, u64) -> bool;
    const CLASSES: [(&str, Is); 8] = [
        ("not all memory", |then, size| then.pageblock.memory != size),
        ("nothing", |then, _| then.pageblock.used() == 0),
        ("one block, as large as the pageblock", |then, _| then.is_one),
        ("movable pages only, in half of it or less", |then, size| {
            then.pageblock.pinned() == 0 && then.pageblock.used() <= size / 2
        }),
        ("movable pages only, in more than half", |then, _| then.pageblock.pinned() == 0),
        ("1 to 8 pages that cannot be moved", |then, _| then.pageblock.pinned() <= 8),
        ("9 to 64 pages that cannot be moved", |then, _| then.pageblock.pinned() <= 64),
        ("more than 64 pages that cannot be moved", |_, _| true),
    ];
    let mut counts = CLASSES.map(|(class, _)| Class { class, pageblocks: BTreeMap::new() });
    for then in pageblocks {
        let place = CLASSES.iter().position(|(_, is)| is(then, order.frames()));
        if let Some(class) = place.and_then(|place| counts.get_mut(place)) {
            *class.pageblocks.entry(then.migratetype.name()).or_default() += 1;
        }
    }
    // The class that is tested first is printed last.
    counts.rotate_left(1);
    counts.into()
}

/// Groups the pages that cannot be moved, by task and flags.
fn groups(pageblocks: &[PageblockThen], requesters: &Requesters) -> Vec<Group> {
    type By<'c> = Option<(&'c str, &'c str)>;
    let mut groups: BTreeMap<By<'_>, (u64, BTreeSet<Pfn>)> = BTreeMap::new();
    for then in pageblocks {
        for (owner, (_, frames)) in &then.pinned {
            let by = requesters.get(&owner.record).map(|by| (by.task.as_str(), by.gfp.as_str()));
            let group = groups.entry(by).or_default();
            group.0 += frames;
            group.1.insert(then.pfn);
        }
    }
    let group = |(by, (frames, pageblocks)): (By<'_>, (u64, BTreeSet<Pfn>))| Group {
        task: by.map(|(task, _)| task.to_owned()),
        gfp: by.map(|(_, gfp)| gfp.to_owned()),
        frames,
        pageblocks: pageblocks.len() as u64,
    };
    let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse((group.pageblocks, group.frames)));
    groups
}

//! What was seen, put together with who made the requests that it names.

use std::collections::{BTreeMap, BTreeSet};

use framewright::pfn::{MigrateType, Order, Pfn};

use super::explanation::{Class, Emptied, FailureRow, FallbackRow, Group, Holding, Near, Obstacles, Row, Taken, Tried};
use super::incidents::{Happening, Kind, What, reason};
use super::page_owner::{Held, Holder, Ledger};
use super::requester::Requester;
use super::second_run::{Before, Done, Look, PageblockThen};

/// Pageblocks that are named as nearest to being free.
const NEAREST: usize = 4;

/// Who made a request, by the number of its record.
pub(super) type Cited = BTreeMap<u64, Requester>;

/// A happening as a row of the list. None if its record is no request: the trace changed meanwhile.
pub(super) fn row(number: u64, happening: &Happening, ledger: &Ledger, cited: &Cited) -> Option<Row> {
    let Happening { record, order, mobility, gfp, what, .. } = happening;
    let (kind, fallback, failure) = match what {
        What::Fallback(taken) => {
            let held = happening.held(taken, ledger);
            let row = FallbackRow {
                pfn: taken.pfn.0,
                found_order: taken.order.0,
                from: taken.from.name(),
                fragmenting: taken.order < ledger.order,
                claimed: taken.claimed,
                held_ns: held.time,
                left: ledger.pageblock(taken.pfn).of(*mobility).frames,
                failed_meanwhile: held.failed,
            };
            (Kind::Fallback, Some(row), None)
        }
        What::Failure { why, free, largest } => {
            let row = FailureRow { why: reason(*why), free: *free, largest: *largest };
            (Kind::Failure, None, Some(row))
        }
    };
    let by = cited.get(record)?.clone();
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

/// Fallbacks before failures. Of fallbacks first those that were felt longest, of failures those that had most memory and got none of it.
pub(super) fn worst_first(rows: &mut [Row]) {
    rows.sort_by_key(|row| {
        let fallback = row.fallback.as_ref().map_or((0, 0), |row| (row.failed_meanwhile, row.held_ns));
        let failure = row.failure.as_ref().map_or(0, |row| row.free);
        (row.kind, std::cmp::Reverse((fallback, failure)), row.number)
    });
}

/// What was done for a request.
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

/// What each has, most first.
fn holdings(held: &Held, cited: &Cited) -> Vec<Holding> {
    let holding = |(holder, &(pfn, frames)): (&Holder, &(Pfn, u64))| Holding {
        pfn: pfn.0,
        frames,
        migratetype: holder.mobility.name(),
        by: cited.get(&holder.record).cloned(),
    };
    let mut holdings: Vec<Holding> = held.iter().map(holding).collect();
    holdings.sort_by_key(|holding| std::cmp::Reverse(holding.frames));
    holdings
}

/// Fallbacks on a pageblock, of the first happenings, by number.
fn fallbacks_on(pageblock: Pfn, order: Order, first: &[Happening]) -> Vec<u64> {
    let is_on = |(happening, _): &(&Happening, u64)| {
        happening.fallback().is_some_and(|taken| {
            let size = taken.order.max(order);
            taken.pfn.align_down(size) == pageblock.align_down(size)
        })
    };
    first.iter().zip(1..).filter(is_on).map(|(_, number)| number).collect()
}

/// A fallback's pageblocks.
pub(super) fn pageblocks(look: &Look<'_>, earlier: &[Happening], cited: &Cited) -> Taken {
    let order = look.numbering.ledger.order;
    let earlier: BTreeSet<u64> = look.own_pageblocks().flat_map(|pfn| fallbacks_on(pfn, order, earlier)).collect();
    let after = &look.after;
    Taken {
        pfns: look.own_pageblocks().map(|pfn| pfn.0).collect(),
        earlier: earlier.into_iter().collect(),
        memory: after.memory,
        held: holdings(&after.held, cited),
        most: after.most,
        free_again_ns: after.free_again,
        failures: after.failures.clone(),
        alone: after.alone,
    }
}

/// What was in the way of a failed request. `earlier`: what had happened before.
pub(super) fn obstacles(look: &Look<'_>, before: &Before, earlier: &[Happening], cited: &Cited) -> Obstacles {
    let order = look.numbering.ledger.order;
    let near = |then: &PageblockThen| Near {
        pfn: then.pfn.0,
        migratetype: then.migratetype.name(),
        movable: then.pageblock.of(MigrateType::Movable).frames,
        pinned: then.pageblock.pinned(),
        held: holdings(&then.pinned, cited),
        fallbacks: fallbacks_on(then.pfn, order, earlier),
    };
    let is_held = |then: &&PageblockThen| then.pageblock.memory == order.frames() && then.pageblock.pinned() != 0;
    let mut held: Vec<_> = before.pageblocks.iter().filter(is_held).collect();
    held.sort_by_key(|then| (then.pageblock.pinned(), then.pageblock.used(), then.pfn));
    Obstacles {
        classes: classes(&before.pageblocks, order),
        nearest: held.into_iter().take(NEAREST).map(near).collect(),
        holders: groups(&before.pageblocks, cited),
        next_served: look.next_served.and_then(|record| cited.get(&record).cloned()),
    }
}

/// Pageblocks by what is in use in them.
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
    // What is not all memory comes last for who reads.
    counts.rotate_left(1);
    counts.into()
}

/// Whose pages cannot be moved, by task and flags.
fn groups(pageblocks: &[PageblockThen], cited: &Cited) -> Vec<Group> {
    type By<'c> = Option<(&'c str, &'c str)>;
    let mut groups: BTreeMap<By<'_>, (u64, BTreeSet<Pfn>)> = BTreeMap::new();
    for then in pageblocks {
        for (holder, (_, frames)) in &then.pinned {
            let by = cited.get(&holder.record).map(|by| (by.task.as_str(), by.gfp.as_str()));
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

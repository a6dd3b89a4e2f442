//! Repair: rebuilds damaged lists of a zone.
//!
//! State words are the truth: the lists are rebuilt from them. A block that cannot be put on a list is quarantined
//! instead of allocated. Repair reads the whole zone under its lock, and should never happen.

use crate::buddy::buddy::Buddy;
use crate::buddy::free_list::End;
use crate::seam::machine::Machine;
use crate::stat::vmstat::GlobalEvent;
use crate::types::counts::BlockCount;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order};
use crate::zone::zone::Zone;

/// Rebuilds the lists from the state words.
///
/// If only links were damaged, no block is lost. A block whose state cannot be true is quarantined. Frames that a
/// damaged state cut off its block are in no block any more. They are never allocated, and `validate` reports how many
/// are missing.
#[cold]
pub(crate) fn repair<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>) {
    buddy.shared.events.count(GlobalEvent::Repairs);
    zone.clusters.settle();
    zone.tell_all(buddy.shared, i64::wrapping_neg);
    buddy.lists.reset();
    buddy.count.reset();
    zone.stat.reset(buddy.shared.stats.zone(zone.idx));
    buddy.tally.reset();
    buddy.clusters.reset();
    let frames = buddy.frames();
    let pageblock = buddy.pageblock_order();
    let mut behind = Frame(0);
    for index in 0..frames.pageblocks.len() {
        let start = Frame((index as u32) << pageblock.0);
        if frames.pageblock(start).zone() != Some(zone.idx) || frames.is_uninit(start) {
            continue;
        }
        let mut at = start.max(behind);
        while at < start.add(pageblock.frames()) {
            let state = frames.state(at);
            let Some((order, _)) = state.as_free() else {
                at = buddy.after(at);
                continue;
            };
            let possible = buddy.could_be_free(at, order);
            // Every free block is inserted again; an impossible one counts as a single frame.
            let _ = frames.change(at, |state| state.take(order, buddy.cpu));
            let order = if possible { order } else { Order(0) };
            let migratetype = frames.pageblock(at).migratetype();
            if !possible || buddy.insert(at, order, migratetype, End::Back).is_err() {
                buddy.quarantine(at, order);
            }
            at = at.add(order.frames());
        }
        behind = at;
    }
    let uninit = BlockCount(u64::from(zone.uninit_racy(buddy.shared)));
    buddy.tally.count(MigrateType::Movable, uninit.frames(buddy.max_order()));
}

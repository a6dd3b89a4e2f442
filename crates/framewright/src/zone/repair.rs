//! Damaged lists are rebuilt.
//!
//! State words are the truth: lists are rebuilt from them, and what could not be filed is put into quarantine rather than handed out. It
//! reads the whole zone under its lock, and should never happen.

use crate::buddy::buddy::Buddy;
use crate::buddy::free_list::End;
use crate::seam::machine::Machine;
use crate::stat::vmstat::GlobalEvent;
use crate::types::units::{Frame, Order};
use crate::zone::zone::Zone;

/// Rebuilds the lists from the state words. Blocks whose links alone were damaged lose nothing. A state that cannot be
/// true is put into quarantine. What a damaged state made smaller is in no block any more: it is never handed
/// out, and `validate` tells how much is missing.
#[cold]
pub(crate) fn repair<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>) {
    buddy.shared.events.count(GlobalEvent::Repairs);
    zone.clusters.settle();
    buddy.lists.reset();
    buddy.count.reset();
    zone.stat.reset(&buddy.shared.stats, zone.idx);
    buddy.tally.reset();
    buddy.clusters.reset();
    let frames = buddy.frames();
    let pageblock = buddy.pageblock_order();
    let mut behind = Frame(0);
    for index in 0..frames.pageblocks.len() {
        let start = Frame((index as u32) << pageblock.0);
        if frames.pageblock(start).zone() != Some(zone.idx) {
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
            // Every free block starts over; what cannot be one counts as a single frame.
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
}

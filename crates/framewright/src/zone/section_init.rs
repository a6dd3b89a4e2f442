//! Section initialisation: sections of a large memory are put on the free lists when they are first used.
//!
//! A section has the size of the largest block. Booting 1 TiB section by section touches 262,144 descriptors, each on a
//! page of its own: seconds of page faults, or of cache misses. So boot leaves whole sections of movable memory
//! *uninitialised*. Their pageblock words are written and say so; their states and links are not touched.
//!
//! | | initialised | uninitialised |
//! |---|---|---|
//! | its frames count as managed, free, movable | yes | yes |
//! | its blocks are on the free lists | yes | no; reports count a free block of the largest order |
//! | states and links | written | not looked at (`frame.rs::Frames::is_uninit`) |
//! | head bytes | written | zero, so that a wrong free is refused on the fast path |
//!
//! A section becomes initialised under the zone lock:
//!
//! 1. [`init_for`]: a request is about to look at the lists, and no movable block of the largest order is there. So the
//!    lists serve each request as if all sections were on them.
//! 2. [`init_at`]: a call names a frame in it, to isolate it or to take it.
//! 3. [`init_next`]: the embedder initialises sections ahead of time (`Allocator::init_section`).
//!
//! A third kind of section is *absent*: address space where memory may be added (`memory_hotplug.rs`). The words of
//! its pageblocks name the zone that the memory will belong to, and say that there is none. Added memory is an
//! uninitialised section ([`add`]).
//!
//! A CPU that looks at a state without the lock may see the mark go before the state comes, or what was in the memory
//! before boot. Such looks are hints, as they are during a split or a merge: each decision is made under the lock.
//!
//! Sections are initialised in ascending order and put at the end of their list, so requests get the addresses that
//! they would get if boot had initialised all.
//!
//! Cost: a comparison for each block taken off the lists. A section costs what it would cost at boot. Where the
//! descriptors are not zeroed, the CPU that initialises a section writes 16 bytes for each frame under the zone lock.
//!
//! Rejected:
//! - Free blocks above the largest order: every search, list and report would have two largest orders.
//! - Zeroing outside of the lock: a call that names a frame in the section would have to wait for another CPU.
//!
//! `docs/decisions/0027-large-machines.md` has the numbers.

use crate::buddy::buddy::Buddy;
use crate::buddy::free_list::End;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::counts::{BlockCount, FrameCount};
use crate::types::migratetype::MigrateType;
use crate::types::units::Frame;
use crate::zone::zone::Zone;

/// Initialises a section if no movable block of the largest order is free.
pub(crate) fn init_for<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>) {
    if zone.uninit_racy(buddy.shared) != 0 && !buddy.has(buddy.max_order(), MigrateType::Movable) {
        init_next(zone, buddy);
    }
}

/// Initialises the section around a frame, if it is uninitialised.
pub(crate) fn init_at<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>, frame: Frame) {
    if buddy.frames().is_uninit(frame) && buddy.frames().pageblock(frame).zone() == Some(zone.idx) {
        init(zone, buddy, frame.align_down(buddy.max_order()));
    }
}

/// Initialises the first uninitialised section; returns false if there is none.
#[cold]
pub(crate) fn init_next<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>) -> bool {
    if zone.uninit_racy(buddy.shared) == 0 {
        return false;
    }
    let frames = buddy.frames();
    let step = buddy.max_order().frames();
    let mut at = Frame(zone.uninit_from.load(Ordering::Relaxed)).align_down(buddy.max_order());
    while at.index() < frames.heads.len() {
        let pageblock = frames.pageblock(at);
        if pageblock.is_uninit() && pageblock.zone() == Some(zone.idx) {
            init(zone, buddy, at);
            zone.uninit_from.store(at.add(step).0, Ordering::Relaxed);
            return true;
        }
        at = at.add(step);
    }
    false
}

/// Makes a section without memory an uninitialised one of this zone; returns false if it has memory.
pub(crate) fn add<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>, section: Frame) -> bool {
    let frames = buddy.frames();
    if !frames.is_absent(section) {
        return false;
    }
    for at in frames.pageblocks_in(section) {
        frames.set_pageblock(at, frames.pageblock(at).added());
    }
    leave(zone, buddy, section, 1);
    true
}

/// Counts `sections` uninitialised sections from `first` on as free memory of the zone.
pub(crate) fn leave<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>, first: Frame, sections: u32) {
    let count = BlockCount(u64::from(sections)).frames(buddy.max_order());
    zone.present.add(count.0, Ordering::Relaxed);
    zone.managed.add(count.0, Ordering::Relaxed);
    zone.uninit.store(zone.uninit.load(Ordering::Relaxed).wrapping_add(sections), Ordering::Relaxed);
    let from = zone.uninit_from.load(Ordering::Relaxed).min(first.0);
    zone.uninit_from.store(from, Ordering::Relaxed);
    buddy.tally.count(MigrateType::Movable, count);
}

/// Puts a section on the list of its type.
fn init<M: Machine>(zone: &Zone<M>, buddy: &Buddy<'_, '_, M>, section: Frame) {
    let (frames, order) = (buddy.frames(), buddy.max_order());
    if frames.is_dirty() {
        frames.clear_section(section);
    }
    frames.mark_uninit(section, false);
    zone.uninit.store(zone.uninit.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    // Its frames count as free already.
    if !buddy.put(section, order, MigrateType::Movable, End::Back) {
        buddy.tally.uncount(MigrateType::Movable, FrameCount::of_block(order));
    }
}

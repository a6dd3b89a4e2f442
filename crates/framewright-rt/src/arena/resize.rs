//! Growing and shrinking: memory comes online and goes offline while requests go on.
//!
//! | | grow | shrink |
//! |---|---|---|
//! | 1 | `on_grow` may veto | `on_shrink` may veto |
//! | 2 | the range becomes accessible | the lists of CPUs are drained |
//! | 3 | [`super::Commit::commit`] | each section that is free as a whole is taken offline |
//! | 4 | the core adds it, or brings it online | [`super::Commit::decommit`] |
//! | 5 | | its contents are given back, and it becomes inaccessible |
//!
//! A step that fails ends the change. What came or went before stays so, and the range at hand is as before: it is
//! committed or decommitted again. A section that cannot even be committed again is absent, and its memory stays mapped
//! until the next growth.
//!
//! # Growth by itself
//!
//! A request that finds no memory grows the arena before it reclaims: reclaim takes memory from its users, growth does
//! not. It grows by what it needs and at least by an eighth of the present size. The request drained every list before,
//! so it should not come here often. Of several requests that wait for the room, one grows the arena. For a request
//! that only one node may serve (`__GFP_THISNODE`) no other node grows.
//!
//! # Threads
//!
//! Nothing here is a protocol of its own. The core takes a section offline by isolating it (`contig_range.rs`), and
//! adds it under the zone lock. A block that a request holds keeps its section present. Changes exclude each other
//! (`room.rs`).
//!
//! # Why the unsafe code is right
//!
//! Memory becomes inaccessible in one function, [`Inner::withdraw`], and only where the allocator does not have it: its
//! section was never added, or has been taken offline. The core takes a section offline only when all of it is free.
//! Such frames have no owner, so there is no reference to them. The held room keeps other changes away until the
//! section is back.

use std::sync::atomic::Ordering::Relaxed;

use framewright::machine::{Machine, Need};
use framewright::request::__GFP_THISNODE;
use framewright::{
    AllocError, FrameState, NodeId, Order, PfnRange, Policy, Request, Why, ZoneIdx, ZoneKind, ZoneMemory,
};

use super::hooks::{Cause, Change, LowMemory, ask};
use super::inner::Inner;
use super::room::{HeldRoom, Room};
use super::sections::{Near, Run, SectionState};
use crate::error::ArenaError;
use crate::os::OsError;

/// Part of the present size by which the arena grows at least when it is exhausted.
const GROWTH: u64 = 8;

impl Inner {
    /// The room, for a caller that may wait.
    pub(super) fn room(&self) -> Result<&Room, ArenaError> {
        let room = self.sizing.room.as_ref().ok_or(ArenaError::FixedSize)?;
        let machine = self.allocator().machine();
        if machine.in_interrupt() {
            return Err(ArenaError::Refused(AllocError::InInterrupt));
        }
        if machine.refuses() {
            return Err(ArenaError::Refused(AllocError::no_memory(Why::NoCpu)));
        }
        Ok(room)
    }

    /// Grows by up to `bytes`, rounded up to sections; the node `near` before others. Returns the bytes that came.
    pub(super) fn grow(&self, bytes: u64, near: NodeId, cause: Cause) -> Result<u64, ArenaError> {
        let room = self.room()?;
        self.grow_held(room, &mut room.hold()?, bytes, (Near { node: near, alone: false }, cause))
    }

    /// What a request for frames side by side lacks.
    pub(super) fn need_of(&self, frames: u64, request: &Request) -> Need {
        let node = match request.policy {
            Policy::Prefer(node) => node,
            Policy::Local | Policy::Bind(_) | Policy::Interleave(_) => self.allocator().machine().near(),
        };
        let (gfp, priority) = (request.gfp, Need::LIGHTEST);
        Need { node, order: Order(0), gfp, attempt: 0, frames, priority, gentle: false }
    }

    /// Grows for a request that found no memory. Returns the number of frames that came.
    pub(super) fn grow_for(&self, need: &Need) -> u64 {
        let Ok(room) = self.room() else { return 0 };
        let (seen, shift) = (room.growths.load(Relaxed), self.allocator().geometry().page_shift);
        if room.present() >= room.limit {
            return 0;
        }
        let Ok(mut held) = room.hold() else { return 0 };
        if room.growths.load(Relaxed) != seen {
            return room.section >> shift;
        }
        let left = self.sizing.watch.room();
        let bytes = (need.frames.max(need.order.frames()) << shift).max(room.present() / GROWTH);
        if left < room.section {
            return 0;
        }
        let bytes = bytes.min(left - left % room.section);
        let near = Near { node: need.node, alone: need.gfp.contains(__GFP_THISNODE) };
        self.grow_held(room, &mut held, bytes, (near, Cause::Exhausted)).unwrap_or(0) >> shift
    }

    fn grow_held(
        &self,
        room: &Room,
        held: &mut HeldRoom<'_>,
        bytes: u64,
        (near, cause): (Near, Cause),
    ) -> Result<u64, ArenaError> {
        let absent = held.sections.absent(near);
        if absent == 0 {
            return Err(ArenaError::AtLimit { limit: room.limit });
        }
        let wanted = bytes.div_ceil(room.section).min(absent as u64) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let change = Change { bytes: wanted as u64 * room.section, present: room.present(), limit: room.limit, cause };
        ask(room.hooks.on_grow.as_ref(), "growing", &change, self.pool.panics())?;
        let mut came = 0;
        while let Some(run) = held.sections.next_absent(near, wanted - came) {
            match self.bring(room, &run, held.sections.frames(&run.sections)) {
                Ok(()) => {}
                Err(error) if came == 0 => return Err(error),
                Err(_) => break,
            }
            let count = run.sections.len();
            came += count;
            room.present.fetch_add(count as u64 * room.section, Relaxed);
            held.sections.set(run.sections, SectionState::Present);
        }
        room.growths.fetch_add(1, Relaxed);
        Ok(came as u64 * room.section)
    }

    /// Makes sections usable and gives them to the allocator.
    fn bring(&self, room: &Room, run: &Run, frames: PfnRange) -> Result<(), ArenaError> {
        let (at, len) = (run.sections.start * room.section as usize, run.sections.len() * room.section as usize);
        self.memory.commit(at, len)?;
        let prepared = if room.populates { self.memory.populate(at, len) } else { Ok(()) };
        let prepared = prepared.map_err(ArenaError::Os);
        let prepared = prepared.and_then(|()| room.hooks.commit(self.memory.place_of(at, len), self.pool.panics()));
        let added = prepared.and_then(|()| match run.state {
            SectionState::Possible => self.allocator().add_memory(frames).map_err(ArenaError::Refused),
            SectionState::Present | SectionState::Withheld => Ok(self.allocator().bring_online(frames)),
        });
        if added.is_err() {
            // A refusal leaves it accessible, and nothing worse.
            let _ = self.withdraw(at, len);
        }
        added.map(|came| debug_assert_eq!(came, frames.frames()))
    }

    /// Shrinks by up to `bytes`, rounded up to sections. Returns the bytes that went.
    pub(super) fn shrink(&self, bytes: u64, cause: Cause) -> Result<u64, ArenaError> {
        let room = self.room()?;
        let mut held = room.hold()?;
        let takeable = held.sections.takeable();
        let wanted = bytes.div_ceil(room.section).min(takeable.len() as u64);
        if wanted == 0 {
            return Ok(0);
        }
        let change = Change { bytes: wanted * room.section, present: room.present(), limit: room.limit, cause };
        ask(room.hooks.on_shrink.as_ref(), "shrinking", &change, self.pool.panics())?;
        self.allocator().drain_all();
        let mut gone = 0;
        for (node, section) in takeable {
            let frames = held.sections.frames(&(section..section + 1));
            if gone == wanted {
                break;
            }
            // A section that another call took from, or moves, since it looked free stays.
            if !self.may_go(node, frames) || self.allocator().take_offline(frames).is_err() {
                continue;
            }
            match self.take(room, section, frames) {
                Ok(()) => {}
                Err(error) if gone == 0 => return Err(error),
                Err(_) => break,
            }
            held.sections.set(section..section + 1, SectionState::Withheld);
            room.present.fetch_sub(room.section, Relaxed);
            gone += 1;
        }
        Ok(gone * room.section)
    }

    /// Gives an offline section back to the operating system; or brings it online again if that is refused.
    fn take(&self, room: &Room, section: usize, frames: PfnRange) -> Result<(), ArenaError> {
        let (at, len, panics) = (section * room.section as usize, room.section as usize, self.pool.panics());
        let mut refused = room.hooks.decommit(self.memory.place_of(at, len), panics).err();
        if refused.is_none() {
            let Err(error) = self.withdraw(at, len) else { return Ok(()) };
            let is_usable =
                self.memory.commit(at, len).is_ok() && room.hooks.commit(self.memory.place_of(at, len), panics).is_ok();
            if !is_usable {
                return Ok(());
            }
            refused = Some(ArenaError::Os(error));
        }
        self.allocator().bring_online(frames);
        refused.map_or(Ok(()), Err)
    }

    /// Gives the memory of sections back to the operating system; the allocator never got them, or gave them up.
    fn withdraw(&self, at: usize, len: usize) -> Result<(), OsError> {
        // SAFETY: the allocator does not have the sections, so they have no owner and no references.
        unsafe { self.memory.decommit(at, len) }
    }

    /// Whether a section is free as a whole, and its zone stays above the low mark without it.
    fn may_go(&self, node: NodeId, frames: PfnRange) -> bool {
        let mut pfn = frames.start;
        while pfn < frames.end {
            pfn = match self.allocator().state_of(pfn) {
                FrameState::Free(head, order) | FrameState::Pcp(head, order) => head.add(order.frames()),
                _ => return false,
            };
        }
        // Movable where that spans the section.
        let zone = self.zones_of(node).into_iter().flatten().rfind(|zone| zone.span.contains(frames.start));
        zone.is_none_or(|zone| zone.free.saturating_sub(frames.frames()) >= zone.marks.low.saturating_add(zone.boost))
    }

    /// The zones of a node that an arena has, Normal first.
    fn zones_of(&self, node: NodeId) -> [Option<ZoneMemory>; 2] {
        [ZoneKind::Normal, ZoneKind::Movable].map(|kind| self.allocator().zone_memory(ZoneIdx::of(node, kind)))
    }

    /// Tells the program that a request found a node below its low mark.
    pub(super) fn tell_low(&self, node: NodeId) {
        let Some(hook) = &self.sizing.on_low_memory else { return };
        let (zones, shift) = (self.zones_of(node), self.allocator().geometry().page_shift);
        let sum = |of: fn(&ZoneMemory) -> u64| zones.iter().flatten().map(of).sum::<u64>() << shift;
        let low = LowMemory { node, free: sum(|zone| zone.free), low: sum(|zone| zone.marks.low) };
        self.pool.panics().catch(|| hook(&low));
    }
}

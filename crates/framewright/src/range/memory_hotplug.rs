//! Memory hotplug: withholds memory, brings it back, adds memory, and updates what depends on the sizes of zones.
//!
//! A range goes offline as any range is allocated (`contig_range.rs`); here its blocks are withheld rather than
//! allocated.
//!
//! Memory that was not there at boot is added where the map says that it may come (`Region::possible`). Firmware tells
//! this too (ACPI SRAT). Such address space has descriptors, but nothing touches them, so they cost only address space
//! where memory for them comes with the first touch. The words of its pageblocks name the zone. Memory is added as
//! uninitialised sections (`section_init.rs`), so that adding a GiB writes a few words of pageblocks.
//!
//! Cost: after each change, the marks of every zone are computed again.
//!
//! Rejected: descriptors that are handed in with the memory. Each lookup of a descriptor would choose between arrays.

use crate::buddy::buddy::Place;
use crate::frame::frame::Part;
use crate::frame::head::Head;
use crate::frame::state::Kind;
use crate::policy::watermark::Marks;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::shared::CallCx;
use crate::stat::vmstat::ZoneEvent;
use crate::types::error::{AllocError, Feature};
use crate::types::units::{Frame, Order, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Turns a block that the caller owns into a withheld one.
    pub(crate) fn withhold(&self, zone: &Zone<M>, frame: Frame, order: Order) {
        let frames = &self.shared.frames;
        self.pinned(|cx| {
            let _guard = zone.lock(cx);
            self.join(frame, order, false);
            frames.set_head(frame, Head::NONE);
            let _ = frames.change(frame, |state| state.retire(order));
            zone.offline.add(order.frames(), Ordering::Relaxed);
            zone.managed.add(order.frames().wrapping_neg(), Ordering::Relaxed);
            if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
                own.aside.count(ZoneEvent::FreeFrames, order.frames());
            }
        });
    }

    /// Computes what depends on zone sizes: the nodes with memory, and the marks.
    ///
    /// Called after memory came or went.
    pub(crate) fn refresh_marks(&self) {
        self.node_states.refresh(self.zones);
        for zone in self.zones.iter().filter(|zone| zone.highatomic_reserved.load(Ordering::Relaxed) != 0) {
            // Bounded: each pass makes the reserve a pageblock smaller, or ends the loop.
            while self.pinned(|cx| zone.lock(cx).trim_highatomic()) == Some(true) {}
        }
        let managed = |zone: &Zone<M>| zone.managed.load(Ordering::Relaxed);
        let total = self.zones.iter().map(managed).fold(0, u64::saturating_add);
        for zone in self.zones.iter().filter(|zone| !zone.fixed_marks) {
            zone.stat.set_marks(Marks::compute(self.min_free_frames, managed(zone), total, self.scale));
            self.cap_boost(zone);
        }
    }

    /// Adds memory, as uninitialised sections; returns the number of frames.
    ///
    /// # Errors
    /// `range` is not whole sections where memory may be added; then nothing was added.
    pub(crate) fn add_memory(&self, range: PfnRange) -> Result<u64, AllocError> {
        if !M::FEATURES.section_init {
            return Err(AllocError::LeftOut(Feature::SectionInit));
        }
        let (frames, order) = (&self.shared.frames, self.max_order());
        if range.is_empty() || !range.start.is_aligned(order) || !range.end.is_aligned(order) {
            return Err(AllocError::BadRange(range));
        }
        let zone_to_be = |section: Frame| self.zones.get(frames.pageblock(section).zone_index());
        for (pfn, _) in range.blocks(order) {
            let section = frames.frame(pfn).filter(|&section| frames.is_absent(section));
            let section = section.ok_or(AllocError::Foreign(pfn))?;
            let first = frames.pageblock(section);
            if frames.pageblocks_in(section).any(|at| frames.pageblock(at) != first) {
                return Err(AllocError::OtherZone(pfn));
            }
        }
        let is_filled = self.shared.mechanisms().is_hardened() && !self.shared.machine.starts_zeroed();
        let mut added = 0_u64;
        for (pfn, _) in range.blocks(order) {
            let Some(section) = frames.frame(pfn) else { continue };
            let Some(zone) = zone_to_be(section) else { continue };
            if is_filled {
                self.fill_freed(section, order);
            }
            if self.pinned(|cx| zone.lock(cx).add_section(section)) == Some(true) {
                added = added.saturating_add(order.frames());
            }
        }
        Ok(added)
    }

    /// Frees the withheld blocks that lie wholly in `range`; returns the number of frames.
    pub(crate) fn bring_online(&self, range: PfnRange) -> u64 {
        let frames = &self.shared.frames;
        let mut online = 0_u64;
        let range = range.intersect(frames.map.span());
        let mut pfn = range.start;
        while pfn < range.end {
            let Some(frame) = frames.frame(pfn) else {
                // A hole may be as wide as the address space.
                pfn = frames.map.next(pfn).unwrap_or(range.end);
                continue;
            };
            let section_end = pfn.add(1).align_up(self.max_order());
            let mut next = if frames.is_absent(frame) { section_end } else { pfn.add(1) };
            if let Some(Part::Offline(_, order)) = frames.block_at(frame) {
                next = pfn.add(order.frames());
                if next <= range.end && self.revive(frame, order) {
                    online = online.saturating_add(order.frames());
                }
            }
            pfn = next;
        }
        online
    }

    /// Frees a withheld block; false if another caller was faster.
    ///
    /// With `hardened`, freed memory is filled and checked. A withheld block is then filled before it is free, because
    /// it may have been written to while it was withheld. Meanwhile it is allocated, like a block that its last owner
    /// frees.
    pub(crate) fn revive(&self, frame: Frame, order: Order) -> bool {
        let Some(zone) = self.zone_of(frame) else { return false };
        let is_filled = self.shared.mechanisms().is_hardened();
        let revived = self.pinned(|cx| {
            let guard = zone.lock(cx);
            // Another caller may have revived it since.
            let frames = &self.shared.frames;
            let still = frames.state(frame).kind() == Kind::Offline && frames.state(frame).order() == order;
            let revived = still && frames.change(frame, |state| state.revive()).is_ok();
            if revived {
                zone.offline.add(order.frames().wrapping_neg(), Ordering::Relaxed);
                zone.managed.add(order.frames(), Ordering::Relaxed);
                if is_filled {
                    frames.set_head(frame, Head::allocated(order, false));
                    self.count_range(cx, zone, order.frames());
                } else {
                    guard.free(frame, order, Place::Last);
                }
            }
            revived
        });
        if revived == Some(true) && is_filled {
            self.fill_freed(frame, order);
            self.pinned(|cx| self.free_filled(cx, zone, frame, order));
        }
        revived.unwrap_or(false)
    }

    /// Frees an allocated, filled block of the caller to the end of its list.
    ///
    /// Another caller may have freed the block meanwhile, by its number. Then it belongs to that caller, and nothing is
    /// freed here.
    fn free_filled(&self, cx: CallCx<'_, 'a, M>, zone: &Zone<M>, frame: Frame, order: Order) {
        let frames = &self.shared.frames;
        let guard = zone.lock(cx);
        if frames.claim_head(frame, order) {
            frames.set_head(frame, Head::NONE);
            guard.free(frame, order, Place::Last);
            if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
                own.aside.count(ZoneEvent::FreeFrames, order.frames());
            }
        }
    }

    /// Lowers a boost that exceeds what new marks allow.
    pub(crate) fn cap_boost(&self, zone: &Zone<M>) {
        let most = zone.most_boost(&self.shared);
        if zone.stat.boost() > most {
            self.pinned(|cx| zone.lock(cx).zone.stat.lower_boost(zone.stat.boost().saturating_sub(most)));
        }
    }
}

//! Calls about memory by its place: ranges, contiguous frames, memory hotplug, the types of pageblocks.
//!
//! The calls that allocate or withhold a range wait for other CPUs and may move memory, so they fail in an interrupt.
//! [`Allocator::alloc_contig`] does neither where a block is large enough.
//! `range/` does the work.

use crate::api::allocator::Allocator;
use crate::policy::watermark::{AllocFlags, Mark};
use crate::range::contig_range::Purpose;
use crate::seam::event::Event;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::vmstat::GlobalEvent;
use crate::types::error::{AllocError, FreeError, Why};
use crate::types::migratetype::MigrateType;
use crate::types::request::{Gfp, Request};
use crate::types::units::{Order, Pfn, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::alloc_flags::first_alloc_flags;

/// Largest order of alignment: frame numbers have 52 bits.
const MOST_ALIGNED: Order = Order(51);

impl<M: Machine> Allocator<'_, M> {
    /// Allocates the block of `order` at `pfn`.
    ///
    /// Movable blocks in the way are moved if `gfp` lets the caller wait (`__GFP_DIRECT_RECLAIM`).
    ///
    /// # Errors
    /// The block is misaligned or not memory of one zone, or some of it cannot be moved; or this is an interrupt. An
    /// error names the first frame of the block that it is about.
    pub fn alloc_at(&self, pfn: Pfn, order: Order, gfp: Gfp) -> Result<Pfn, AllocError> {
        self.needs_mobility()?;
        self.outside_of_interrupts()?;
        if order > self.geometry().max_order {
            return Err(AllocError::BadOrder { order, max: self.geometry().max_order });
        }
        if !pfn.is_aligned(order) {
            return Err(AllocError::Misaligned(pfn, order));
        }
        self.check(&Request::page(gfp))?;
        let _held = self.hold_cpu_or_fail(gfp)?;
        let movable = gfp.migratetype() == MigrateType::Movable;
        if self.world.alloc_free_block(pfn, order, movable, false).is_none() {
            self.world.alloc_contig_range(
                PfnRange::block(pfn, order),
                Purpose::Allocate { movable },
                gfp.may_reclaim(),
            )?;
        }
        self.announce(pfn, &Request { order, ..Request::page(gfp) });
        Ok(pfn)
    }

    /// Allocates exactly the frames of `range`.
    ///
    /// The range has any length and alignment, within one zone. It consists of the largest aligned blocks that tile it.
    /// Free it by [`Allocator::free_range`], whole or in parts.
    ///
    /// # Errors
    /// The range is not memory of one zone, or some of it cannot be moved; or this is an interrupt. An error names the
    /// first frame of the range that it is about.
    pub fn alloc_range(&self, range: PfnRange, gfp: Gfp) -> Result<(), AllocError> {
        self.needs_mobility()?;
        self.outside_of_interrupts()?;
        self.check(&Request::page(gfp))?;
        let _held = self.hold_cpu_or_fail(gfp)?;
        let movable = gfp.migratetype() == MigrateType::Movable;
        self.world.alloc_contig_range(range, Purpose::Allocate { movable }, gfp.may_reclaim())?;
        self.announce_range(range, gfp);
        Ok(())
    }

    pub(crate) fn announce_range(&self, range: PfnRange, gfp: Gfp) {
        for (pfn, order) in range.blocks(self.geometry().max_order) {
            self.announce(pfn, &Request { order, ..Request::page(gfp) });
        }
    }

    /// Frees any stretch of allocated frames: several blocks, or parts of blocks.
    ///
    /// The rest of a block stays allocated, in the largest aligned blocks that tile it. Two CPUs may free two parts of
    /// one block at once.
    ///
    /// # Errors
    /// Some frame of the range is not allocated; then nothing was freed. Or another CPU freed some of the range at the
    /// same moment, which is a bug of that CPU or of the caller. The error names the first frame that the other had
    /// freed; all frames before it were freed here.
    pub fn free_range(&self, range: PfnRange) -> Result<(), FreeError> {
        if self.world.pinned(|_| ()).is_none() {
            return Err(FreeError::NoCpu);
        }
        self.world.free_range(range).inspect_err(|_| self.world.shared.events.count(GlobalEvent::BadFree))?;
        for (pfn, order) in range.blocks(self.geometry().max_order) {
            self.trace(|| Event::PageFree { pfn, order });
        }
        Ok(())
    }

    /// Splits the allocated block at `pfn` of order `from` into blocks of order `to`.
    ///
    /// # Errors
    /// There is no such block, or `to` is larger than `from`.
    pub fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        let frame = self.world().shared.frames.freeable(pfn, from, |frame| self.world.look_locked(frame))?;
        if to > from {
            return Err(FreeError::BadOrder { order: to, max: from });
        }
        self.world.split(frame, from, to)
    }

    /// Withholds memory until [`Allocator::bring_online`]; movable blocks are moved away.
    ///
    /// # Errors
    /// The range is not memory of one zone, or some of it cannot be moved; or this is an interrupt.
    pub fn take_offline(&self, range: PfnRange) -> Result<(), AllocError> {
        self.needs_mobility()?;
        self.outside_of_interrupts()?;
        self.world.alloc_contig_range(range, Purpose::Offline, true)?;
        self.world.refresh_marks();
        Ok(())
    }

    /// Frees the withheld memory of `range`; returns the number of frames.
    ///
    /// It was withheld since boot or by [`Allocator::take_offline`].
    pub fn bring_online(&self, range: PfnRange) -> u64 {
        let online = self.world.bring_online(range);
        self.world.refresh_marks();
        online
    }

    /// Adds memory that was not there at boot, in whole largest blocks; returns the number of frames.
    ///
    /// The memory map says where memory may be added ([`Region::possible`](crate::Region::possible)). Added memory is
    /// free at once. [`Allocator::take_offline`] withholds it again. Context: one caller at a time for a range.
    ///
    /// # Errors
    /// The range is no such address space, or some of it was added before; then nothing was added.
    pub fn add_memory(&self, range: PfnRange) -> Result<u64, AllocError> {
        let added = self.world.add_memory(range)?;
        self.world.refresh_marks();
        Ok(added)
    }

    /// Sets the mobility that the pageblock around `pfn` is grouped under.
    ///
    /// Its free blocks move to the lists of that type. While a range is being allocated in the pageblock, they do so
    /// when that ends.
    ///
    /// # Errors
    /// The frame is not memory, or the type is that of isolated memory.
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) -> Result<(), AllocError> {
        self.needs_mobility()?;
        if migratetype == MigrateType::Isolate {
            return Err(AllocError::BadType(migratetype));
        }
        let frame = self.world.shared.frames.frame(pfn).ok_or(AllocError::Foreign(pfn))?;
        let zone = self.world.zone_of(frame).ok_or(AllocError::Foreign(pfn))?;
        match self.world.pinned(|cx| zone.lock(cx).set_type_or_restored(frame, migratetype)) {
            Some(true) => Ok(()),
            Some(false) => Err(AllocError::Quarantined(pfn)),
            None => Err(AllocError::no_memory(Why::NoCpu)),
        }
    }

    /// Returns the mobility that the pageblock around `pfn` is grouped under.
    ///
    /// `None` for a hole.
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        let word = self.world.shared.frames.pageblock(self.world.shared.frames.frame(pfn)?);
        word.zone().map(|_| word.migratetype())
    }

    /// Allocates `frames` contiguous frames, the first a multiple of `1 << align`.
    ///
    /// They are a block whose tail is freed, or else the first possible range of a zone. An interrupt gets a block's
    /// part or nothing, and so does a machine without mobility.
    ///
    /// # Errors
    /// `frames` is 0, `align` is above 51 ([`AllocError::BadAlignment`]), or there is no such range. In an
    /// interrupt also if the range, with its alignment, is larger than the largest block.
    pub fn alloc_contig(&self, frames: u64, align: Order, request: &Request) -> Result<PfnRange, AllocError> {
        // The tail could not be freed there.
        if self.machine().is_in_section() {
            return Err(AllocError::InInterrupt);
        }
        if frames == 0 {
            return Err(AllocError::BadRange(PfnRange::new(0, 0)));
        }
        if align > MOST_ALIGNED {
            return Err(AllocError::BadAlignment { align, max: MOST_ALIGNED });
        }
        let _held = self.hold_cpu_or_fail(request.gfp)?;
        let order = Order(64_u32.saturating_sub(frames.saturating_sub(1).leading_zeros()) as u8).max(align);
        if order <= self.geometry().max_order {
            return self.contig_of_block(frames, align, &Request { order, ..*request });
        }
        self.may_search()?;
        self.check(&Request { order: Order(0), ..*request })?;
        let world = self.world();
        let plan = world.pinned(|cx| world.plan(cx, request)).ok_or(AllocError::no_memory(Why::NoCpu))?;
        let range = world.search_range(frames, align, &plan, |_| true, |_| true);
        let has_room = |zone: &Zone<M>| zone.memory_exact(&world.shared).free >= frames;
        let why = || if world.all_zones(&plan).any(has_room) { Why::Fragmented } else { Why::Watermark };
        let range = range.ok_or_else(|| self.no_memory(request, why()))?;
        self.announce_range(range, request.gfp);
        Ok(range)
    }

    /// Refuses a search of zones, which isolates pageblocks and waits for other CPUs.
    fn may_search(&self) -> Result<(), AllocError> {
        self.needs_mobility()?;
        self.outside_of_interrupts()
    }

    /// Allocates a block and frees its tail, or else allocates a range.
    ///
    /// A range is tried where enough memory is free, but in no block that large.
    fn contig_of_block(&self, frames: u64, align: Order, block: &Request) -> Result<PfnRange, AllocError> {
        let fast = self.route_of(block)?.and_then(|route| self.alloc_fast(route));
        let pfn = match fast {
            Some(pfn) => self.announced(pfn, block),
            None => {
                self.check(block)?;
                match self.world().alloc_slow(block) {
                    Ok(frame) => self.served(block, frame),
                    Err(why) => return self.contig_of_pieces(frames, align, block, why),
                }
            }
        };
        let range = PfnRange { start: pfn, end: pfn.add(frames) };
        let tail = PfnRange { start: range.end, end: pfn.add(block.order.frames()) };
        if !tail.is_empty() {
            // The caller owns the block, so its tail can be freed.
            let _ = self.free_range(tail);
        }
        Ok(range)
    }

    /// Allocates a range where a block failed.
    fn contig_of_pieces(&self, frames: u64, align: Order, block: &Request, why: Why) -> Result<PfnRange, AllocError> {
        // A range may mix mobilities, which the mechanisms may forbid.
        let is_scattered = why == Why::Fragmented && !self.mechanisms().mixes_last() && self.may_search().is_ok();
        let Some(range) = is_scattered.then(|| self.search_above_mark(frames, align, block)).flatten() else {
            return Err(self.failed(block, why));
        };
        self.announce_range(range, block.gfp);
        Ok(range)
    }

    /// Searches for a range in zones that stay above their min mark without it.
    ///
    /// The request's interleaving turn was already counted.
    fn search_above_mark(&self, frames: u64, align: Order, block: &Request) -> Option<PfnRange> {
        let world = self.world();
        let plan = world.pinned(|cx| {
            let turn = cx.own.turn.load(Ordering::Relaxed).wrapping_sub(1);
            world.plan_from(cx.node, turn, block)
        })?;
        let alloc_flags = AllocFlags { mark: Mark::Min, unboosted: true, ..first_alloc_flags(&plan) };
        let want = world.want(&plan, alloc_flags);
        let may_take = |zone: &Zone<M>| zone.has_room(&world.shared, frames, plan.highest, alloc_flags);
        let range = world.search_range(frames, align, &plan, may_take, |migratetype| want.may_use(migratetype))?;
        world.pinned(|cx| world.count_searched(cx, &plan, range.start));
        Some(range)
    }
}

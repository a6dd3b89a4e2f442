//! The public calls.
//!
//! [`Allocator`] is a value: there may be many, each over its own memory. All calls take `&self` and may be made from any
//! CPU at once, as far as its machine's words are shared between threads. None panics, none allocates, none
//! touches the memory it manages; what is wrong with a call is said by its error, and then nothing has changed.

use crate::api::fast_path::{Route, are_contradictory};
use crate::boot::boot::{self, Parts};
use crate::boot::config::Config;
use crate::frame::frame::{Geometry, Part};
use crate::observe::validate::{self, Census, Violation};
use crate::policy::mechanisms::Mechanisms;
use crate::range::contig_range::Purpose;
use crate::range::split::refusal;
use crate::seam::event::Event;
use crate::seam::machine::{Busy, Fault, Machine, Ordering, Pinned, Step, Word};
use crate::stat::vmstat::GlobalEvent;
use crate::types::error::{AllocError, BootError, FreeError, Why};
use crate::types::request::{__GFP_ZERO, Gfp, Policy, Request};
use crate::types::units::{CpuId, Frame, MigrateType, Order, Pfn, PfnRange, ZoneIdx};
use crate::zonelist::world::World;

/// Looks for a CPU of a range that must not wait for one: longer than a call on it lasts, unless its holder sleeps or is stopped.
const CPU_LOOKS: u32 = 1 << 14;

/// A page-frame allocator over a memory map.
pub struct Allocator<'a, M: Machine> {
    world: World<'a, M>,
}

/// What a frame is, for [`Allocator::state_of`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameState {
    /// Not memory of this allocator.
    Hole,
    /// In a free block: where it starts, and its order.
    Free(Pfn, Order),
    /// In a block on a per-CPU list, or being freed.
    Pcp(Pfn, Order),
    /// In an allocated block.
    Allocated(Pfn, Order),
    /// Withheld.
    Offline(Pfn, Order),
    /// Put aside.
    Quarantined(Pfn, Order),
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Sets up an allocator: all usable memory of `config` is free afterwards. `parts` must be as long as
    /// [`crate::Layout::of`] says, of zeroed words and default records.
    ///
    /// # Errors
    /// What is wrong with the configuration or the parts.
    pub fn boot(machine: M, config: &Config<'_>, parts: Parts<'a, M>) -> Result<Self, BootError> {
        boot::boot(machine, config, parts).map(|world| Allocator { world })
    }

    /// What it runs on.
    pub fn machine(&self) -> &M {
        &self.world.ground.machine
    }

    /// The mechanisms at work.
    pub fn mechanisms(&self) -> Mechanisms {
        self.world.ground.mechanisms
    }

    /// Page size and largest orders.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.world.ground.frames.geometry
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.world.nodes
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.world.ground.cpus.len()
    }

    /// Allocates a block of `1 << request.order` frames; returns its first.
    ///
    /// # Errors
    /// The request makes no sense, or there is no memory for it.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.alloc_by(request, |route| self.take_here(route), || self.alloc_elsewhere(request))
    }

    /// Allocates at the front, or else elsewhere. One call out of line, whose result is the caller's: nothing is kept for it where
    /// it is not made.
    #[inline(always)]
    pub(crate) fn alloc_by(
        &self,
        request: &Request,
        front: impl FnOnce(Route) -> Option<Pfn>,
        elsewhere: impl FnOnce() -> Result<Pfn, AllocError>,
    ) -> Result<Pfn, AllocError> {
        if self.machine().fault(Fault::Alloc) {
            return self.failed(request, Why::Fault);
        }
        match Route::of(request, self.geometry().pageblock_order).and_then(front) {
            Some(pfn) => {
                self.announce(pfn, request);
                Ok(pfn)
            }
            None => elsewhere(),
        }
    }

    #[inline(never)]
    fn alloc_elsewhere(&self, request: &Request) -> Result<Pfn, AllocError> {
        match self.world.pinned_now(|cx| self.world.take_behind(cx, request)).flatten() {
            Some(pfn) => {
                self.announce(pfn, request);
                Ok(pfn)
            }
            None => self.alloc_long(request),
        }
    }

    /// Allocates the long way, or else asks `otherwise` with the reason why not. Announces only what is not `otherwise`'s.
    pub(crate) fn alloc_long_or(
        &self,
        request: &Request,
        otherwise: impl FnOnce(Why) -> Option<Pfn>,
    ) -> Result<Pfn, AllocError> {
        self.check(request)?;
        match self.world.alloc(request) {
            Ok(frame) => {
                let pfn = self.world.ground.frames.pfn(frame);
                self.announce(pfn, request);
                Ok(pfn)
            }
            Err(why) => otherwise(why).map_or_else(|| self.failed(request, why), Ok),
        }
    }

    #[inline(always)]
    pub(crate) fn take_here(&self, route: Route) -> Option<Pfn> {
        let world = &self.world;
        world.ground.machine.step(Step::Route);
        let pin = world.ground.machine.pin_now();
        let own = world.ground.cpus.get(pin.cpu().index())?;
        world.take_front(pin.cpu(), own, route).map(|frame| world.ground.frames.pfn(frame))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_long(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.machine().step(Step::AllocLong);
        self.check(request)?;
        if self.machine().is_in_section() {
            return Err(AllocError::InInterrupt);
        }
        let Ok(_held) = self.hold_cpu(request.gfp) else { return self.alloc_without_cpu(request) };
        self.alloc_long_or(request, |_| None)
    }

    /// The CPU of a request that must not wait for one's holder; none for a request that may.
    fn hold_cpu(&self, gfp: Gfp) -> Result<Option<M::Pin<'_>>, Busy> {
        let may_wait = gfp.may_reclaim() && !self.machine().in_interrupt();
        if may_wait { Ok(None) } else { self.world.hold_now() }
    }

    /// [`Allocator::hold_cpu`] for a call that needs a CPU: fails if none is to be had at any of many looks.
    pub(crate) fn hold_cpu_or_fail(&self, gfp: Gfp) -> Result<Option<M::Pin<'_>>, AllocError> {
        for _ in 0..CPU_LOOKS {
            if let Ok(held) = self.hold_cpu(gfp) {
                return Ok(held);
            }
            self.machine().relax();
        }
        Err(AllocError::NoMemory { why: Why::WouldWait })
    }

    /// Notes that a request failed. If it makes no sense, that is the error.
    #[cold]
    pub(crate) fn failed(&self, request: &Request, why: Why) -> Result<Pfn, AllocError> {
        self.check(request)?;
        let Request { gfp, order, .. } = *request;
        self.world.ground.events.count(GlobalEvent::AllocFail);
        self.trace(|| Event::PageAlloc { pfn: None, order, migratetype: gfp.migratetype(), gfp });
        Err(AllocError::NoMemory { why })
    }

    /// Frees a block that was allocated with this order.
    ///
    /// # Errors
    /// The frame does not begin such a block; the error names what it is. Two CPUs that free the same block in the
    /// same instant are the one wrong free that may go unnoticed, unless the mechanisms say `hardened`.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.give_here(pfn, order) { Ok(()) } else { self.free_elsewhere(pfn, order) }
    }

    #[inline(always)]
    fn give_here(&self, pfn: Pfn, order: Order) -> bool {
        let world = &self.world;
        world.ground.machine.step(Step::Lookup);
        let pin = world.ground.machine.pin_now();
        let own = world.ground.cpus.get(pin.cpu().index());
        own.is_some_and(|own| world.give_front(pin.cpu(), own, pfn, order))
    }

    #[inline(never)]
    fn free_elsewhere(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        match self.world.pinned_now(|cx| self.world.give_behind(cx, pfn, order)) {
            Some(true) => Ok(()),
            _ => self.free_long(pfn, order),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn free_long(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.machine().step(Step::FreeLong);
        let Ok(_held) = self.world.hold_now() else { return self.free_nolock(pfn, order) };
        self.try_free(pfn, order).inspect_err(|error| {
            // Of a CPU that is not there, the machine is to blame.
            if !matches!(error, FreeError::NoCpu) {
                self.world.ground.events.count(GlobalEvent::BadFree);
            }
        })
    }

    fn try_free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let frame = self.freeable(pfn, order, |frame| self.world.look_locked(frame))?;
        self.trace(|| Event::PageFree { pfn, order });
        match self.world.pinned(|cx| self.world.give(cx, frame, order, false)) {
            Some(true) => Ok(()),
            Some(false) => Err(FreeError::AlreadyFree(pfn)),
            None => Err(FreeError::NoCpu),
        }
    }

    /// Tells the tracepoints of a block that was served, and zeroes it if asked to.
    #[inline(always)]
    pub(crate) fn announce(&self, pfn: Pfn, request: &Request) {
        let Request { gfp, order, .. } = *request;
        self.trace(|| Event::PageAlloc { pfn: Some(pfn), order, migratetype: gfp.migratetype(), gfp });
        if gfp.contains(__GFP_ZERO) {
            self.world.ground.machine.zero(pfn, order);
        }
    }

    /// Allocates the block of `order` at `pfn`. What is in the way is moved if it can be and `gfp` lets the caller
    /// wait (`__GFP_DIRECT_RECLAIM`).
    ///
    /// # Errors
    /// The block is misaligned or not memory of one zone, or something in it stays; or this is an interrupt. An error names the first
    /// frame of the block that it is about.
    pub fn alloc_at(&self, pfn: Pfn, order: Order, gfp: Gfp) -> Result<Pfn, AllocError> {
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
        if self.world.take_free_block(pfn, order, movable).is_none() {
            self.world.take_range(PfnRange::block(pfn, order), Purpose::Allocate { movable }, gfp.may_reclaim())?;
        }
        self.announce(pfn, &Request { order, ..Request::page(gfp) });
        Ok(pfn)
    }

    /// Allocates exactly the frames of `range`, of any length and alignment within one zone. It consists of the largest
    /// aligned blocks that tile it; free it by [`Allocator::free_range`], whole or in parts.
    ///
    /// # Errors
    /// The range is not memory of one zone, or something in it stays; or this is an interrupt. An error names the first frame of the range
    /// that it is about.
    pub fn alloc_range(&self, range: PfnRange, gfp: Gfp) -> Result<(), AllocError> {
        self.outside_of_interrupts()?;
        self.check(&Request::page(gfp))?;
        let _held = self.hold_cpu_or_fail(gfp)?;
        let movable = gfp.migratetype() == MigrateType::Movable;
        self.world.take_range(range, Purpose::Allocate { movable }, gfp.may_reclaim())?;
        self.announce_range(range, gfp);
        Ok(())
    }

    pub(crate) fn announce_range(&self, range: PfnRange, gfp: Gfp) {
        for (pfn, order) in range.blocks(self.geometry().max_order) {
            self.announce(pfn, &Request { order, ..Request::page(gfp) });
        }
    }

    /// Frees any part of what is allocated: several blocks, or parts of blocks, whose rest stays allocated in the largest
    /// aligned blocks that tile it.
    ///
    /// Two CPUs may free two parts of one block at once.
    ///
    /// # Errors
    /// Some frame of the range is not allocated; then nothing was freed. Or another CPU freed some of the range in the same instant,
    /// which is its bug or the caller's: the error names the first frame that it had freed, and what lies before that was freed here.
    pub fn free_range(&self, range: PfnRange) -> Result<(), FreeError> {
        if self.world.pinned(|_| ()).is_none() {
            return Err(FreeError::NoCpu);
        }
        self.world.free_range(range).inspect_err(|_| self.world.ground.events.count(GlobalEvent::BadFree))?;
        for (pfn, order) in range.blocks(self.geometry().max_order) {
            self.trace(|| Event::PageFree { pfn, order });
        }
        Ok(())
    }

    /// Makes allocated blocks of order `to` out of the one of order `from` at `pfn`.
    ///
    /// # Errors
    /// There is no such block, or `to` is larger than `from`.
    pub fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        let frame = self.freeable(pfn, from, |frame| self.world.look_locked(frame))?;
        if to > from {
            return Err(FreeError::BadOrder { order: to, max: from });
        }
        self.world.split(frame, from, to)
    }

    /// Gives what a CPU keeps on its lists back, and the pageblocks that it owns: to the zones, or to who owns a block's pageblock. In an
    /// interrupt lists stay as they are. Returns the number of frames.
    pub fn drain_cpu(&self, cpu: CpuId) -> u64 {
        self.world.drain_cpu(cpu)
    }

    /// Frames in a zone's depot, at this moment.
    pub fn depot_frames(&self, zone: ZoneIdx) -> u64 {
        let shards = self.world.zone(zone).map_or(&[][..], |zone| self.world.pcps.depots.of(zone));
        shards.iter().map(|shard| u64::from(shard.frames_racy())).fold(0, u64::saturating_add)
    }

    /// Gives what a zone's depot keeps back to the zone. Returns the number of frames.
    pub fn drain_depot(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| self.world.drain_depot(zone))
    }

    /// Free frames in those of a zone's pageblocks that CPUs own, at this moment. Reads the words of all pageblocks.
    pub fn owned_frames(&self, zone: ZoneIdx) -> u64 {
        let frames = &self.world.ground.frames;
        let own = frames.estates.starts().filter(|&start| frames.pageblock(start).zone() == Some(zone));
        let words = own.flat_map(|start| frames.estates.words(start));
        words.map(|(_, word)| u64::from(word.load(Ordering::Relaxed).count_ones())).fold(0, u64::saturating_add)
    }

    /// Takes a zone's pageblocks from the CPUs that own them, and gives what is free in them back to the zone. Returns the number
    /// of frames.
    pub fn drain_owned(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| self.world.drain_owned(zone))
    }

    /// Gives what all CPUs keep on their lists, all depots, what is free in pageblocks that CPUs own, and what was freed while a zone was
    /// locked back to the zones. In an interrupt lists stay as they are. Returns the number of frames.
    pub fn drain_all(&self) -> u64 {
        self.world.drain_all()
    }

    /// Takes memory away: its frames are withheld until [`Allocator::bring_online`]. What is movable is moved.
    ///
    /// # Errors
    /// The range is not memory of one zone, or something in it stays; or this is an interrupt.
    pub fn take_offline(&self, range: PfnRange) -> Result<(), AllocError> {
        self.outside_of_interrupts()?;
        self.world.take_range(range, Purpose::Offline, true)?;
        self.world.refresh_marks();
        Ok(())
    }

    /// Hands out what was withheld in `range` since boot or [`Allocator::take_offline`]. Returns the number of frames.
    pub fn bring_online(&self, range: PfnRange) -> u64 {
        let online = self.world.bring_online(range);
        self.world.refresh_marks();
        online
    }

    /// Sets the mobility that the pageblock around `pfn` is grouped under. Its free blocks follow; while a range is taken in the pageblock, when
    /// that is done.
    ///
    /// # Errors
    /// The frame is not memory, or the type is that of isolated memory.
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) -> Result<(), AllocError> {
        if migratetype == MigrateType::Isolate {
            return Err(AllocError::BadType(migratetype));
        }
        let frame = self.world.ground.frames.frame(pfn).ok_or(AllocError::Foreign(pfn))?;
        let zone = self.world.zone_of(frame).ok_or(AllocError::Foreign(pfn))?;
        match self.world.pinned(|cx| zone.lock(cx).set_type_by_hand(frame, migratetype)) {
            Some(true) => Ok(()),
            Some(false) => Err(AllocError::Quarantined(pfn)),
            None => Err(AllocError::NoMemory { why: Why::NoCpu }),
        }
    }

    /// Mobility that the pageblock around `pfn` is grouped under; none for a hole.
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        let word = self.world.ground.frames.pageblock(self.world.ground.frames.frame(pfn)?);
        word.zone().map(|_| word.migratetype())
    }

    /// What a frame is, at this moment.
    pub fn state_of(&self, pfn: Pfn) -> FrameState {
        let frames = &self.world.ground.frames;
        let Some(frame) = frames.frame(pfn) else { return FrameState::Hole };
        match frames.part_of(frame) {
            Part::Hole => FrameState::Hole,
            Part::Free(head, order) => FrameState::Free(frames.pfn(head), order),
            Part::Pcp(head, order) => FrameState::Pcp(frames.pfn(head), order),
            Part::Allocated(head, order) => FrameState::Allocated(frames.pfn(head), order),
            Part::Offline(head, order) => FrameState::Offline(frames.pfn(head), order),
            Part::Quarantined(head, order) => FrameState::Quarantined(frames.pfn(head), order),
        }
    }

    /// Free frames of a zone, without per-CPU lists, at this moment.
    pub fn free_frames(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| zone.stat.memory_exact(&self.world.ground.stats, zone.idx).free)
    }

    /// Checks every numbered invariant; see [`crate::observe::validate`]. To be called while no other call is in progress.
    ///
    /// # Errors
    /// The first invariant found violated.
    pub fn validate(&self) -> Result<Census, Violation> {
        validate::validate(&self.world)
    }

    /// For calls that wait for other CPUs, reclaim or move memory (`context.rs`).
    pub(crate) fn outside_of_interrupts(&self) -> Result<(), AllocError> {
        let is_no_place = self.machine().in_interrupt() || self.machine().is_in_section();
        if is_no_place { Err(AllocError::InInterrupt) } else { Ok(()) }
    }

    pub(crate) fn world(&self) -> &World<'a, M> {
        &self.world
    }

    /// Checks a request's order, flags and nodes.
    pub(crate) fn check(&self, request: &Request) -> Result<(), AllocError> {
        let max = self.geometry().max_order;
        if request.order > max {
            return Err(AllocError::BadOrder { order: request.order, max });
        }
        let gfp = request.gfp;
        if are_contradictory(gfp) {
            return Err(AllocError::BadFlags);
        }
        match request.policy {
            Policy::Prefer(node) if node.index() >= self.world.nodes => Err(AllocError::BadNode(node)),
            _ => Ok(()),
        }
    }

    /// The descriptor of an allocated block of `order` at `pfn`, or why there is none. `look` has a second look at what seems to be nothing.
    pub(crate) fn freeable(
        &self,
        pfn: Pfn,
        order: Order,
        look: impl FnOnce(Frame) -> Part,
    ) -> Result<Frame, FreeError> {
        let frames = &self.world.ground.frames;
        let Some(frame) = frames.frame(pfn) else { return Err(FreeError::Foreign(pfn)) };
        if frames.head(frame).is_allocated_of(order) && order <= frames.geometry.max_order {
            return Ok(frame);
        }
        Err(self.refuse(pfn, frame, order, look))
    }

    #[cold]
    fn refuse(&self, pfn: Pfn, frame: Frame, order: Order, look: impl FnOnce(Frame) -> Part) -> FreeError {
        let frames = &self.world.ground.frames;
        let max = frames.geometry.max_order;
        if order > max {
            return FreeError::BadOrder { order, max };
        }
        if !pfn.is_aligned(order) {
            return FreeError::Misaligned(pfn, order);
        }
        if frames.head(frame).is_going() {
            return FreeError::AlreadyFree(pfn);
        }
        let part = match frames.part_of(frame) {
            // Memory that comes or goes says nothing for a moment, but not while its zone is locked.
            Part::Hole => look(frame),
            part => part,
        };
        match part {
            Part::Allocated(head, actual) if head == frame => FreeError::WrongOrder { pfn, actual },
            Part::Allocated(head, _) => FreeError::NotHead { pfn, head: frames.pfn(head) },
            other => refusal(pfn, other),
        }
    }

    #[inline(always)]
    pub(crate) fn trace(&self, event: impl FnOnce() -> Event) {
        if self.world.ground.machine.traces() {
            self.world.ground.machine.event(&event());
        }
    }
}

//! The allocator as a value, and what all its calls share: checks, announcements, accessors.
//!
//! There may be many allocators, each over its own memory. All calls take `&self` and may be made from any CPU at once,
//! as far as the machine's words are shared between threads. No call panics, allocates, or touches the memory it
//! manages. An error names what is wrong with a call; after an error nothing has changed.

use crate::api::fast_path::FastPath;
use crate::api::route::are_contradictory;
use crate::boot::boot::{self, Parts};
use crate::boot::config::Config;
use crate::frame::frame::{Geometry, Part};
use crate::policy::mechanisms::Mechanisms;
use crate::seam::event::Event;
use crate::seam::machine::{Machine, PerCpu};
use crate::stat::vmstat::GlobalEvent;
use crate::sync::looks::Looks;
use crate::types::error::{AllocError, BootError, Feature, Why};
use crate::types::request::{__GFP_NOWARN, __GFP_THISNODE, __GFP_ZERO, Gfp, Policy, Request};
use crate::types::units::{Order, Pfn, ZoneIdx};
use crate::types::why::Shortage;
use crate::zonelist::world::World;

/// Looks for a free CPU by a range call that must not wait: more than one call lasts, unless the CPU's holder sleeps or
/// is stopped.
const CPU_LOOKS: u32 = 1 << 14;

/// A page-frame allocator over a memory map.
pub struct Allocator<'a, M: Machine> {
    pub(super) world: World<'a, M>,
    /// The fast path of each CPU, where the machine keeps it.
    pub(super) fast: M::PerCpu<FastPath<'a, M>>,
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
    /// Withheld from all requests.
    Offline(Pfn, Order),
    /// In quarantine.
    Quarantined(Pfn, Order),
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Bytes of the value that the machine keeps for each CPU ([`PerCpu`]), with an `Option` around it.
    pub const PER_CPU_SIZE: usize = size_of::<Option<FastPath<'a, M>>>();

    /// Sets up an allocator; all usable memory of `config` is free afterwards.
    ///
    /// `parts` must be as long as [`crate::Layout::of`] says, of zeroed words and default records.
    ///
    /// # Errors
    /// What is wrong with the configuration or the parts.
    pub fn boot(machine: M, config: &Config<'_>, parts: Parts<'a, M>) -> Result<Self, BootError> {
        let world = boot::boot(machine, config, parts)?;
        let fast = PerCpu::new(&world.shared.machine, world.shared.cpus.len(), |cpu| FastPath::of(&world, cpu));
        Ok(Allocator { world, fast })
    }

    /// The machine that the allocator runs on.
    pub fn machine(&self) -> &M {
        &self.world.shared.machine
    }

    /// The mechanisms that were chosen at boot.
    pub fn mechanisms(&self) -> Mechanisms {
        *self.world.shared.mechanisms()
    }

    /// Page size and largest orders.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.world.shared.frames.geometry
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.world.nodes
    }

    /// Number of CPU records: one for each context of each CPU ([`Config::contexts`]).
    pub fn cpus(&self) -> usize {
        self.world.shared.cpus.len()
    }

    /// Holds a CPU for a call that cannot do without one, and must not wait for its holder; `None` if it may wait.
    ///
    /// Looks many times before it fails.
    pub(crate) fn hold_cpu_or_fail(&self, gfp: Gfp) -> Result<Option<M::Pin<'_>>, AllocError> {
        if self.world.shared.may_wait(gfp) {
            return Ok(None);
        }
        let mut looks = Looks::at_most(CPU_LOOKS);
        loop {
            match self.world.hold_now() {
                Ok(held) => return Ok(held),
                Err(_) if looks.again(self.machine()) => {}
                Err(_) => return Err(AllocError::no_memory(Why::WouldWait)),
            }
        }
    }

    /// Counts and announces a request that failed; returns its error.
    ///
    /// A request that makes no sense is not counted, and gets that error.
    #[cold]
    pub(crate) fn failed(&self, request: &Request, why: Why) -> AllocError {
        if let Err(bad) = self.check(request) {
            return bad;
        }
        let Request { gfp, order, .. } = *request;
        self.world.shared.events.count(GlobalEvent::AllocFail);
        self.trace(|| Event::PageAlloc { pfn: None, order, migratetype: gfp.migratetype(), gfp });
        self.no_memory(request, why)
    }

    /// Returns the error of a request that failed, with figures where the machine asks for them.
    #[cold]
    pub(crate) fn no_memory(&self, request: &Request, why: Why) -> AllocError {
        AllocError::NoMemory { why, left: self.shortage(request, why) }
    }

    fn shortage(&self, request: &Request, why: Why) -> Option<Shortage> {
        let is_told = M::FEATURES.shortage
            && matches!(why, Why::Watermark | Why::Fragmented | Why::NoZone | Why::WouldWait)
            && !request.gfp.contains(__GFP_NOWARN)
            && !(matches!(request.policy, Policy::Interleave(_)) && request.gfp.contains(__GFP_THISNODE));
        // From any context, the nearest node is known, and the CPU is not.
        is_told.then(|| self.world.shortage(&self.world.plan_from(self.machine().near(), 0, request)))
    }

    /// Announces an allocated block to tracepoints, and zeroes it for `__GFP_ZERO`.
    #[inline(always)]
    pub(crate) fn announce(&self, pfn: Pfn, request: &Request) {
        let Request { gfp, order, .. } = *request;
        self.trace(|| Event::page_alloc(pfn, request));
        if M::FEATURES.zero && gfp.contains(__GFP_ZERO) {
            self.world.shared.machine.zero(pfn, order);
        }
    }

    /// Announces an allocated block as [`Allocator::announce`] does; returns it.
    #[inline(always)]
    pub(crate) fn announced(&self, pfn: Pfn, request: &Request) -> Pfn {
        self.announce(pfn, request);
        pfn
    }

    /// Announces a frame of `FastPath::alloc_asked`, which serves no request that must be zeroed; returns it.
    #[inline(always)]
    pub(crate) fn announced_asked(&self, pfn: Pfn, gfp: Gfp) -> Pfn {
        self.trace(|| Event::page_alloc(pfn, &Request::page(gfp)));
        pfn
    }

    /// Whether [`Allocator::announce`] does anything for a request.
    pub(crate) fn announces(&self, request: &Request) -> bool {
        self.machine().traces_calls() || M::FEATURES.zero && request.gfp.contains(__GFP_ZERO)
    }

    /// What a frame is part of, at this moment.
    pub fn state_of(&self, pfn: Pfn) -> FrameState {
        let frames = &self.world.shared.frames;
        frames.frame(pfn).map_or(FrameState::Hole, |frame| self.state(frames.part_of(frame)))
    }

    /// Like [`Allocator::state_of`], for the owner of a part of a block, whose other parts may be freed meanwhile.
    ///
    /// Without the zone lock, a block that is being cut may look as if it were free. So a frame that does not look
    /// allocated is looked at again under the lock. Context: that of a free.
    pub fn state_settled(&self, pfn: Pfn) -> FrameState {
        let frame = self.world.shared.frames.frame(pfn);
        frame.map_or(FrameState::Hole, |frame| self.state(self.world.look_settled(frame)))
    }

    fn state(&self, part: Part) -> FrameState {
        let frames = &self.world.shared.frames;
        match part {
            Part::Hole => FrameState::Hole,
            Part::Free(head, order) => FrameState::Free(frames.pfn(head), order),
            Part::Pcp(head, order) => FrameState::Pcp(frames.pfn(head), order),
            Part::Allocated(head, order) => FrameState::Allocated(frames.pfn(head), order),
            Part::Offline(head, order) => FrameState::Offline(frames.pfn(head), order),
            Part::Quarantined(head, order) => FrameState::Quarantined(frames.pfn(head), order),
        }
    }

    /// Free frames of a zone at this moment; frames on per-CPU lists are not counted.
    pub fn free_frames(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| zone.memory_exact(&self.world.shared).free)
    }

    /// Refuses a call that takes memory by its place, where it would change the types of pageblocks.
    pub(crate) fn needs_mobility(&self) -> Result<(), AllocError> {
        if M::FEATURES.mobility { Ok(()) } else { Err(AllocError::LeftOut(Feature::Mobility)) }
    }

    /// Refuses a call that waits for other CPUs, reclaims or moves memory, if it comes from an interrupt
    /// (`context.rs`).
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
        if !M::FEATURES.zero && gfp.contains(__GFP_ZERO) {
            return Err(AllocError::LeftOut(Feature::Zero));
        }
        if !M::FEATURES.nodes && !matches!(request.policy, Policy::Local) {
            return Err(AllocError::LeftOut(Feature::Nodes));
        }
        if !M::FEATURES.address_limits && request.below.is_some() {
            return Err(AllocError::LeftOut(Feature::AddressLimits));
        }
        match request.policy {
            Policy::Prefer(node) if node.index() >= self.world.nodes => Err(AllocError::BadNode(node)),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    pub(crate) fn trace(&self, event: impl FnOnce() -> Event) {
        if self.world.shared.machine.traces_calls() {
            self.world.shared.machine.event(&event());
        }
    }
}

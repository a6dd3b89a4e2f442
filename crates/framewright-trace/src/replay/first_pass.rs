//! The first pass over a trace: its quality, the kernel's own results, and the state before it.
//!
//! The first event of a frame shows its use when recording began. A frame that is allocated first was free, if only on
//! a per-CPU list, where `kpageflags` does not show it. A frame that is freed or moved first was in use. The first
//! request that a pageblock serves hints at its type, which is recorded nowhere.
//!
//! Tables have an entry for each frame of the machine, which the state tells. Without a state they grow with the
//! trace. The trace claims both sizes, so they are checked against the limit before memory is taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fixedbitset::FixedBitSet;
use framewright::request::__GFP_ZERO;
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange};

use super::cpu_nodes::CpuNodes;
use super::frame_span::Span;
use super::high_order::HighOrderBlocks;
use super::lifetimes::{Lifetimes, Reclaimed};
use super::reclaim_context::ReclaimContext;
use super::replay_error::ReplayError;
use super::replay_options::ReplayOptions;
use super::run_counts::{Extfrag, OrderCount};
use super::thp_faults::{Candidates, Faults, FirstTry, is_huge};
use super::zone_map::{self, ZoneMap};
use crate::proc::{ZoneInfo, ZoneState, flag};
use crate::record::{Kind, Quality, Record};
use crate::state::InitialState;
use crate::struct_page::PFN_LIMIT;
use crate::trace::{Place, Trace};

/// Records read between two reports of progress.
pub(super) const STRETCH: u64 = 1 << 16;

/// The results of the first pass.
pub(crate) struct FirstPass {
    pub(crate) name: String,
    pub(super) quality: Quality,
    pub(super) initial: InitialState,
    /// The kernel's own zones at the end.
    pub(super) at_end: Option<ZoneInfo>,
    pub(crate) pageblock_order: Order,
    pub(super) max_order: Order,
    pub(crate) span: Span,
    pub(crate) zones: ZoneMap,
    /// From the lowest to the highest frame that an event names.
    pub(super) named: PfnRange,
    /// The node of each CPU.
    pub(super) cpus: Vec<NodeId>,
    /// Frames that were in use when recording began, as far as events tell.
    pub(super) was_used: FixedBitSet,
    /// Frames that were free when recording began, as far as events tell.
    pub(super) was_free: FixedBitSet,
    /// The first mobility that a pageblock served, by its number from frame 0 on.
    pub(super) first_type: HashMap<u64, MigrateType>,
    /// The rule that tells first tries of faults.
    pub(super) first_try: FirstTry,
    /// Whether the kernel zeroes movable pages in the allocator, as for pages that a task touches.
    pub(super) zeroes: bool,
    /// The allocations whose memory the kernel reclaimed.
    pub(super) reclaimed: Reclaimed,
    pub(super) linux: Linux,
}

/// The kernel's own results.
#[derive(Default)]
pub(super) struct Linux {
    pub(super) requests: u64,
    pub(super) nanoseconds: u64,
    pub(super) extfrag: Extfrag,
    /// Fallbacks that the kernel calls fragmenting.
    pub(super) fragmenting: u64,
    pub(super) orders: BTreeMap<Order, OrderCount>,
    pub(super) faults: Faults,
    pub(super) moves: u64,
    /// Requests that reclaimed by themselves, if that was recorded.
    pub(super) direct_reclaims: u64,
    /// Frames known to be in use at the end.
    pub(super) used: FixedBitSet,
    pub(super) touched: FixedBitSet,
}

impl FirstPass {
    /// Reads a trace for the first time. `progress` receives the number of records read.
    pub(super) fn of(
        place: Place<'_>,
        options: &ReplayOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<FirstPass, ReplayError> {
        match pass_over(place, options, None, progress)? {
            PassEnd::Whole(first_pass) => Ok(*first_pass),
            PassEnd::Pageblock(order) => match pass_over(place, options, Some(order), progress)? {
                PassEnd::Whole(first_pass) => Ok(*first_pass),
                PassEnd::Pageblock(_) => Err(ReplayError::Empty(place.name())),
            },
        }
    }
}

/// The end of a pass over a trace.
enum PassEnd {
    Whole(Box<FirstPass>),
    /// An event says that pageblocks have another order than assumed.
    Pageblock(Order),
}

/// Reads the trace once.
///
/// `pageblock` is the order of a pageblock by one of its events; none if no event was read yet.
fn pass_over(
    place: Place<'_>,
    options: &ReplayOptions,
    pageblock: Option<Order>,
    progress: &mut dyn FnMut(u64),
) -> Result<PassEnd, ReplayError> {
    let mut trace = Trace::open_with(place, &options.text)?;
    let mut pass = PassState::new(place.name(), trace.initial(), pageblock, options.memory_limit)?;
    let mut reclaiming = ReclaimContext::default();
    let mut first_time = None;
    let mut records = 0_u64;
    while let Some(record) = trace.next() {
        let record = record?;
        records += 1;
        if let Some(order) = pass.pageblock(records, &record.kind)? {
            return Ok(PassEnd::Pageblock(order));
        }
        pass.make_room(records, &record.kind)?;
        let reclaims = reclaiming.follow(&record, trace.comms());
        pass.record(&record, reclaims);
        let start = *first_time.get_or_insert(record.time);
        pass.linux.nanoseconds = pass.linux.nanoseconds.max(record.time.saturating_sub(start));
        if records.is_multiple_of(STRETCH) {
            progress(records);
        }
    }
    if pass.linux.requests == 0 {
        return Err(ReplayError::Empty(pass.name));
    }
    let at_end = trace.after().and_then(|after| after.zoneinfo.clone());
    let first_pass = pass.finish(trace.initial().clone(), trace.quality().clone());
    Ok(PassEnd::Whole(Box::new(FirstPass { at_end, ..first_pass })))
}

/// State of the pass.
struct PassState {
    name: String,
    memory_limit: u64,
    pageblock_order: Order,
    /// Whether pagetypeinfo or an event confirms it.
    pageblock_is_told: bool,
    max_order: Order,
    /// The first frames of the steps that events name, where nothing else gives the span.
    steps: BTreeSet<Pfn>,
    span: Span,
    named: Span,
    /// Whether zoneinfo or kpageflags give the span beforehand.
    fixed: bool,
    cpus: usize,
    zones: ZoneMap,
    cpu_nodes: CpuNodes,
    was_used: FixedBitSet,
    was_free: FixedBitSet,
    first_type: HashMap<u64, MigrateType>,
    linux: Linux,
    faults: Candidates,
    high_order: HighOrderBlocks,
    zeroes: bool,
    lifetimes: Lifetimes,
}

impl PassState {
    fn new(
        name: String,
        initial: &InitialState,
        pageblock: Option<Order>,
        memory_limit: u64,
    ) -> Result<PassState, ReplayError> {
        let zones = initial.zoneinfo.as_ref();
        let map = match zones.map(ZoneMap::new).transpose() {
            Ok(map) => map.unwrap_or_default(),
            Err((zone, fault)) => {
                return Err(ReplayError::Zone { file: name, node: zone.node, zone: zone.name.clone(), fault });
            }
        };
        let span = match (zones, &initial.kpageflags) {
            (Some(zones), _) => Span::of(zone_map::populated(zones).map(ZoneState::range)),
            (None, Some(flags)) => {
                let there = flags.runs().filter(|(_, bits)| bits & (flag::NOPAGE | flag::OFFLINE) == 0);
                Span::of(there.map(|(range, _)| range))
            }
            (None, None) => Span::default(),
        };
        let recorded = initial.pagetypeinfo.as_ref().map(|info| info.pageblock_order);
        let told = recorded.filter(|order| order.0 != 0).or(pageblock);
        let pageblock_order = told.unwrap_or(Order(9));
        let largest = initial.buddyinfo.as_ref().map_or(Order(10), |info| info.max_order());
        let mut pass = PassState {
            name,
            memory_limit,
            pageblock_order,
            pageblock_is_told: told.is_some(),
            max_order: largest.max(pageblock_order),
            fixed: !span.range.is_empty(),
            steps: BTreeSet::new(),
            span: Span::default(),
            named: Span::default(),
            cpus: zones.map_or(1, zone_map::cpus),
            cpu_nodes: CpuNodes::new(&map),
            zones: map,
            was_used: FixedBitSet::new(),
            was_free: FixedBitSet::new(),
            first_type: HashMap::new(),
            linux: Linux::default(),
            faults: Candidates::new(),
            high_order: HighOrderBlocks::default(),
            zeroes: false,
            lifetimes: Lifetimes::default(),
        };
        pass.resize(span)?;
        Ok(pass)
    }

    /// The order of a pageblock by record number `event`, if it differs from the assumed one.
    fn pageblock(&mut self, event: u64, kind: &Kind) -> Result<Option<Order>, ReplayError> {
        let Kind::ExtFrag { pageblock_order: said, .. } = *kind else { return Ok(None) };
        if said != self.pageblock_order {
            if !self.pageblock_is_told {
                return Ok(Some(said));
            }
            let (file, known) = (self.name.clone(), self.pageblock_order);
            return Err(ReplayError::Pageblock { file, event, said, known });
        }
        self.pageblock_is_told = true;
        Ok(None)
    }

    /// Grows the tables to `span`, which includes the old one and more frames at one place.
    fn resize(&mut self, span: Span) -> Result<(), ReplayError> {
        if !span.fits(self.memory_limit) {
            return Err(span.too_large(&self.name, span.bytes(0), self.memory_limit));
        }
        // A span grows at one place: the frames above move by as many, the frames below stay.
        let at = self.span.first_difference(&span);
        let shift = span.len() - self.span.len();
        let linux = &mut self.linux;
        let sets =
            [&mut self.was_used, &mut self.was_free, &mut linux.used, &mut linux.touched, &mut self.high_order.inside];
        for set in sets {
            let mut wider = FixedBitSet::with_capacity(span.len());
            set.ones().for_each(|index| wider.insert(if index < at { index } else { index + shift }));
            *set = wider;
        }
        self.lifetimes.grow(at, shift);
        self.span = span;
        Ok(())
    }

    /// Makes room for the frames that record number `event` names.
    fn make_room(&mut self, event: u64, kind: &Kind) -> Result<(), ReplayError> {
        let blocks = match *kind {
            Kind::Alloc { pfn: Some(pfn), order, .. } | Kind::Free { pfn, order } => {
                self.max_order = self.max_order.max(order);
                [Some(PfnRange::block(pfn, order)), None]
            }
            Kind::Move { old, new } => [old, new].map(|pfn| Some(PfnRange::block(pfn, Order(0)))),
            Kind::ExtFrag { fallback_order, .. } => {
                self.max_order = self.max_order.max(fallback_order);
                return Ok(());
            }
            _ => return Ok(()),
        };
        for block in blocks.into_iter().flatten() {
            if !self.span.covers(block) {
                self.widen(event, block)?;
            }
            self.named.include(block);
        }
        Ok(())
    }

    #[cold]
    fn widen(&mut self, event: u64, block: PfnRange) -> Result<(), ReplayError> {
        const POSSIBLE: PfnRange = PfnRange::new(0, PFN_LIMIT);
        let known = if self.fixed { self.span.range } else { POSSIBLE };
        if self.fixed || block.end > POSSIBLE.end {
            return Err(ReplayError::Outside { file: self.name.clone(), event, block, known });
        }
        // In steps, so that a growing trace is copied rarely. Between steps that lie far apart there is no memory.
        let step = Order(18);
        let numbers = block.start.0 >> step.0..block.end.align_up(step).0 >> step.0;
        self.steps.extend(numbers.map(|number| Pfn(number << step.0)));
        let ranges = self.steps.iter().map(|&start| PfnRange { start, end: start.add(step.frames()) });
        self.resize(Span::of(ranges))
    }

    /// Counts a record of a thread that reclaims memory or not.
    fn record(&mut self, record: &Record, reclaims: bool) {
        if record.kind.is_request() {
            self.linux.requests += 1;
        }
        self.cpus = self.cpus.max(record.cpu.index() + 1);
        match record.kind {
            Kind::Alloc { pfn, order, migratetype, gfp } => {
                self.linux.orders.entry(order).or_default().count(pfn.is_some());
                if is_huge(order, migratetype, self.pageblock_order) {
                    self.faults.request(record.pid, pfn, gfp);
                }
                self.zeroes |= order.0 == 0 && migratetype == MigrateType::Movable && gfp.contains(__GFP_ZERO);
                if let Some(pfn) = pfn {
                    self.alloc(record.cpu, pfn, order, migratetype);
                }
            }
            Kind::Free { pfn, order } => self.free(pfn, order, reclaims),
            Kind::Move { old, new } => self.moved(old, new),
            Kind::ExtFrag {
                alloc_order, fallback_order, alloc_migratetype, fallback_migratetype, fragmenting, ..
            } => {
                self.linux.fragmenting += u64::from(fragmenting);
                self.linux.extfrag.count(alloc_order, fallback_order, alloc_migratetype, fallback_migratetype);
            }
            Kind::FreeBatched { .. } | Kind::PcpuDrain { .. } | Kind::AllocZoneLocked { .. } => {}
            Kind::ReclaimBegin { .. } => self.linux.direct_reclaims += 1,
            Kind::ReclaimEnd { .. } => {}
        }
    }

    fn alloc(&mut self, cpu: CpuId, pfn: Pfn, order: Order, migratetype: MigrateType) {
        self.cpu_nodes.count(cpu, pfn);
        self.high_order.put(&self.span, pfn, order);
        if order < self.pageblock_order {
            self.first_type.entry(pfn.0 >> self.pageblock_order.0).or_insert(migratetype);
        }
        self.touch(pfn, order, true);
        self.lifetimes.alloc(self.span.block(pfn, order));
    }

    fn free(&mut self, pfn: Pfn, order: Order, reclaims: bool) {
        let is_object = self.high_order.starting_at(&self.span, pfn) == order;
        let split = self.high_order.take(&self.span, pfn, order);
        self.lifetimes.free(self.span.block(pfn, order), is_object && !split, reclaims);
        self.faults.freed(pfn.align_down(self.pageblock_order));
        self.touch(pfn, order, false);
    }

    fn moved(&mut self, old: Pfn, new: Pfn) {
        self.linux.moves += 1;
        let order = self.high_order.moved(&self.span, old, new, |order| {
            let target = self.span.block(new, order);
            target.len() as u64 == order.frames() && !self.linux.used.contains_any_in_range(target)
        });
        if order == self.pageblock_order {
            self.faults.moved(old, new);
        }
        self.high_order.take(&self.span, old, order);
        self.high_order.put(&self.span, new, order);
        self.lifetimes.moved(self.span.block(old, order), self.span.block(new, order));
        self.touch(new, order, true);
        // The old page is freed by an event of its own. Here it shows that it was in use.
        for index in self.span.block(old, order) {
            if !self.linux.touched.put(index) {
                self.was_used.insert(index);
                self.linux.used.insert(index);
            }
        }
    }

    /// Notes the use of a block's frames. Their first event also shows their use before.
    fn touch(&mut self, pfn: Pfn, order: Order, now_used: bool) {
        for index in self.span.block(pfn, order) {
            if !self.linux.touched.put(index) {
                if now_used {
                    self.was_free.insert(index);
                } else {
                    self.was_used.insert(index);
                }
            }
            self.linux.used.set(index, now_used);
        }
    }

    fn finish(mut self, initial: InitialState, quality: Quality) -> FirstPass {
        let (first_try, faults) = self.faults.settle();
        self.linux.faults = faults;
        FirstPass {
            name: self.name,
            quality,
            initial,
            at_end: None,
            pageblock_order: self.pageblock_order,
            max_order: self.max_order,
            span: self.span,
            zones: self.zones,
            named: self.named.range,
            cpus: self.cpu_nodes.settle(self.cpus),
            was_used: self.was_used,
            was_free: self.was_free,
            first_type: self.first_type,
            first_try,
            zeroes: self.zeroes,
            reclaimed: self.lifetimes.reclaimed,
            linux: self.linux,
        }
    }
}

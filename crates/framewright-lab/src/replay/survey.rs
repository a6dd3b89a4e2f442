//! The first pass over a trace: what it is worth, what the kernel did, and what was there before.
//!
//! What happens to a frame first tells what it was when recording began. A frame that is allocated first was free, if
//! only on a per-CPU list, where `kpageflags` does not show it; one that is freed or moved away first was in use.
//! The first request that a pageblock serves hints at its type, which nothing recorded says.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use fixedbitset::FixedBitSet;
use framewright::pfn::{CpuId, MigrateType, Order, Pfn, PfnRange};
use framewright::request::{__GFP_THISNODE, Gfp};

use super::ReplayError;
use super::frames::Span;
use super::outcome::{Extfrag, OrderCount};
use crate::trace::Trace;
use crate::trace::error::file_name;
use crate::trace::record::{Kind, Quality, Record};
use crate::trace::state::InitialState;
use crate::trace::text::TextOptions;

/// Records read between two reports of progress.
pub(super) const STRETCH: u64 = 1 << 16;

/// What the first pass found.
pub(super) struct Survey {
    pub(super) name: String,
    pub(super) quality: Quality,
    pub(super) initial: InitialState,
    pub(super) pageblock_order: Order,
    pub(super) span: Span,
    pub(super) cpus: usize,
    /// Frames that were in use when recording began, as far as events tell.
    pub(super) was_used: FixedBitSet,
    /// Frames that were free when recording began, as far as events tell.
    pub(super) was_free: FixedBitSet,
    /// The first mobility that each pageblock served, from the start of the span's first pageblock on.
    pub(super) first_type: Vec<Option<MigrateType>>,
    /// How faults are told.
    pub(super) first_try: FirstTry,
    pub(super) linux: Linux,
}

/// What the kernel did.
#[derive(Default)]
pub(super) struct Linux {
    pub(super) requests: u64,
    pub(super) nanoseconds: u64,
    pub(super) extfrag: Extfrag,
    pub(super) orders: BTreeMap<Order, OrderCount>,
    pub(super) faults: Faults,
    pub(super) moves: u64,
    /// Frames in use at the end; what nothing is known of is left out.
    pub(super) used: FixedBitSet,
    pub(super) touched: FixedBitSet,
}

/// The huge page faults of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) requests: u64,
    pub(super) count: u64,
    pub(super) served: u64,
    pub(super) peak_held: u64,
    /// Tasks with a fault whose tries all failed so far.
    open: HashSet<u32>,
    /// Huge pages that were served and not yet taken back.
    held: HashSet<Pfn>,
}

/// How to tell the first try of a fault. A task asks its own node first, with `__GFP_THISNODE`, and without it only after
/// that failed. A huge page asked for without either (by khugepaged, say) is no fault, unless the trace has no
/// such flag at all, as those of older kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FirstTry {
    Marked,
    Unmarked,
}

/// What a request for a huge page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Try {
    First,
    Again,
    NoFault,
}

impl FirstTry {
    /// What a request with `gfp` is; `open` says whether its task has a fault that failed so far.
    pub(super) fn classify(self, gfp: Gfp, open: bool) -> Try {
        let marked = gfp.contains(__GFP_THISNODE);
        match self {
            FirstTry::Marked if marked => Try::First,
            FirstTry::Unmarked if marked || !open => Try::First,
            _ if open => Try::Again,
            _ => Try::NoFault,
        }
    }
}

impl Faults {
    fn huge(&mut self, rule: FirstTry, pid: u32, pfn: Option<Pfn>, gfp: Gfp) {
        let this = rule.classify(gfp, self.open.contains(&pid));
        if this == Try::NoFault {
            return;
        }
        self.requests += 1;
        self.count += u64::from(this == Try::First);
        match pfn {
            Some(pfn) => {
                self.open.remove(&pid);
                self.served += 1;
                self.held.insert(pfn);
                self.peak_held = self.peak_held.max(self.held.len() as u64);
            }
            None => {
                self.open.insert(pid);
            }
        }
    }
}

/// Whether a request is one for a huge page of a process.
pub(super) fn is_huge(order: Order, migratetype: MigrateType, pageblock_order: Order) -> bool {
    order == pageblock_order && order.0 > 3 && migratetype == MigrateType::Movable
}

pub(super) fn survey(
    path: &Path,
    options: &TextOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Survey, ReplayError> {
    let mut trace = Trace::open_with(path, options)?;
    let name = file_name(path);
    let pageblock_order = trace.initial().pagetypeinfo.as_ref().map_or(Order(9), |info| info.pageblock_order);
    let mut pass = Pass::new(trace.initial(), pageblock_order);
    let mut first_time = None;
    let mut records = 0_u64;
    while let Some(record) = trace.next() {
        let record = record?;
        pass.frames(&name, &record.kind)?;
        pass.record(&record);
        let start = *first_time.get_or_insert(record.time);
        pass.linux.nanoseconds = pass.linux.nanoseconds.max(record.time.saturating_sub(start));
        records += 1;
        if records.is_multiple_of(STRETCH) {
            progress(records);
        }
    }
    if pass.linux.requests == 0 {
        return Err(ReplayError::Empty(name));
    }
    let initial = trace.initial().clone();
    let quality = trace.quality().clone();
    let cpus = pass.cpus.max(recorded_cpus(&initial));
    let first_try = if pass.uses_thisnode { FirstTry::Marked } else { FirstTry::Unmarked };
    pass.linux.faults = if pass.uses_thisnode { pass.marked } else { pass.unmarked };
    let Pass { span, was_used, was_free, first_type: first, linux, .. } = pass;
    let blocks = (span.range.end.align_up(pageblock_order).0 - span.range.start.align_down(pageblock_order).0)
        >> pageblock_order.0;
    let base = span.range.start.0 >> pageblock_order.0;
    let first_type = (0..blocks).map(|block| first.get(&(base + block)).copied()).collect();
    Ok(Survey { name, quality, initial, pageblock_order, span, cpus, was_used, was_free, first_type, first_try, linux })
}

fn recorded_cpus(initial: &InitialState) -> usize {
    let zones = initial.zoneinfo.iter().flat_map(|info| &info.zones);
    zones.flat_map(|zone| &zone.pagesets).map(|set| set.cpu as usize + 1).max().unwrap_or(1)
}

/// State of the pass.
struct Pass {
    pageblock_order: Order,
    span: Span,
    /// The span is known beforehand: from zoneinfo or kpageflags.
    fixed: bool,
    cpus: usize,
    was_used: FixedBitSet,
    was_free: FixedBitSet,
    first_type: HashMap<u64, MigrateType>,
    linux: Linux,
    /// Faults by either rule: which one holds is known at the end.
    uses_thisnode: bool,
    marked: Faults,
    unmarked: Faults,
    /// Orders of what is allocated, above 0.
    large: HashMap<Pfn, Order>,
}

impl Pass {
    fn new(initial: &InitialState, pageblock_order: Order) -> Pass {
        let mut span = Span::default();
        for zone in initial.zoneinfo.iter().flat_map(|info| &info.zones).filter(|zone| zone.spanned != 0) {
            span.include(zone.range());
        }
        let mut pass = Pass {
            pageblock_order,
            fixed: !span.range.is_empty(),
            span,
            cpus: 1,
            was_used: FixedBitSet::new(),
            was_free: FixedBitSet::new(),
            first_type: HashMap::new(),
            linux: Linux::default(),
            uses_thisnode: false,
            marked: Faults::default(),
            unmarked: Faults::default(),
            large: HashMap::new(),
        };
        if pass.fixed && span.range.frames() <= Span::LIMIT {
            pass.resize();
        }
        pass
    }

    fn resize(&mut self) {
        for set in [&mut self.was_used, &mut self.was_free, &mut self.linux.used, &mut self.linux.touched] {
            set.grow(self.span.len());
        }
    }

    /// Makes room for the frames that a record names.
    fn frames(&mut self, name: &str, kind: &Kind) -> Result<(), ReplayError> {
        let mut blocks = [None, None];
        match *kind {
            Kind::Alloc { pfn: Some(pfn), order, .. } | Kind::Free { pfn, order } => {
                blocks[0] = Some(PfnRange::block(pfn, order));
            }
            Kind::Move { old, new } => {
                blocks = [old, new].map(|pfn| Some(PfnRange::block(pfn, Order(0))));
            }
            _ => {}
        }
        for block in blocks.into_iter().flatten() {
            let inside = self.span.range.contains(block.start) && block.end <= self.span.range.end;
            if inside && self.was_used.len() == self.span.len() {
                continue;
            }
            self.widen(name, block)?;
        }
        Ok(())
    }

    #[cold]
    fn widen(&mut self, name: &str, block: PfnRange) -> Result<(), ReplayError> {
        let old = self.span;
        let mut span = old;
        span.include(block);
        // In steps, so that a growing trace is copied rarely.
        span.include(PfnRange { start: span.range.start.align_down(Order(18)), end: span.range.end.align_up(Order(18)) });
        let too_far = span.range.frames() > Span::LIMIT || span.range.end.0 > 1 << 52;
        if too_far || self.fixed {
            let (first, last) = (block.start.0, block.end.0.saturating_sub(1));
            let limit = if self.fixed { self.span.range.frames() } else { Span::LIMIT };
            return Err(ReplayError::TooManyFrames { file: name.to_owned(), first, last, limit });
        }
        let shift = (old.range.start.0 - span.range.start.0.min(old.range.start.0)) as usize;
        for set in [&mut self.was_used, &mut self.was_free, &mut self.linux.used, &mut self.linux.touched] {
            let mut wider = FixedBitSet::with_capacity(span.len());
            wider.extend(set.ones().map(|index| index + shift));
            *set = wider;
        }
        self.span = span;
        Ok(())
    }

    fn record(&mut self, record: &Record) {
        if record.kind.is_request() {
            self.linux.requests += 1;
        }
        let CpuId(cpu) = record.cpu;
        self.cpus = self.cpus.max(usize::from(cpu) + 1);
        match record.kind {
            Kind::Alloc { pfn, order, migratetype, gfp } => {
                self.alloc(record.pid, pfn, order, migratetype, gfp);
            }
            Kind::Free { pfn, order } => self.free(pfn, order),
            Kind::Move { old, new } => self.moved(old, new),
            Kind::ExtFrag { alloc_order, fallback_order, alloc_migratetype, fallback_migratetype, .. } => {
                self.linux.extfrag.count(alloc_order, fallback_order, alloc_migratetype, fallback_migratetype);
            }
            Kind::FreeBatched { .. } | Kind::PcpuDrain { .. } | Kind::AllocZoneLocked { .. } => {}
        }
    }

    fn alloc(&mut self, pid: u32, pfn: Option<Pfn>, order: Order, migratetype: MigrateType, gfp: Gfp) {
        self.linux.orders.entry(order).or_default().count(pfn.is_some());
        if is_huge(order, migratetype, self.pageblock_order) {
            self.uses_thisnode |= gfp.contains(__GFP_THISNODE);
            self.marked.huge(FirstTry::Marked, pid, pfn, gfp);
            self.unmarked.huge(FirstTry::Unmarked, pid, pfn, gfp);
        }
        let Some(pfn) = pfn else { return };
        if order.0 != 0 {
            self.large.insert(pfn, order);
        }
        if order < self.pageblock_order {
            self.first_type.entry(pfn.0 >> self.pageblock_order.0).or_insert(migratetype);
        }
        self.touch(pfn, order, true);
    }

    fn free(&mut self, pfn: Pfn, order: Order) {
        self.large.remove(&pfn);
        for faults in [&mut self.marked, &mut self.unmarked] {
            faults.held.remove(&pfn.align_down(self.pageblock_order));
        }
        self.touch(pfn, order, false);
    }

    fn moved(&mut self, old: Pfn, new: Pfn) {
        self.linux.moves += 1;
        let order = self.large.remove(&old).unwrap_or_default();
        if order.0 != 0 {
            self.large.insert(new, order);
        }
        self.touch(new, order, true);
        // The old page is freed by an event of its own; that it was in use shows here.
        for index in self.span.block(old, order) {
            if !self.linux.touched.put(index) {
                self.was_used.insert(index);
                self.linux.used.insert(index);
            }
        }
    }

    /// Notes what an event says of a block's frames: what they are now, and at the first what they were before.
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
}

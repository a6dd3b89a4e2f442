//! A second pass over the trace: each request carried out on our allocator.
//!
//! `home` says for each frame of the kernel's where our copy of it lies, or why there is none. The rules of fairness are
//! those at the head of `mod.rs`; each is one function here.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use framewright::event::Event;
use framewright::pfn::{CpuId, MigrateType, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::report::{PageTypeInfo, Source};
use framewright::request::{__GFP_NORETRY, __GFP_THISNODE, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp};
use framewright::{Allocator, Layout, Mechanisms, Request};
use framewright_rt::{Solo, Storage};

use super::ReplayError;
use super::frames::Span;
use super::machine::Recorded;
use super::outcome::{Column, Extfrag, Run, Seen, ZoneBlocks};
use super::survey::{FirstTry, STRETCH, Survey, Try, is_huge};
use crate::trace::Trace;
use crate::trace::record::{Kind, Record};
use crate::trace::text::TextOptions;

/// Base pages that stand for a huge page.
const BASE_PAGES: u32 = 512;

/// Where the object in a frame of the kernel's is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Home(u32);

impl Home {
    /// The kernel's frame is free.
    const FREE: Home = Home(0);
    /// Nowhere: its request was not made here, or failed here. The free is dropped.
    const NOWHERE: Home = Home(1);
    /// The object moved away under another frame; the free of what it left behind is dropped.
    const LEFT: Home = Home(2);
    const FIRST: u32 = 3;

    fn at(index: usize) -> Home {
        Home(index as u32 + Home::FIRST)
    }

    fn index(self) -> Option<usize> {
        self.0.checked_sub(Home::FIRST).map(|index| index as usize)
    }
}

/// A task's fault that the kernel has not served so far.
#[derive(Clone, Copy)]
struct Fault {
    /// What we served for it.
    ours: Option<Pfn>,
    /// Base pages still to be left out.
    skip: u32,
}

/// Carries out the whole trace under one set of mechanisms.
pub(super) fn run(
    path: &Path,
    options: &TextOptions,
    survey: &Survey,
    machine: &Recorded,
    mechanisms: Mechanisms,
    progress: &mut dyn FnMut(u64),
) -> Result<Column, ReplayError> {
    let config = framewright::Config { mechanisms, ..machine.config() };
    let mut storage = Storage::new(&Layout::of(&config)?);
    let extfrag = RefCell::new(Extfrag::default());
    let pages = Allocator::boot(Solo::new(&machine.cpus), &config, storage.parts())?;
    let mut mirror = Mirror::new(&pages, survey);
    mirror.set_up(machine);
    let invalid = |when| move |violation| ReplayError::Invalid { when, violation };
    pages.validate().map_err(invalid("after setting up the recorded state"))?;
    pages.machine().on_event(|event| {
        if let Event::ExtFrag { alloc_order, fallback_order, alloc_migratetype, fallback_migratetype, .. } = *event {
            extfrag.borrow_mut().count(alloc_order, fallback_order, alloc_migratetype, fallback_migratetype);
        }
    });
    let mut trace = Trace::open_with(path, options)?;
    let mut stretch = Vec::with_capacity(STRETCH as usize);
    let mut seconds = 0.0;
    let mut records = 0;
    loop {
        stretch.clear();
        for record in trace.by_ref().take(STRETCH as usize) {
            stretch.push(record?);
        }
        if stretch.is_empty() {
            break;
        }
        // Only the requests are timed, not the reading of the trace.
        let start = Instant::now();
        stretch.iter().for_each(|record| mirror.carry_out(record));
        seconds += start.elapsed().as_secs_f64();
        records += stretch.len() as u64;
        progress(records);
    }
    let counts = mirror.counts;
    pages.validate().map_err(invalid("at the end of the trace"))?;
    pages.drain_all();
    let census = pages.validate().map_err(invalid("at the end, with per-CPU lists drained"))?;
    let types = PageTypeInfo(&pages).to_string();
    let extfrag = extfrag.take();
    let run = Run { mechanisms, extfrag, seconds, events: survey.linux.requests, ..counts };
    Ok(run.column(machine.pageblock_order, blocks(&pages), types, &census))
}

/// Free blocks of each zone.
fn blocks(pages: &Allocator<'_, Solo<'_>>) -> Vec<ZoneBlocks> {
    let nodes = 0..pages.nodes() as u8;
    let zones = nodes.flat_map(|node| ZoneKind::ALL.map(|kind| ZoneIdx::of(framewright::NodeId(node), kind)));
    let snapshots = zones.filter_map(|zone| pages.zone(zone)).filter(|zone| zone.is_populated());
    let orders = pages.geometry().max_order.index() + 1;
    snapshots
        .map(|zone| ZoneBlocks {
            node: zone.node.0,
            zone: zone.kind.name(),
            free: zone.free_by_order().into_iter().take(orders).collect(),
        })
        .collect()
}

/// The kernel's objects on our allocator.
struct Mirror<'p, 'a, 'h> {
    pages: &'p Allocator<'a, Solo<'h>>,
    span: Span,
    pageblock_order: Order,
    first_try: FirstTry,
    home: Vec<Home>,
    /// Orders of the kernel's allocated blocks, above 0, by their first frame.
    large: HashMap<Pfn, Order>,
    /// Faults that the kernel has not served so far, by task.
    faults: HashMap<u32, Fault>,
    /// Our huge pages of faults.
    held: HashSet<Pfn>,
    counts: Run,
}

impl<'p, 'a, 'h> Mirror<'p, 'a, 'h> {
    fn new(pages: &'p Allocator<'a, Solo<'h>>, survey: &Survey) -> Self {
        Mirror {
            pages,
            span: survey.span,
            pageblock_order: survey.pageblock_order,
            first_try: survey.first_try,
            home: vec![Home::FREE; survey.span.len()],
            large: HashMap::new(),
            faults: HashMap::new(),
            held: HashSet::new(),
            counts: Run {
                mechanisms: pages.mechanisms(),
                extfrag: Extfrag::default(),
                orders: BTreeMap::new(),
                faults: 0,
                huge_requests: 0,
                served: 0,
                gained: 0,
                lost: 0,
                peak_held: 0,
                skipped: 0,
                failed_smaller: 0,
                refused: 0,
                events: 0,
                seconds: 0.0,
                seen: Seen::default(),
            },
        }
    }

    /// Allocates what was in use when recording began, where it was.
    fn set_up(&mut self, machine: &Recorded) {
        for &(pfn, migratetype) in &machine.types {
            // A pageblock of which no frame is memory has no type.
            let _ = self.pages.set_pageblock_type(pfn, migratetype);
        }
        for &(pfn, movable) in &machine.used {
            let gfp = if movable { GFP_HIGHUSER_MOVABLE } else { GFP_KERNEL };
            if self.pages.alloc_at(pfn, Order(0), gfp).is_ok() {
                self.settle(pfn, Order(0), Some(pfn));
            } else if let Some(index) = self.span.index(pfn) {
                self.home[index] = Home::NOWHERE;
            }
        }
    }

    fn carry_out(&mut self, record: &Record) {
        let CpuId(cpu) = record.cpu;
        self.pages.machine().run_on(CpuId(cpu));
        self.pages.machine().set_now(record.time);
        match record.kind {
            Kind::Alloc { pfn, order, migratetype, gfp } => {
                let open = self.faults.contains_key(&record.pid);
                let huge = is_huge(order, migratetype, self.pageblock_order);
                match self.first_try.classify(gfp, open) {
                    Try::First if huge => self.huge_try(record.pid, pfn, gfp, true),
                    Try::Again if huge => self.huge_try(record.pid, pfn, gfp, false),
                    _ => self.alloc(record.pid, pfn, Request { order, ..Request::page(gfp) }),
                }
            }
            Kind::Free { pfn, order } => self.free(pfn, order),
            Kind::Move { old, new } => self.moved(old, new),
            _ => {}
        }
    }

    /// A request other than for a huge page.
    fn alloc(&mut self, pid: u32, theirs: Option<Pfn>, request: Request) {
        let is_base_page = request.order.0 == 0 && request.gfp.migratetype() == MigrateType::Movable;
        if is_base_page
            && let Some(fault) = self.faults.get_mut(&pid).filter(|fault| fault.ours.is_some() && fault.skip != 0)
        {
            fault.skip -= 1;
            self.counts.skipped += 1;
            return self.settle_at(theirs, request.order, None);
        }
        let ours = self.pages.alloc(&request).ok();
        self.counts.orders.entry(request.order).or_default().count(ours.is_some());
        match (theirs, ours) {
            (None, Some(ours)) => self.give_back(PfnRange::block(ours, request.order)),
            (theirs, ours) => {
                self.counts.failed_smaller += u64::from(theirs.is_some() && ours.is_none());
                self.settle_at(theirs, request.order, ours);
            }
        }
    }

    /// A task's try for a huge page. `theirs` is what the kernel answered.
    fn huge_try(&mut self, pid: u32, theirs: Option<Pfn>, gfp: Gfp, first: bool) {
        let open = self.faults.remove(&pid);
        let mut ours = open.filter(|_| !first).and_then(|fault| fault.ours);
        self.counts.faults += u64::from(first);
        if ours.is_none() {
            ours = self.ask_huge(gfp);
            if ours.is_none() && first && theirs.is_some() && gfp.contains(__GFP_THISNODE) {
                // The kernel had no need of the second try that would have come now.
                ours = self.ask_huge(gfp & !(__GFP_THISNODE | __GFP_NORETRY));
            }
            self.counts.served += u64::from(ours.is_some());
        }
        match theirs {
            Some(theirs) => {
                self.counts.lost += u64::from(ours.is_none());
                if open.is_some_and(|fault| fault.ours.is_some()) && !first {
                    // Counted as gained when the kernel's earlier try failed.
                    self.counts.gained -= 1;
                }
                self.settle(theirs, self.pageblock_order, ours);
            }
            None => {
                let gained_before = !first && open.is_some_and(|fault| fault.ours.is_some());
                self.counts.gained += u64::from(ours.is_some() && !gained_before);
                self.faults.insert(pid, Fault { ours, skip: BASE_PAGES });
            }
        }
    }

    fn ask_huge(&mut self, gfp: Gfp) -> Option<Pfn> {
        self.counts.huge_requests += 1;
        let order = self.pageblock_order;
        let ours = self.pages.alloc(&Request { order, ..Request::page(gfp) }).ok();
        self.counts.orders.entry(order).or_default().count(ours.is_some());
        self.held.extend(ours);
        self.counts.peak_held = self.counts.peak_held.max(self.held.len() as u64);
        ours
    }

    /// Notes where the object of a block of the kernel's is; nowhere if `ours` is none. Nothing if the kernel failed.
    fn settle_at(&mut self, theirs: Option<Pfn>, order: Order, ours: Option<Pfn>) {
        if let Some(theirs) = theirs {
            self.settle(theirs, order, ours);
        }
    }

    fn settle(&mut self, theirs: Pfn, order: Order, ours: Option<Pfn>) {
        let start = ours.and_then(|ours| self.span.index(ours));
        for (offset, index) in self.span.block(theirs, order).enumerate() {
            let old = self.home[index];
            if let Some(old) = old.index() {
                // Its free was lost; a frame has one object.
                self.counts.seen.reallocations += 1;
                let pfn = self.span.pfn(old);
                self.give_back(PfnRange::block(pfn, Order(0)));
            }
            self.home[index] = start.map_or(Home::NOWHERE, |start| Home::at(start + offset));
        }
        if order.0 != 0 {
            self.large.insert(theirs, order);
        }
    }

    fn free(&mut self, theirs: Pfn, order: Order) {
        let was = self.large.remove(&theirs).unwrap_or_default();
        let frames = self.span.block(theirs, order);
        let Some(&first) = self.home.get(frames.start) else { return };
        if order.0 == 0 || frames.len() == 1 {
            self.home[frames.start] = Home::FREE;
            match first.index() {
                Some(index) => self.free_ours(self.span.pfn(index), order),
                None => self.counts.seen.free_unknown += u64::from(first == Home::FREE),
            }
            return;
        }
        self.counts.seen.splits += u64::from(was != order && was.0 != 0);
        // Pieces of our memory that lie side by side are freed together.
        let mut piece: Option<PfnRange> = None;
        let mut unknown = false;
        for index in frames {
            let home = std::mem::replace(&mut self.home[index], Home::FREE);
            unknown |= home == Home::FREE;
            let Some(pfn) = home.index().map(|index| self.span.pfn(index)) else { continue };
            match &mut piece {
                Some(piece) if piece.end == pfn => piece.end = pfn.add(1),
                _ => {
                    let next = PfnRange { start: pfn, end: pfn.add(1) };
                    piece.replace(next).into_iter().for_each(|piece| self.give_back(piece));
                }
            }
        }
        self.counts.seen.free_unknown += u64::from(unknown);
        match piece {
            Some(piece) if piece.frames() == order.frames() => self.free_ours(piece.start, order),
            Some(piece) => self.give_back(piece),
            None => {}
        }
    }

    /// Frees a block of ours that has this order, or is part of a larger one that the kernel split.
    fn free_ours(&mut self, ours: Pfn, order: Order) {
        self.held.remove(&ours.align_down(self.pageblock_order));
        if self.pages.free(ours, order).is_err() {
            self.counts.seen.splits += 1;
            self.give_back(PfnRange::block(ours, order));
        }
    }

    fn give_back(&mut self, range: PfnRange) {
        self.held.remove(&range.start.align_down(self.pageblock_order));
        if self.pages.free_range(range).is_err() {
            self.counts.refused += 1;
        }
    }

    /// The kernel moved an object. Ours stays; only its name changes.
    fn moved(&mut self, old: Pfn, new: Pfn) {
        let order = self.large.get(&old).copied().unwrap_or_default();
        let (from, to) = (self.span.block(old, order), self.span.block(new, order));
        if to.clone().any(|index| !matches!(self.home[index], Home::FREE | Home::LEFT)) {
            // A page was allocated for it: there are two until the old one is freed.
            self.counts.seen.moves_to_allocated += 1;
            return;
        }
        self.large.remove(&old);
        if order.0 != 0 {
            self.large.insert(new, order);
        }
        for (from, to) in from.zip(to) {
            self.home[to] = std::mem::replace(&mut self.home[from], Home::LEFT);
        }
    }
}

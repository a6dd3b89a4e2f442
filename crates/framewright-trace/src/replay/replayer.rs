//! The second pass over a trace: each request is made on our allocator.
//!
//! The frame map has for each of the kernel's frames the place of our copy, or why there is none. Each rule of
//! fairness at the head of `mod.rs` is one function here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::time::Instant;

use framewright::event::Event;
use framewright::machine::Busy;
use framewright::report::{PageTypeInfo, Source};
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp};
use framewright::units::{MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::{Allocator, Layout, Mechanisms, Request};
use framewright_rt::{Solo, Storage};

use super::first_pass::{FirstPass, STRETCH};
use super::frame_map::{FrameMap, Location};
use super::frame_span::Span;
use super::high_order::HighOrderBlocks;
use super::observer::{Observer, Pages};
use super::recorded_machine::RecordedMachine;
use super::recording::Recording;
use super::replay_error::ReplayError;
use super::report::{Column, ZoneBlocks, column};
use super::run_counts::{Extfrag, Run};
use super::thp_faults::{FirstTry, Try, is_huge};
use crate::record::{Kind, Record};
use crate::trace::Trace;

/// The most base pages that are not allocated for a huge page served here.
const BASE_PAGES: u32 = 512;

/// A task's fault that the kernel has not served so far.
#[derive(Clone, Copy)]
struct OpenFault {
    /// The huge page that our allocator served for it.
    ours: Option<Pfn>,
    /// Base pages that are still to be skipped.
    skip: u32,
}

/// Replays the whole trace under one set of mechanisms, and reports to `observer`.
pub(crate) fn run<W: Observer>(
    recording: &Recording<'_>,
    mechanisms: Mechanisms,
    observer: &RefCell<W>,
    progress: &mut dyn FnMut(u64),
) -> Result<Column, ReplayError> {
    let Recording { first_pass, machine, options, .. } = recording;
    let config = framewright::Config { mechanisms, ..machine.config() };
    let layout = layout(&config, first_pass, options.memory_limit)?;
    let mut storage = Storage::new(&layout);
    let extfrag = RefCell::new(Extfrag::default());
    let frame_map = RefCell::new(FrameMap::new(first_pass.span.clone(), machine.pageblock_order));
    // Not dropped, because its machine refers to it; `unhook` drops the callbacks.
    let pages = ManuallyDrop::new(Allocator::boot(Solo::new(&machine.cpus), &config, storage.parts())?);
    let result = play(recording, Replayer::new(&pages, &frame_map, observer, first_pass), &extfrag, progress);
    pages.machine().unhook();
    result
}

/// Replays the trace on an allocator that was just booted.
fn play<'h, W: Observer>(
    recording: &Recording<'_>,
    mut replayer: Replayer<'h, W>,
    extfrag: &'h RefCell<Extfrag>,
    progress: &mut dyn FnMut(u64),
) -> Result<Column, ReplayError> {
    let Recording { first_pass, machine, .. } = recording;
    let Replayer { pages, frame_map, observer, .. } = replayer;
    replayer.set_up(machine);
    let invalid = |when| move |violation| ReplayError::Invalid { when, violation };
    pages.validate().map_err(invalid("after setting up the recorded state"))?;
    observer.borrow_mut().is_set_up(machine, pages);
    pages.machine().on_event(|event| {
        if let Event::ExtFrag { alloc_order, fallback_order, alloc_migratetype, fallback_migratetype, .. } = *event {
            extfrag.borrow_mut().count(alloc_order, fallback_order, alloc_migratetype, fallback_migratetype);
        }
        observer.borrow_mut().event(event);
    });
    pages.machine().on_migrate(move |from, to, order| {
        frame_map.borrow_mut().relocate(from, to, order);
        observer.borrow_mut().moves(from, to, order);
        pages.free(from, order).map_err(|_| Busy)
    });
    let (records, seconds) = replayer.carry_out_all(recording.open()?, progress)?;
    if records != first_pass.quality.records() {
        return Err(ReplayError::Changed {
            file: first_pass.name.clone(),
            first: first_pass.quality.records(),
            then: records,
        });
    }
    let mechanisms = pages.mechanisms();
    let counts = Run { moved: frame_map.borrow().moved, ..replayer.counts };
    pages.validate().map_err(invalid("at the end of the trace"))?;
    pages.drain_all();
    let census = pages.validate().map_err(invalid("at the end, with per-CPU lists drained"))?;
    let types = machine.zones.renumbered(&PageTypeInfo(pages).to_string());
    let extfrag = extfrag.take();
    let run = Run { mechanisms, extfrag, seconds, events: first_pass.linux.requests, ..counts };
    Ok(column(run, machine.pageblock_order, blocks(pages, machine), types, &census))
}

/// The allocator's layout, if it fits into `limit` bytes.
fn layout(config: &framewright::Config<'_>, first_pass: &FirstPass, limit: u64) -> Result<Layout, ReplayError> {
    let layout = Layout::of(config)?;
    let bytes = layout.bytes::<Solo<'_>>() as u64;
    if bytes > limit {
        return Err(first_pass.span.too_large(&first_pass.name, bytes, limit));
    }
    Ok(layout)
}

/// Free blocks of each zone.
fn blocks(pages: &Pages<'_>, machine: &RecordedMachine) -> Vec<ZoneBlocks> {
    let nodes = 0..pages.nodes() as u8;
    let zones = nodes.flat_map(|node| ZoneKind::ALL.map(|kind| ZoneIdx::of(NodeId(node), kind)));
    let snapshots = zones.filter_map(|zone| pages.zone(zone)).filter(|zone| zone.is_populated());
    let orders = pages.geometry().max_order.index() + 1;
    snapshots
        .map(|zone| ZoneBlocks {
            node: machine.zones.linux(zone.node),
            zone: zone.kind.name(),
            free: zone.free_by_order().into_iter().take(orders).collect(),
        })
        .collect()
}

/// The kernel's objects on our allocator.
struct Replayer<'h, W> {
    pages: &'h Pages<'h>,
    frame_map: &'h RefCell<FrameMap>,
    observer: &'h RefCell<W>,
    span: Span,
    pageblock_order: Order,
    first_try: FirstTry,
    high_order: HighOrderBlocks,
    /// Faults that the kernel has not served so far, by task.
    faults: HashMap<u32, OpenFault>,
    counts: Run,
    /// Whether watermarks are ever boosted, and how often background work was woken.
    boosts: bool,
    woken: u64,
}

impl<'h, W: Observer> Replayer<'h, W> {
    fn new(
        pages: &'h Pages<'h>,
        frame_map: &'h RefCell<FrameMap>,
        observer: &'h RefCell<W>,
        first_pass: &FirstPass,
    ) -> Self {
        Replayer {
            pages,
            observer,
            span: first_pass.span.clone(),
            pageblock_order: first_pass.pageblock_order,
            first_try: first_pass.first_try,
            frame_map,
            high_order: HighOrderBlocks::new(&first_pass.span),
            faults: HashMap::new(),
            boosts: pages.mechanisms().watermark_boost.get() != 0,
            woken: 0,
            counts: Run::default(),
        }
    }

    /// Allocates the frames that were in use when recording began, at their places.
    fn set_up(&mut self, machine: &RecordedMachine) {
        for &(pfn, migratetype) in &machine.types {
            // A pageblock without memory has no type.
            let _ = self.pages.set_pageblock_type(pfn, migratetype);
        }
        for (pfn, movable) in machine.used() {
            let gfp = if movable { GFP_HIGHUSER_MOVABLE } else { GFP_KERNEL };
            if self.pages.alloc_at(pfn, Order(0), gfp).is_ok() {
                self.settle(pfn, Order(0), Some(pfn));
            } else if let Some(index) = self.span.index(pfn) {
                self.frame_map.borrow_mut().set(index, Location::NOWHERE);
            }
        }
    }

    /// Carries out a whole trace. Returns the number of records, and the seconds without those for reading.
    fn carry_out_all(&mut self, mut trace: Trace, progress: &mut dyn FnMut(u64)) -> Result<(u64, f64), ReplayError> {
        let mut stretch = Vec::with_capacity(STRETCH as usize);
        let mut seconds = 0.0;
        let mut records = 0;
        loop {
            stretch.clear();
            for record in trace.by_ref().take(STRETCH as usize) {
                stretch.push(record?);
            }
            if stretch.is_empty() {
                return Ok((records, seconds));
            }
            let start = Instant::now();
            stretch.iter().for_each(|record| {
                records += 1;
                self.observer.borrow_mut().begins(records, record);
                self.carry_out(record);
                self.balance();
            });
            seconds += start.elapsed().as_secs_f64();
            progress(records);
        }
    }

    /// Lets background reclaim and compaction run if they were woken.
    ///
    /// The frees of the kernel's reclaim are in the trace. Ours only works off the boost of the watermarks.
    fn balance(&mut self) {
        if self.pages.machine().woken() == self.woken {
            return;
        }
        for node in (0..self.pages.nodes() as u8).map(NodeId) {
            if self.boosts {
                self.pages.balance(node);
            }
            self.pages.compact(node);
        }
        self.woken = self.pages.machine().woken();
    }

    fn carry_out(&mut self, record: &Record) {
        self.pages.machine().run_on(record.cpu);
        self.pages.machine().set_now(record.time);
        match record.kind {
            Kind::Alloc { pfn, order, migratetype, gfp } => {
                if is_huge(order, migratetype, self.pageblock_order) {
                    let open = self.faults.contains_key(&record.pid);
                    match self.first_try.classify(gfp, open) {
                        Try::First => return self.huge_try(record.pid, pfn, gfp, true),
                        Try::Again => return self.huge_try(record.pid, pfn, gfp, false),
                        Try::NoFault => {}
                    }
                }
                self.alloc(record.pid, pfn, Request { order, ..Request::page(gfp) });
            }
            Kind::Free { pfn, order } => self.free(pfn, order),
            Kind::Move { old, new } => self.moved(old, new),
            _ => {}
        }
    }

    /// A request other than for a huge page.
    fn alloc(&mut self, pid: u32, theirs: Option<Pfn>, request: Request) {
        let is_base_page = request.order.0 == 0 && request.gfp.migratetype() == MigrateType::Movable;
        let replaces = |fault: &&mut OpenFault| is_base_page && fault.ours.is_some() && fault.skip != 0;
        if let Some(fault) = self.faults.get_mut(&pid).filter(replaces) {
            fault.skip -= 1;
            self.counts.skipped += 1;
            return self.settle_at(theirs, request.order, None);
        }
        let ours = self.ask(request);
        match (theirs, ours) {
            (None, Some(ours)) => self.give_back(PfnRange::block(ours, request.order)),
            (theirs, ours) => {
                self.counts.failed_smaller += u64::from(theirs.is_some() && ours.is_none());
                self.settle_at(theirs, request.order, ours);
            }
        }
    }

    /// A task's try for a huge page. `theirs` is the kernel's answer.
    fn huge_try(&mut self, pid: u32, theirs: Option<Pfn>, gfp: Gfp, first: bool) {
        let open = self.faults.remove(&pid).filter(|_| !first);
        let gained_before = open.is_some_and(|fault| fault.ours.is_some());
        let mut ours = open.and_then(|fault| fault.ours);
        self.counts.faults += u64::from(first);
        if ours.is_none() {
            ours = self.ask_huge(gfp);
            if ours.is_none() && first && theirs.is_some() {
                // The second try would come now; the kernel did not need it.
                ours = self.first_try.second(gfp).and_then(|gfp| self.ask_huge(gfp));
            }
            self.counts.served += u64::from(ours.is_some());
        }
        match theirs {
            Some(theirs) => {
                self.counts.lost += u64::from(ours.is_none());
                // Counted as gained when the kernel's earlier try failed.
                self.counts.gained -= u64::from(gained_before);
                self.settle(theirs, self.pageblock_order, ours);
            }
            None => {
                self.counts.gained += u64::from(ours.is_some() && !gained_before);
                let skip = open.filter(|_| gained_before).map_or(BASE_PAGES, |fault| fault.skip);
                self.faults.insert(pid, OpenFault { ours, skip });
            }
        }
    }

    fn ask_huge(&mut self, gfp: Gfp) -> Option<Pfn> {
        self.counts.huge_requests += 1;
        let ours = self.ask(Request { order: self.pageblock_order, ..Request::page(gfp) });
        let held = &mut self.frame_map.borrow_mut().held;
        held.extend(ours);
        self.counts.peak_held = self.counts.peak_held.max(held.len() as u64);
        ours
    }

    fn ask(&mut self, request: Request) -> Option<Pfn> {
        self.observer.borrow_mut().asks(&request, self.pages);
        let answer = self.pages.alloc(&request);
        self.observer.borrow_mut().answered(answer, self.pages);
        self.counts.orders.entry(request.order).or_default().count(answer.is_ok());
        answer.ok()
    }

    /// Like [`Replayer::settle`], for an answer of the kernel; nothing to do if the kernel failed.
    fn settle_at(&mut self, theirs: Option<Pfn>, order: Order, ours: Option<Pfn>) {
        if let Some(theirs) = theirs {
            self.settle(theirs, order, ours);
        }
    }

    /// Notes that the object of the kernel's block is in our block `ours`, or nowhere.
    fn settle(&mut self, theirs: Pfn, order: Order, ours: Option<Pfn>) {
        let start = ours.and_then(|ours| self.span.index(ours));
        let mut in_use = false;
        for (offset, index) in self.span.block(theirs, order).enumerate() {
            let new = start.map_or(Location::NOWHERE, |start| Location::at(start + offset));
            let old = self.frame_map.borrow_mut().set(index, new);
            in_use |= !old.is_vacant();
            if let Some(old) = old.index() {
                // The free of the old object was lost; a frame has one object.
                let pfn = self.span.pfn(old);
                self.give_back(PfnRange::block(pfn, Order(0)));
            }
        }
        self.counts.seen.reallocations += u64::from(in_use);
        self.high_order.put(&self.span, theirs, order);
    }

    fn free(&mut self, theirs: Pfn, order: Order) {
        self.counts.seen.splits += u64::from(self.high_order.take(&self.span, theirs, order));
        let frames = self.span.block(theirs, order);
        if frames.len() == 1 {
            let location = self.frame_map.borrow_mut().set(frames.start, Location::FREE);
            match location.index() {
                Some(index) => self.free_ours(self.span.pfn(index), Order(0)),
                None => self.counts.seen.free_unknown += u64::from(location == Location::FREE),
            }
            return;
        }
        // Adjacent pieces of our memory are freed together.
        let mut piece: Option<PfnRange> = None;
        let mut unknown = false;
        for index in frames {
            let location = self.frame_map.borrow_mut().set(index, Location::FREE);
            unknown |= location == Location::FREE;
            let Some(pfn) = location.index().map(|index| self.span.pfn(index)) else { continue };
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

    /// Frees a block of ours, or that part of a larger one that the kernel split.
    fn free_ours(&mut self, ours: Pfn, order: Order) {
        self.frame_map.borrow_mut().forget(PfnRange::block(ours, order));
        if self.pages.free(ours, order).is_err() {
            self.give_back(PfnRange::block(ours, order));
        }
    }

    fn give_back(&mut self, range: PfnRange) {
        self.frame_map.borrow_mut().forget(range);
        if self.pages.free_range(range).is_err() {
            self.counts.refused += 1;
        }
    }

    /// The kernel moved an object. Our copy stays; only its name changes.
    fn moved(&mut self, old: Pfn, new: Pfn) {
        let order = self.high_order.moved(&self.span, old, new, |order| self.is_vacant(new, order));
        if !self.is_vacant(new, order) {
            // The new page was allocated for the move: there are two until the old one is freed.
            self.counts.seen.moves_to_allocated += 1;
            return;
        }
        self.high_order.take(&self.span, old, order);
        self.high_order.put(&self.span, new, order);
        for (from, to) in self.span.block(old, order).zip(self.span.block(new, order)) {
            let mut frame_map = self.frame_map.borrow_mut();
            let location = frame_map.set(from, Location::LEFT);
            frame_map.set(to, location);
        }
    }

    /// Whether no frame of the kernel's block holds an object.
    fn is_vacant(&self, pfn: Pfn, order: Order) -> bool {
        self.span.covers(PfnRange::block(pfn, order))
            && self.span.block(pfn, order).all(|index| self.frame_map.borrow().get(index).is_vacant())
    }
}

//! One kept function for every public operation of the core.
//!
//! To cover a new operation, add a `call!` whose body calls it. `ci/no_panic.sh` names the public functions that no
//! body mentions.

use core::fmt::{self, Write};

use framewright::Parts;
use framewright::config::{Config, Region};
use framewright::error::{AllocError, BootError, FreeError, Shortage, Why};
use framewright::event::{Event, TraceLine};
use framewright::machine::{Busy, LockName, Machine, Ordering, Patience, Pinned, Step, Word};
use framewright::mechanisms::{Mechanisms, Threshold, UnknownSwitch};
use framewright::queued_lock::{QueuedLock, WaitSlots};
use framewright::report::{
    self, BuddyInfo, ExtfragIndex, NodeNumaStat, NodeVmStat, NumaCounters, PageTypeInfo, Source, UnusableIndex, VmStat,
    ZoneInfo, ZoneSnapshot,
};
use framewright::request::{Gfp, NodeSet, Policy, Request};
use framewright::smp_list::{self, Broken, Links, Node};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::validate::{FrameCounts, Violation};
use framewright::watermark::{self, Mark, Marks, PcpSize};
use framewright::{
    Allocator, Balanced, BulkFree, Compacted, Counters, Cpu, FrameState, Geometry, Layout, Link, Pcp, Refreshed,
    Totals, Zone, ZoneMemory,
};
use framewright_kernel::{U32, U64};

use crate::board::Board;
use crate::call::{Sink, call};

#[cfg(feature = "control")]
call! {
    fn control(table: &'static [u8], index: usize) -> u8 {
        table[index]
    }
}

// Units.
call! {
    fn pfn(pfn: Pfn, frames: u64, order: Order) -> (Pfn, bool, Pfn, Pfn) {
        (pfn.add(frames), pfn.is_aligned(order), pfn.align_down(order), pfn.align_up(order))
    }

    fn pfn_range(start: u64, end: u64, other: PfnRange, pfn: Pfn) -> (PfnRange, u64, bool, bool) {
        let range = PfnRange::new(start, end);
        (range.intersect(other), range.frames(), range.is_empty(), range.contains(pfn))
    }

    fn range_of_bytes(start: u64, end: u64, page_shift: u8) -> [PfnRange; 2] {
        [PfnRange::within_bytes(start, end, page_shift), PfnRange::around_bytes(start, end, page_shift)]
    }

    fn bytes_of_range(range: PfnRange, page_shift: u8) -> core::ops::Range<u64> {
        range.bytes(page_shift)
    }

    fn pfn_blocks(pfn: Pfn, order: Order, max_order: Order) -> u64 {
        PfnRange::block(pfn, order).blocks(max_order).fold(0, |sum, (pfn, order)| sum ^ pfn.0 ^ order.frames())
    }

    fn order(order: Order, last: Order) -> (u64, u64, Order, Order, usize, usize) {
        let (up, down) = (order.up(), order.down());
        (order.frames(), order.mask(), up, down, order.index(), order.up_to(last).rev().map(Order::index).sum())
    }

    fn node_and_cpu(node: NodeId, cpu: CpuId) -> (usize, usize) {
        (node.index(), cpu.index())
    }

    fn zone(node: NodeId, kind: ZoneKind) -> (ZoneIdx, NodeId, ZoneKind, usize, usize, &'static str) {
        let zone = ZoneIdx::of(node, kind);
        (zone, zone.node(), zone.kind(), zone.index(), kind.index(), kind.name())
    }

    fn migratetype(index: usize) -> Option<(usize, bool, &'static str)> {
        MigrateType::from_index(index).map(|mt| (mt.index(), mt.is_mergeable(), mt.name()))
    }
}

/// Words of nodes, of which the first is a head.
pub struct Nodes(&'static [Link<Board>]);

impl Links<Board> for Nodes {
    fn link(&self, node: Node) -> Option<&Link<Board>> {
        self.0.get(node.0.checked_sub(1)? as usize)
    }

    fn is_head(&self, node: Node) -> bool {
        node == Node(1)
    }
}

// Lists.
call! {
    fn list_change(board: Board, links: &'static Nodes, a: Node, b: Node) -> [Result<(), Broken>; 3] {
        smp_list::make_empty(links, a);
        smp_list::chain(links, a, b);
        let added = smp_list::add(&board, links, a, b);
        [added, smp_list::splice(&board, links, a, a, b), smp_list::del(&board, links, b)]
    }

    fn list_look(links: &'static Nodes, node: Node) -> (Node, Node, bool, [(&'static str, u32); 2]) {
        let words = Link::<Board>::default().words().map(|(name, word)| (name, word.load(Ordering::Relaxed)));
        (smp_list::next(links, node), smp_list::prev(links, node), smp_list::is_linked(links, node), words)
    }
}

/// Words at which waiters wait.
pub struct Waits(&'static [U32]);

impl WaitSlots<Board> for Waits {
    fn place(&self, number: u16) -> Option<&U32> {
        self.0.get(usize::from(number))
    }
}

// Locks.
call! {
    fn lock(lock: &'static QueuedLock<Board>, places: &'static Waits) -> () {
        let ticket = lock.take(places);
        lock.release(&ticket, places);
        lock.take_shared(places);
        lock.release_shared();
    }
}

// Requests.
call! {
    fn gfp_parse(text: &'static str) -> Result<Gfp, &'static str> {
        Gfp::parse(text)
    }

    fn gfp(gfp: Gfp, other: Gfp) -> (bool, bool, bool, MigrateType, ZoneKind, Gfp) {
        let joined = (gfp | other) & !other;
        (gfp.contains(other), gfp.intersects(other), gfp.may_reclaim(), gfp.migratetype(), gfp.highest_zone(), joined)
    }

    fn node_set(set: NodeSet, node: NodeId, n: u32) -> (NodeSet, bool, u32, bool, Option<NodeId>) {
        let with = set.with(NodeSet::only(node)).only_with(NodeSet::first(n as usize));
        (with, set.contains(node), set.len(), set.is_empty(), set.nth_cyclic(n))
    }

    fn request(gfp: Gfp, order: u8, node: NodeId, policy: Policy, limit: Pfn) -> (Request, Request) {
        (Request::page(gfp).on(node), Request::new(gfp, order).with(policy).below(limit))
    }
}

// The machine itself must not panic either.
call! {
    fn seam(board: &'static Board, word: &'static U64, value: u64, order: Ordering) -> Result<(u64, CpuId), Busy> {
        let pin = board.pin();
        let _irq = board.irq_save();
        word.store(word.load(order), order);
        let old = word.swap(value, order) ^ word.add(value, order) ^ word.cas(value, 0, order).unwrap_or(0);
        word.wait_while(Patience::Tries(9), |now| now != old).map(|now| (now, pin.cpu()))
    }
}

// Text. Widths and the alternative form are arguments too.
call! {
    fn display_units(sink: &'static mut Sink, pfn: Pfn, range: PfnRange, order: Order, width: u16) -> fmt::Result {
        let width = usize::from(width);
        write!(sink, "{pfn} {pfn:?} {range} {range:?} {order:>width$} {order:?}")
    }

    fn display_kinds(sink: &'static mut Sink, zone: ZoneIdx, mt: MigrateType, width: u16) -> fmt::Result {
        let (width, kind) = (usize::from(width), zone.kind());
        write!(sink, "{kind:>width$} {mt:<width$} {zone:?} {kind:?} {mt:?}")
    }

    fn display_request(sink: &'static mut Sink, request: Request) -> fmt::Result {
        write!(sink, "{} {request:?} {request:#?}", request.gfp)
    }

    fn display_event(sink: &'static mut Sink, event: Event, task: &'static str, cpu: CpuId, now: u64) -> fmt::Result {
        let line = TraceLine { task, pid: 1, cpu, now, event: &event };
        write!(sink, "{} {event} {event:?} {line}", event.name())
    }
}

type Pages = Allocator<'static, Board>;

// Setting up.
call! {
    fn layout(config: &'static Config<'static>) -> (Result<Layout, BootError>, bool, usize) {
        let layout = Layout::of(config);
        (layout, Layout::on::<Board>(config) == layout, layout.map_or(0, |layout| layout.bytes::<Board>()))
    }

    fn lost_zone(config: &'static Config<'static>) -> Option<(ZoneKind, Pfn)> {
        config.lost_zone()
    }

    fn config(regions: &'static [Region], cpus: &'static [NodeId]) -> (Config<'static>, [Region; 3]) {
        let regions_of_a_kind = [Region::usable(1, 2, 3), Region::reserved(1, 2, 3), Region::possible(1, 2, 3)];
        (Config::new(regions, cpus), regions_of_a_kind)
    }

    fn boot(board: Board, config: &'static Config<'static>, parts: Parts<'static, Board>) -> Result<Pages, BootError> {
        Allocator::boot(board, config, parts)
    }

    fn records(value: u8) -> (Zone<Board>, Pcp<Board>, Cpu<Board>, Link<Board>, u8) {
        (Zone::default(), Pcp::default(), Cpu::default(), Link::default(), value)
    }

    fn mechanisms(text: &'static str) -> Result<Mechanisms, (&'static str, UnknownSwitch)> {
        Mechanisms::parse(text)
    }

    fn switch(mechanisms: Mechanisms, switch: &'static str, choice: &'static str) -> (bool, Mechanisms, usize) {
        let mut mechanisms = mechanisms;
        let is_set = mechanisms.set(switch, choice).is_ok() && mechanisms.conflict().is_none();
        (is_set, mechanisms, Mechanisms::choices(switch).len())
    }

    fn preset(name: &'static str, events: u16) -> (Option<Mechanisms>, Option<Mechanisms>) {
        let threshold = Threshold::new(events).filter(|threshold| threshold.get() == Some(events));
        (Mechanisms::preset(name), threshold.map(Mechanisms::numa_threshold))
    }

    fn thresholds(cpus: u64, managed: u64, shift: u8, marks: Marks) -> (u8, u8, u64) {
        let usual = watermark::stat_threshold(cpus, managed, shift);
        (usual, watermark::pressure_threshold(cpus, marks), watermark::drift_mark(cpus, usual, marks))
    }

    fn highatomic_limit(managed: u64, pageblock_order: Order) -> u64 {
        watermark::highatomic_limit(managed, pageblock_order)
    }

    fn sizes(a: u64, b: u64, c: u64, d: u64, kind: ZoneKind, shift: u8, mark: Mark) -> (u64, u64, u64, PcpSize) {
        let marks = Marks::compute(a, b, c, d);
        let (least, reserve) = (watermark::min_free_kbytes(a), watermark::lowmem_reserve(kind, a));
        (marks.get(mark), least, reserve, PcpSize::compute(a, b, c, shift).clamped())
    }
}

// Allocating and freeing.
call! {
    fn alloc(pages: &'static Pages, request: Request) -> Result<Pfn, AllocError> {
        pages.alloc(&request)
    }

    fn free(pages: &'static Pages, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        pages.free(pfn, order)
    }

    fn local_bulk(pages: &'static Pages, request: Request, out: &'static mut [Pfn], order: Order) -> Option<BulkFree> {
        pages.local().map(|local| {
            let served = local.alloc_bulk(&request, out).unwrap_or(0);
            let mut freed = local.free_bulk(out, order);
            freed.add(local.free_bulk(out.get(..served).unwrap_or_default(), order));
            freed
        })
    }

    fn local(pages: &'static Pages, request: Request, pfn: Pfn, order: Order) -> Option<(CpuId, bool, bool)> {
        pages.local().map(|local| (local.cpu(), local.alloc(&request).is_ok(), local.free(pfn, order).is_ok()))
    }

    fn by_flags(pages: &'static Pages, gfp: Gfp, order: Order, pfn: Pfn) -> (Result<Pfn, AllocError>, [bool; 4]) {
        let at_once = (pages.alloc_pages_at_once(gfp, order).is_ok(), pages.free_pages_at_once(pfn, order));
        let local = pages.local().map(|local| (local.alloc_pages(gfp, order), local.free_at_once(pfn, order)));
        (pages.alloc_pages(gfp, order), [pages.free_pages(pfn, order).is_ok(), at_once.0, at_once.1, local.is_some()])
    }

    fn handle(pages: &'static Pages, cpu: CpuId, request: Request, pfn: Pfn, order: Order) -> Option<(CpuId, [bool; 4])> {
        pages.cpu_handle(cpu).map(|handle| {
            let served = (handle.alloc(&request).is_ok(), handle.alloc_pages(request.gfp, order).is_ok());
            let freed = (handle.free(pfn, order).is_ok(), handle.free_pages(pfn, order).is_ok());
            (handle.cpu(), [served.0, served.1, freed.0, freed.1])
        })
    }

    fn depot(pages: &'static Pages, zone: ZoneIdx) -> (u64, u64) {
        (pages.depot_frames(zone), pages.drain_depot(zone))
    }

    fn owned(pages: &'static Pages, zone: ZoneIdx) -> (u64, u64) {
        (pages.owned_frames(zone), pages.drain_owned(zone))
    }

    fn freeze(pages: &'static Pages) -> Option<u64> {
        pages.freeze().map(|frozen| frozen.settle())
    }

    fn alloc_bulk(pages: &'static Pages, request: Request, out: &'static mut [Pfn]) -> Result<usize, AllocError> {
        pages.alloc_bulk(&request, out)
    }

    fn alloc_each(pages: &'static Pages, request: Request, count: usize) -> (Result<usize, AllocError>, u64) {
        let mut sum = 0_u64;
        (pages.alloc_each(&request, count, |pfn| sum ^= pfn.0), sum)
    }

    fn alloc_missing(pages: &'static Pages, request: Request, out: &'static mut [Option<Pfn>]) -> Result<usize, AllocError> {
        pages.alloc_missing(&request, out)
    }

    fn free_each(pages: &'static Pages, blocks: &'static [(Pfn, Order)]) -> BulkFree {
        pages.free_each(blocks.iter().copied())
    }

    fn free_bulk(pages: &'static Pages, blocks: &'static [Pfn], order: Order) -> BulkFree {
        pages.free_bulk(blocks, order)
    }

    fn alloc_at(pages: &'static Pages, pfn: Pfn, order: Order, gfp: Gfp) -> Result<Pfn, AllocError> {
        pages.alloc_at(pfn, order, gfp)
    }

    fn alloc_range(pages: &'static Pages, range: PfnRange, gfp: Gfp) -> Result<(), AllocError> {
        pages.alloc_range(range, gfp)
    }

    fn alloc_contig(pages: &'static Pages, frames: u64, align: Order, request: Request) -> Result<PfnRange, AllocError> {
        pages.alloc_contig(frames, align, &request)
    }

    fn alloc_exact(pages: &'static Pages, bytes: u64, align: u64, request: Request) -> Result<PfnRange, AllocError> {
        pages.alloc_exact(bytes, align, &request)
    }

    fn free_exact(pages: &'static Pages, range: PfnRange) -> Result<(), FreeError> {
        pages.free_exact(range)
    }

    fn free_range(pages: &'static Pages, range: PfnRange) -> Result<(), FreeError> {
        pages.free_range(range)
    }

    fn split(pages: &'static Pages, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        pages.split(pfn, from, to)
    }
}

// CPUs, memory and pageblocks that come and go.
call! {
    fn drain(pages: &'static Pages, cpu: CpuId) -> (u64, u64, u64) {
        (pages.drain_cpu(cpu), pages.drain_all(), pages.offline_cpu(cpu))
    }

    fn statistics(pages: &'static Pages, cpu: CpuId, node: NodeId) -> (bool, bool, Refreshed) {
        pages.online_cpu(cpu);
        pages.set_pressure(node, pages.needs_refresh(cpu));
        let counts = pages.count_in_zone(ZoneIdx::of(node, ZoneKind::Normal), usize::from(cpu.0), -1);
        let counts = counts && pages.count_in_node(node, usize::from(cpu.0), 1);
        (pages.is_online(cpu) && counts, pages.set_numa_stat(true), pages.refresh_statistics(cpu))
    }

    fn background(pages: &'static Pages, node: NodeId) -> (Balanced, Compacted, Compacted) {
        (pages.balance(node), pages.compact(node), pages.compact_proactively(node))
    }

    fn init_section(pages: &'static Pages, node: NodeId) -> bool {
        pages.init_section(node)
    }

    fn hotplug(pages: &'static Pages, range: PfnRange) -> (Result<(), AllocError>, u64, Result<u64, AllocError>) {
        (pages.take_offline(range), pages.bring_online(range), pages.add_memory(range))
    }

    fn pageblock(pages: &'static Pages, pfn: Pfn, mt: MigrateType) -> (Result<(), AllocError>, Option<MigrateType>) {
        (pages.set_pageblock_type(pfn, mt), pages.pageblock_type(pfn))
    }
}

// Looking.
call! {
    fn settled(pages: &'static Pages, pfn: Pfn) -> FrameState {
        pages.state_settled(pfn)
    }

    fn state(pages: &'static Pages, pfn: Pfn, zone: ZoneIdx) -> (FrameState, u64, usize, usize, Geometry, Mechanisms) {
        let (state, free) = (pages.state_of(pfn), pages.free_frames(zone));
        (state, free, pages.nodes(), pages.cpus(), pages.geometry(), pages.mechanisms())
    }

    fn memory(pages: &'static Pages, zone: ZoneIdx) -> (Totals, Option<ZoneMemory>) {
        (pages.totals(), pages.zone_memory(zone))
    }

    fn validate(pages: &'static Pages) -> (Result<FrameCounts, Violation>, bool, Counters) {
        let census = pages.validate();
        (census, census.is_ok_and(|census| census.is_conserved()), pages.counters())
    }

    fn display_reports(sink: &'static mut Sink, pages: &'static Pages, node: NodeId) -> fmt::Result {
        let (proc, node) = (VmStat(pages), NodeNumaStat { source: pages, node });
        let (unusable, index) = (UnusableIndex(pages), ExtfragIndex(pages));
        write!(sink, "{}{}{}", BuddyInfo(pages), PageTypeInfo(pages), ZoneInfo(pages))
            .and_then(|()| write!(sink, "{proc}{node}{unusable}{index}"))
    }

    fn display_counters_of_others(sink: &'static mut Sink, source: &'static dyn Source, node: NodeId) -> fmt::Result {
        write!(sink, "{}{}{}", ZoneInfo(source), VmStat(source), NodeVmStat { source, node })
    }

    fn no_memory(why: Why) -> AllocError {
        AllocError::no_memory(why)
    }

    fn shortage(left: Shortage) -> [u32; 3] {
        [left.free(), left.cached(), left.elsewhere()]
    }

    fn display_errors(sink: &'static mut Sink, a: AllocError, f: FreeError, b: BootError, v: Violation) -> fmt::Result {
        write!(sink, "{a} {a:?} {f} {f:?} {b} {v}")
    }

    fn display_locks(sink: &'static mut Sink, zone: ZoneIdx, shard: u16, cpu: CpuId) -> fmt::Result {
        write!(sink, "{} {} {}", LockName::zone(zone), LockName::depot(zone, shard), LockName::pcp(zone, cpu))
    }

    fn fields(sink: &'static mut Sink, pages: &'static Pages) -> usize {
        let mut sum = 0;
        pages.fields(&mut |field| {
            sum ^= field.address ^ field.size ^ field.count ^ field.index ^ field.node.map_or(0, NodeId::index);
            let _ = write!(sink, "{} {} {}", field.part, field.record, field.name);
        });
        sum
    }

    fn step(step: Step) -> (&'static str, u32) {
        (step.name(), step.instructions())
    }

    fn violation(violation: Violation) -> bool {
        violation.is_of_the_moment()
    }

    fn display_mechanisms(sink: &'static mut Sink, mechanisms: Mechanisms) -> fmt::Result {
        write!(sink, "{mechanisms}")
    }

    fn snapshots(pages: &'static Pages, zone: ZoneSnapshot, numa: NumaCounters, order: Order) -> (bool, u64, u32, i32) {
        let free = zone.free_by_order();
        let numbers = numa.plus(zone.numa).named().iter().fold(0, |sum: u64, (_, n)| sum.wrapping_add(*n));
        let events = pages.events().named().fold(numbers, |sum, (_, n)| sum.wrapping_add(n));
        let (unusable, index) = (report::unusable_index(&free, order), report::fragmentation_index(&free, order));
        (zone.is_populated(), events, unusable, index)
    }
}

// Contexts.
call! {
    fn alloc_nolock(pages: &'static Pages, request: Request) -> Result<Pfn, AllocError> {
        pages.alloc_nolock(&request)
    }

    fn free_nolock(pages: &'static Pages, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        pages.free_nolock(pfn, order)
    }

    fn any_context(pages: &'static Pages, request: Request) -> (Result<Pfn, AllocError>, Option<Result<(), FreeError>>) {
        let any = pages.any_context();
        let block = any.alloc(&request);
        (block, block.ok().map(|pfn| any.free(pfn, request.order)))
    }

    fn interrupt(pages: &'static Pages, request: Request, out: &'static mut [Pfn]) -> Option<(BulkFree, bool)> {
        pages.interrupt().map(|interrupt| {
            let block = interrupt.alloc(&request);
            let freed = block.is_ok_and(|pfn| interrupt.free(pfn, request.order).is_ok());
            let _ = interrupt.alloc_contig(3, request.order, &request).map(|run| interrupt.free_range(run));
            let count = interrupt.alloc_bulk(&request, out).unwrap_or(0);
            (interrupt.free_bulk(out.get(..count).unwrap_or(&[]), request.order), freed)
        })
    }

    fn report_free(pages: &'static Pages, least: Order) -> Result<u64, AllocError> {
        pages.report_free(least).map(|pass| {
            pass.fold(0, |sum, unreported| {
                let sum = unreported.blocks().iter().fold(sum, |sum, (pfn, order)| sum ^ pfn.0 ^ order.frames());
                unreported.reported();
                sum
            })
        })
    }

    fn queued_try(lock: &'static QueuedLock<Board>) -> bool {
        lock.try_take().is_some()
    }
}

//! The results of a replay as data: the machine-readable form of the report.

use std::collections::{BTreeMap, BTreeSet};

use framewright::FrameCounts;
use framewright::report;
use framewright::units::{MigrateType, Order, PfnRange};
use serde::Serialize;

use super::bound::Bound;
use super::first_pass::FirstPass;
use super::page_costs::PageCosts;
use super::recorded_machine::{Knowledge, RecordedMachine};
use super::run_counts::{Extfrag, OrderCount, Run, Seen};
use super::thp_faults::FirstTry;
use super::zone_map::populated;
use crate::proc::{ZoneInfo, ZoneState};
use crate::record::{Kind, Quality};

/// Version of the JSON form; raised when a field changes its meaning.
const SCHEMA_VERSION: u32 = 2;

/// All results of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema_version: u32,
    /// The trace's file.
    pub trace: String,
    /// The quality of the trace.
    pub quality: TraceQuality,
    /// The machine that it was recorded on.
    pub machine: Machine,
    /// The kernel's own figure of its free memory at the end, if that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_recorded: Option<FreeRecorded>,
    /// The stated costs of a page, for the times.
    pub costs: PageCosts,
    /// The results of the recorded kernel.
    pub linux: LinuxColumn,
    /// The results of the first set of mechanisms; also the first of `columns`.
    pub framewright: Column,
    /// The results of each set of mechanisms.
    pub columns: Vec<Column>,
}

/// The quality of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceQuality {
    /// Events that were read.
    pub events: u64,
    /// Events by name.
    pub by_name: BTreeMap<&'static str, u64>,
    /// Failed requests among them.
    pub failed_allocs: u64,
    /// Events that the tracer says it lost.
    pub lost_events: u64,
    /// Reports of losses, with a number or without.
    pub lost_reports: u64,
    /// Events of other subsystems.
    pub unknown_events: u64,
    /// Unknown flags that were left out of their requests, by name or bits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_flags: BTreeMap<String, u64>,
    /// Lines of the page allocator's events that could not be read.
    pub malformed_lines: u64,
    /// The faults of the first few of them.
    pub malformed: Vec<String>,
    /// Lines that no tracer prints.
    pub unrecognized_lines: u64,
    /// Frees of a frame that was not known to be in use: mostly of compaction's page lists.
    pub free_unknown: u64,
    /// Allocations of a frame that was known to be in use; its old object is dropped.
    pub reallocations: u64,
    /// Blocks of which a part was freed.
    pub splits: u64,
    /// Moves of an object to a page that had been allocated for it.
    pub moves_to_allocated: u64,
    /// The rule by which requests for a huge page are first tries of faults.
    pub first_tries: FirstTry,
    /// The recorded part of the state before the trace.
    pub initial_state: Knowledge,
    /// Free blocks by which the reconstructed state differs from the recorded buddyinfo.
    ///
    /// Summed over orders and zones.
    pub initial_blocks_off: Option<u64>,
}

/// The machine that a trace was recorded on, as far as the trace shows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Machine {
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Frames that the allocator has, without reserved ones and holes.
    pub frames: u64,
    /// Order of a huge page and of a pageblock.
    pub pageblock_order: u8,
}

/// Free memory at the end by the kernel's own zoneinfo, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FreeRecorded {
    /// Free, on per-CPU lists or not.
    pub free_frames: u64,
    /// Managed by the allocator: free or not.
    pub managed: u64,
}

/// Shares of free memory in blocks too small for an order, 0 to 1.
pub type UnusableIndex = BTreeMap<u8, f64>;

/// One kind of fallback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ExtfragRow {
    /// Order asked for.
    pub alloc_order: u8,
    /// Order found.
    pub fallback_order: u8,
    /// Mobility asked for.
    pub alloc_migratetype: &'static str,
    /// Mobility of the list it was found on.
    pub fallback_migratetype: &'static str,
    /// Number of events.
    pub events: u64,
}

/// Requests of one order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OrderRow {
    /// The order.
    pub order: u8,
    /// Requests.
    pub requests: u64,
    /// Requests that got nothing.
    pub failed: u64,
}

/// Free blocks of a zone by order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ZoneBlocks {
    /// The node, by the kernel's number.
    pub node: u32,
    /// The zone's name.
    pub zone: &'static str,
    /// Free blocks by order.
    pub free: Vec<u64>,
}

/// The results of the recorded kernel.
#[derive(Clone, Debug, Serialize)]
pub struct LinuxColumn {
    /// Requests served from another mobility's lists.
    pub extfrag_events: u64,
    /// Those of them from blocks smaller than a pageblock.
    pub extfrag_fragmenting: u64,
    /// Requests for huge pages by faults: first tries and retries.
    pub order9_requests: u64,
    /// Faults: first tries with their retries.
    pub order9_faults: u64,
    /// Faults that got a huge page.
    pub order9_faults_served: u64,
    /// Most huge pages of faults in use at once.
    pub peak_blocks_held: u64,
    /// At the end, over all zones, as if per-CPU lists were empty; by order.
    pub unusable_index: UnusableIndex,
    /// Requests in a second of the recorded run.
    pub events_per_second: f64,
    /// Objects moved by compaction; none if the trace has no event of a move.
    pub page_moves: Option<u64>,
    /// Time for these moves at the stated cost, in milliseconds.
    pub page_moves_ms: Option<f64>,
    /// Frames that were freed by threads that reclaimed.
    pub reclaimed: u64,
    /// Of these, frames of objects that are followed from their allocation on, and so may be reclaimed early here.
    pub reclaimed_known: u64,
    /// Requests that reclaimed by themselves; none if the trace has no event of one.
    pub direct_reclaims: Option<u64>,
    /// Fallbacks by kind.
    pub extfrag: Vec<ExtfragRow>,
    /// Requests by order.
    pub orders: Vec<OrderRow>,
    /// Free blocks at the end, as if per-CPU lists were empty.
    pub buddyinfo: Vec<ZoneBlocks>,
}

impl From<Column> for Bound {
    fn from(column: Column) -> Bound {
        Bound {
            extfrag_events: column.extfrag_events,
            extfrag_fragmenting: column.extfrag_fragmenting,
            failed_requests: column.orders.iter().map(|row| row.failed).sum(),
            order9_faults_served: column.order9_faults_served,
            huge_pages_split: column.huge_pages_split,
            failed_where_linux_served: column.failed_where_linux_served,
            failed_smaller: column.failed_smaller,
            failed_because: column.failed_because,
            page_moves: column.page_moves,
            reclaimed_early: column.reclaimed_early,
            frees_refused: column.frees_refused,
            pages_conserved: column.pages_conserved,
        }
    }
}

/// Frames in free blocks.
pub(super) fn free_frames(zones: &[ZoneBlocks]) -> u64 {
    zones.iter().flat_map(|zone| zone.free.iter().zip(0..)).map(|(blocks, order)| blocks << order).sum()
}

fn free_recorded(zones: &ZoneInfo) -> FreeRecorded {
    let sum = |frames: fn(&ZoneState) -> u64| populated(zones).map(frames).fold(0, u64::saturating_add);
    FreeRecorded {
        free_frames: sum(|zone| zone.free.saturating_add(zone.pageset_frames())),
        managed: sum(|zone| zone.managed),
    }
}

/// The results of our allocator under one set of mechanisms.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// The mechanisms.
    pub mechanisms: String,
    /// As in [`LinuxColumn`].
    pub extfrag_events: u64,
    /// As in [`LinuxColumn`].
    pub extfrag_fragmenting: u64,
    /// Requests for huge pages that were made here.
    pub order9_requests: u64,
    /// As in [`LinuxColumn`].
    pub order9_faults: u64,
    /// As in [`LinuxColumn`].
    pub order9_faults_served: u64,
    /// Faults served here and failed by the kernel.
    pub served_where_linux_failed: u64,
    /// Faults failed here and served by the kernel.
    pub failed_where_linux_served: u64,
    /// As in [`LinuxColumn`]. A caveat for claims: pages that the kernel's faults freed can still be held here.
    pub peak_blocks_held: u64,
    /// Base pages not taken because their task got a huge page here.
    pub base_pages_skipped: u64,
    /// Huge pages of `served_where_linux_failed` that were given back when the kernel's task gave back its base pages.
    pub huge_pages_given_back: u64,
    /// Huge pages of `served_where_linux_failed` that were split because memory was short.
    pub huge_pages_split: u64,
    /// Pages whose contents compaction moved.
    pub page_moves: u64,
    /// Time for these moves at the stated cost, in milliseconds.
    pub page_moves_ms: f64,
    /// Frames that were reclaimed here before the kernel reclaimed them.
    pub reclaimed_early: u64,
    /// By how much earlier than the kernel these were reclaimed, on average, in seconds; none if there are none.
    pub reclaimed_earlier_s: Option<f64>,
    /// Time for reading as many pages again at the stated cost, in milliseconds.
    pub reclaimed_early_ms: f64,
    /// Smaller requests failed here and served by the kernel.
    pub failed_smaller: u64,
    /// Requests of any size that failed here and were served by the kernel, by reason. Both tries of a fault count.
    pub failed_because: BTreeMap<&'static str, u64>,
    /// The results if nothing is reclaimed here, and no huge page is split.
    pub nothing_reclaimed: Bound,
    /// The results if every page that the kernel reclaims later is reclaimed here at once.
    pub all_reclaimed_at_once: Bound,
    /// Frees that were refused. Anything but 0 is a bug.
    pub frees_refused: u64,
    /// As in [`LinuxColumn`].
    pub unusable_index: UnusableIndex,
    /// Events carried out in a second of computing time on one core.
    pub events_per_second: f64,
    /// Fallbacks by kind.
    pub extfrag: Vec<ExtfragRow>,
    /// Requests by order.
    pub orders: Vec<OrderRow>,
    /// Free blocks at the end, with per-CPU lists drained.
    pub buddyinfo: Vec<ZoneBlocks>,
    /// `/proc/pagetypeinfo` at the end, with per-CPU lists drained.
    pub pagetypeinfo: String,
    /// Whether every frame was accounted for at the end.
    pub pages_conserved: bool,
    /// Frames by their use, at the end.
    pub frames: BTreeMap<&'static str, u64>,
    /// Facts about the trace that only a run shows.
    #[serde(skip)]
    pub(super) seen: Seen,
}

fn extfrag_rows(extfrag: &Extfrag) -> Vec<ExtfragRow> {
    let row = |(&(alloc, found, want, from), &events): (&(Order, Order, MigrateType, MigrateType), &u64)| ExtfragRow {
        alloc_order: alloc.0,
        fallback_order: found.0,
        alloc_migratetype: want.name(),
        fallback_migratetype: from.name(),
        events,
    };
    extfrag.iter().map(row).collect()
}

fn order_rows(orders: &BTreeMap<Order, OrderCount>) -> Vec<OrderRow> {
    let row = |(order, count): (&Order, &OrderCount)| OrderRow {
        order: order.0,
        requests: count.requests,
        failed: count.failed,
    };
    orders.iter().map(row).collect()
}

/// The unusable index of all zones together at orders 3, 5 and 9.
fn unusable(zones: &[ZoneBlocks]) -> UnusableIndex {
    let orders = zones.iter().map(|zone| zone.free.len()).max().unwrap_or(0);
    let sum = |order| zones.iter().filter_map(|zone| zone.free.get(order)).sum::<u64>();
    let free: Vec<u64> = (0..orders).map(sum).collect();
    let index = |order| (order, f64::from(report::unusable_index(&free, Order(order))) / 1000.0);
    [3, 5, 9].into_iter().filter(|&order| usize::from(order) < orders).map(index).collect()
}

/// Turns one run's raw results into a column.
pub(super) fn column(run: Run, order: Order, zones: Vec<ZoneBlocks>, types: String, census: &FrameCounts) -> Column {
    let costs = PageCosts::default();
    Column {
        mechanisms: run.mechanisms.to_string(),
        extfrag_events: run.extfrag.total(),
        extfrag_fragmenting: run.extfrag.fragmenting(order),
        order9_requests: run.huge_requests,
        order9_faults: run.faults,
        order9_faults_served: run.served,
        served_where_linux_failed: run.gained,
        failed_where_linux_served: run.lost,
        peak_blocks_held: run.peak_held,
        base_pages_skipped: run.skipped,
        huge_pages_given_back: run.given_back,
        huge_pages_split: run.relief.split,
        page_moves: run.moved,
        page_moves_ms: costs.moves_ms(run.moved),
        reclaimed_early: run.relief.reclaimed,
        reclaimed_earlier_s: (run.relief.freed_since != 0)
            .then(|| run.relief.earlier as f64 / run.relief.freed_since as f64 / 1e9),
        reclaimed_early_ms: costs.reads_ms(run.relief.reclaimed),
        failed_smaller: run.failed_smaller,
        failed_because: run.reasons,
        nothing_reclaimed: Bound::default(),
        all_reclaimed_at_once: Bound::default(),
        frees_refused: run.relief.refused,
        unusable_index: unusable(&zones),
        events_per_second: run.events as f64 / run.seconds.max(1e-9),
        extfrag: extfrag_rows(&run.extfrag),
        orders: order_rows(&run.orders),
        buddyinfo: zones,
        pagetypeinfo: types,
        pages_conserved: census.is_conserved(),
        frames: BTreeMap::from([
            ("present", census.present),
            ("free", census.free),
            ("pcp", census.pcp),
            ("allocated", census.allocated),
            ("isolated", census.isolated),
            ("in_flight", census.in_flight),
            ("quarantined", census.quarantined),
            ("offline", census.offline),
        ]),
        seen: run.seen,
    }
}

/// Combines the first pass and the runs.
pub(super) fn report(first_pass: &FirstPass, machine: &RecordedMachine, first: Column, columns: Vec<Column>) -> Report {
    let linux = &first_pass.linux;
    let zones = linux_blocks(first_pass, machine);
    let seconds = linux.nanoseconds as f64 / 1e9;
    let costs = PageCosts::default();
    // A tracer without the probe and a kernel that moves nothing leave the same trace.
    let moves = Some(linux.moves).filter(|&moves| moves != 0);
    Report {
        costs,
        schema_version: SCHEMA_VERSION,
        trace: first_pass.name.clone(),
        quality: quality(first_pass, machine, &first_pass.quality, first.seen),
        machine: recorded_machine(machine),
        free_recorded: first_pass.at_end.as_ref().map(free_recorded),
        linux: LinuxColumn {
            extfrag_events: linux.extfrag.total(),
            extfrag_fragmenting: linux.fragmenting,
            order9_requests: linux.faults.requests,
            order9_faults: linux.faults.count,
            order9_faults_served: linux.faults.served,
            peak_blocks_held: linux.faults.peak_held,
            unusable_index: unusable(&zones),
            events_per_second: linux.requests as f64 / seconds.max(1e-9),
            page_moves: moves,
            page_moves_ms: moves.map(|moves| costs.moves_ms(moves)),
            reclaimed: first_pass.reclaimed.frames,
            reclaimed_known: first_pass.reclaimed.marked,
            direct_reclaims: Some(linux.direct_reclaims).filter(|&count| count != 0),
            extfrag: extfrag_rows(&linux.extfrag),
            orders: order_rows(&linux.orders),
            buddyinfo: zones,
        },
        framewright: first,
        columns,
    }
}

fn recorded_machine(machine: &RecordedMachine) -> Machine {
    let usable = || machine.regions.iter().filter(|region| region.usable);
    Machine {
        cpus: machine.cpus.len(),
        nodes: usable().map(|region| region.node).collect::<BTreeSet<_>>().len(),
        frames: usable().map(|region| region.range.frames()).sum(),
        pageblock_order: machine.pageblock_order.0,
    }
}

fn quality(first_pass: &FirstPass, machine: &RecordedMachine, quality: &Quality, seen: Seen) -> TraceQuality {
    let names = Kind::NAMES.into_iter().zip(quality.by_kind);
    let state = &first_pass.initial;
    let off = match (&state.kpageflags, &state.zoneinfo, &state.buddyinfo) {
        (Some(flags), Some(zones), Some(recorded)) => {
            let ours = flags.buddyinfo(zones, recorded.max_order());
            Some(
                recorded
                    .differences(&ours)
                    .iter()
                    .map(|off| off.ours.abs_diff(off.theirs))
                    .fold(0, u64::saturating_add),
            )
        }
        _ => None,
    };
    TraceQuality {
        events: quality.records(),
        by_name: names.filter(|(_, count)| *count != 0).collect(),
        failed_allocs: quality.failed_allocs,
        lost_events: quality.lost_events,
        lost_reports: quality.lost_reports,
        unknown_events: quality.unknown_events(),
        unknown_flags: quality.unknown_flags.clone(),
        malformed_lines: quality.malformed_lines,
        malformed: quality.malformed.clone(),
        unrecognized_lines: quality.unrecognized_lines,
        free_unknown: seen.free_unknown,
        reallocations: seen.reallocations,
        splits: seen.splits,
        moves_to_allocated: seen.moves_to_allocated,
        first_tries: first_pass.first_try,
        initial_state: machine.knowledge,
        initial_blocks_off: off,
    }
}

/// The kernel's free blocks at the end.
///
/// Free are frames that were free at first or freed since, in the largest blocks that the kernel can make of them.
fn linux_blocks(first_pass: &FirstPass, machine: &RecordedMachine) -> Vec<ZoneBlocks> {
    let span = &first_pass.span;
    let mut used = first_pass.linux.used.clone();
    for (pfn, _) in machine.used() {
        if let Some(index) = span.index(pfn).filter(|&index| !first_pass.linux.touched.contains(index)) {
            used.insert(index);
        }
    }
    let mut zones: BTreeMap<(u8, usize), ZoneBlocks> = BTreeMap::new();
    let orders = machine.max_order.index() + 1;
    for region in machine.regions.iter().filter(|region| region.usable) {
        let frames = span.positions(region.range);
        let mut at = frames.start;
        while at < frames.end {
            let free = !used.contains(at);
            let run = (at..frames.end).take_while(|&index| used.contains(index) != free).count();
            if free {
                // The position after the last one may lie beyond a gap.
                let range = PfnRange { start: span.pfn(at), end: span.pfn(at + run - 1).add(1) };
                for (pfn, order) in range.blocks(machine.max_order) {
                    let kind = machine.kind_at(pfn);
                    let row = zones.entry((region.node.0, kind.index())).or_insert_with(|| ZoneBlocks {
                        node: machine.zones.linux(region.node),
                        zone: kind.name(),
                        free: vec![0; orders],
                    });
                    row.free[order.index()] += 1;
                }
            }
            at += run;
        }
    }
    zones.into_values().collect()
}

//! What a line adds to its report.

use framewright_trace::flags::KernelVersion;
use regex::Captures;

use super::patterns::{
    BLOCK, BLOCKS, BOOTED, CONSTRAINT, DEBIAN, FAILURE, FIELD, INTERRUPT, MEM_INFO, MEMS_ALLOWED, NODEMASK, OOM,
    PER_CPU, PER_CPU_LINE, RAM, RELEASE, RESERVE, STALL, SYSRQ, TOTAL, TRACE, VMALLOC, VMALLOC_BYTES, VMALLOC_ORDER,
    ZONE,
};
use crate::memory::{OrderFree, Types, Zone};
use crate::report::{Asked, Context, Kind, Report, Vmalloc};

/// Most zones of a report: 1,024 nodes of four.
const ZONES: usize = 4_096;
/// Most orders of a zone, and zones in a list of reserves.
const COLUMNS: usize = 64;
/// Orders that no kernel reaches.
const ORDERS: u8 = 32;
/// Largest number of frames or KiB: an exbibyte in KiB. A larger one counts as this.
const LARGEST: u64 = 1 << 50;
/// Most remarks on lines that could not be read.
const REMARKS: usize = 16;
/// Largest node whose number is believed.
const NODES: u32 = 1_024;

/// What became of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// It was read, or says nothing.
    Taken,
    /// It begins a zone that the report has already.
    Repeated,
}

/// A report whose lines still come.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) report: Report,
    /// Frames on all CPUs' lists by node and zone, which kernels before 4.2 print before the zones.
    per_cpu: Vec<(u32, String, u64)>,
}

impl Draft {
    /// Begins a report.
    pub(super) fn new(report: Report) -> Draft {
        Draft { report, per_cpu: Vec::new() }
    }

    /// Ends the report.
    pub(super) fn end(self) -> Report {
        let Draft { mut report, per_cpu } = self;
        for (node, name, frames) in per_cpu {
            if let Some(zone) = find(&mut report, node, &name) {
                zone.free_pcp.get_or_insert(frames);
            }
        }
        if report.memory.page_size.is_none() {
            guess_page_size(&mut report);
        }
        let named = report.release.as_deref().and_then(version);
        report.memory.kernel = report.memory.kernel.or(named);
        report
    }

    /// Adds a line.
    pub(super) fn fill(&mut self, text: &str) -> Line {
        if let Some(found) = PER_CPU.captures(text) {
            let (node, name) = place(&found);
            self.report.note_before(KernelVersion::new(4, 2));
            if self.per_cpu.len() < ZONES {
                self.per_cpu.push((node, name, 0));
            }
        } else if let Some(found) = PER_CPU_LINE.captures(text) {
            let used = number(&found, "used").unwrap_or(0).saturating_add(number(&found, "cold").unwrap_or(0));
            if let Some((.., frames)) = self.per_cpu.last_mut() {
                *frames = frames.saturating_add(used);
            }
        } else {
            return fill(&mut self.report, text);
        }
        Line::Taken
    }
}

/// Returns the report that a line begins, if it is a head.
pub(super) fn head(text: &str, line: u64) -> Option<Report> {
    let kinds = [
        (Kind::Failure, &FAILURE, "alloc"),
        (Kind::Oom, &OOM, "oom-killer"),
        (Kind::Stall, &STALL, "page allocation stalls"),
        (Kind::Vmalloc, &VMALLOC, "vmalloc"),
    ];
    let (kind, found) = kinds
        .into_iter()
        .filter(|(.., word)| text.contains(word))
        .find_map(|(kind, pattern, _)| Some((kind, pattern.captures(text)?)))?;
    let order = found.name("order").and_then(|order| order.as_str().parse::<i32>().ok());
    let is_by_hand = kind == Kind::Oom && order == Some(-1);
    let mut report = Report::new(line, if is_by_hand { Kind::OomByHand } else { kind });
    report.task = found.name("task").map(|task| task_of(task.as_str()).to_owned());
    let flags = found.name("number").and_then(|digits| {
        let text = digits.as_str();
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    });
    let names = found.name("names").map(|names| names.as_str().split_whitespace().collect::<String>());
    report.asked = Some(Asked {
        order: order.and_then(|order| u8::try_from(order).ok()).filter(|&order| order < ORDERS),
        number: flags,
        names: names.filter(|names| !names.is_empty()),
        nodemask: NODEMASK.captures(text).and_then(|found| nodes(&found["nodes"])),
        mems_allowed: MEMS_ALLOWED.captures(text).and_then(|found| nodes(&found["nodes"])),
    });
    if kind == Kind::Vmalloc {
        let order = VMALLOC_ORDER.captures(text).and_then(|found| number(&found, "order"));
        let order = order.and_then(|order| u8::try_from(order).ok()).filter(|&order| order < ORDERS);
        report.vmalloc = Vmalloc { bytes: vmalloc_bytes(text), lacked_pages: order.is_some() };
        report.asked.iter_mut().for_each(|asked| asked.order = Some(order.unwrap_or(0)));
    }
    Some(report)
}

/// Returns the bytes that a `vmalloc` asked for, of a line about one.
pub(super) fn vmalloc_bytes(text: &str) -> Option<u64> {
    let found = text.contains("vmalloc").then(|| VMALLOC_BYTES.captures(text)).flatten()?;
    number(&found, "bytes")
}

/// Returns the task's name of what stands before a head, which a program's output may begin.
fn task_of(text: &str) -> &str {
    const LONGEST: usize = 40;
    if text.len() <= LONGEST { text } else { text.rsplit([']', ' ']).next().unwrap_or(text) }
}

/// Returns whether a line begins a state of memory.
pub(super) fn is_begin_of_state(text: &str) -> bool {
    MEM_INFO.is_match(text) || SYSRQ.is_match(text)
}

/// Returns the release of the kernel that boots.
pub(super) fn release_at_boot(text: &str) -> Option<String> {
    let found = text.contains("Linux version").then(|| BOOTED.captures(text)).flatten()?;
    Some(found["release"].to_owned())
}

/// Adds a line about a zone or the whole machine.
fn fill(report: &mut Report, text: &str) -> Line {
    if let Some(found) = ZONE.captures(text) {
        return zone(report, &found, text);
    }
    if let Some(found) = RESERVE.captures(text) {
        let numbers = found["numbers"].split_whitespace().take(COLUMNS);
        let reserve = numbers.map(|number| number.parse::<i64>().map_or(0, |frames| frames.max(0) as u64)).collect();
        if let Some(zone) = report.memory.zones.last_mut().filter(|zone| zone.lowmem_reserve.is_none()) {
            zone.lowmem_reserve = Some(reserve);
        }
        return Line::Taken;
    }
    if let Some(found) = BLOCKS.captures(text) {
        blocks(report, &found);
        return Line::Taken;
    }
    others(report, text);
    Line::Taken
}

/// Lines that are not about a zone.
fn others(report: &mut Report, text: &str) {
    if let Some(found) = RELEASE.captures(text) {
        // A second line is another report's, quoted.
        if report.is_named {
            return;
        }
        report.is_named = true;
        if report.task.is_none() {
            report.task = found.name("task").map(|task| task.as_str().to_owned());
        }
        report.release = Some(found["release"].to_owned());
        report.memory.kernel = DEBIAN.captures(text).and_then(|found| version(&found["version"]));
    } else if let Some(found) = CONSTRAINT.captures(text) {
        report.constraint = Some(found["name"].to_owned());
        let asked = report.asked.get_or_insert_default();
        asked.nodemask = NODEMASK.captures(text).and_then(|found| nodes(&found["nodes"])).or(asked.nodemask.take());
        asked.mems_allowed = MEMS_ALLOWED.captures(text).and_then(|found| nodes(&found["nodes"]));
    } else if text.contains("cpuset=")
        && let Some(found) = MEMS_ALLOWED.captures(text)
    {
        report.asked.iter_mut().for_each(|asked| asked.mems_allowed = nodes(&found["nodes"]));
    } else if text.starts_with("Memory cgroup") || text.contains("killed as a result of limit of") {
        report.constraint.get_or_insert_with(|| "CONSTRAINT_MEMCG".to_owned());
    } else if let Some(found) = RAM.captures(text) {
        let frames = number(&found, "number");
        if found["name"].ends_with("RAM") { report.memory.ram = frames } else { report.memory.highmem = frames }
    } else if report.memory.zones.is_empty() && TOTAL.is_match(text) {
        totals(report, text);
    } else if INTERRUPT.is_match(text) {
        report.context = Context::Interrupt;
    } else if report.context == Context::Unknown && TRACE.is_match(text) {
        report.context = Context::Task;
    }
}

fn totals(report: &mut Report, text: &str) {
    for found in TOTAL.captures_iter(text) {
        let Some(frames) = number(&found, "number") else { continue };
        match &found["name"] {
            "free" => report.memory.free = Some(frames),
            "slab_reclaimable" => report.memory.slab_reclaimable = Some(frames),
            _ => report.memory.file = Some(report.memory.file.unwrap_or(0).saturating_add(frames)),
        }
    }
}

/// Returns the node and the name of a zone that a line names.
fn place(found: &Captures<'_>) -> (u32, String) {
    let node = found.name("node").and_then(|node| node.as_str().parse().ok()).filter(|&node| node < NODES);
    (node.unwrap_or(0), found["name"].to_owned())
}

fn number(found: &Captures<'_>, name: &str) -> Option<u64> {
    let digits = found.name(name)?.as_str();
    Some(digits.parse().unwrap_or(LARGEST).min(LARGEST))
}

fn find<'r>(report: &'r mut Report, node: u32, name: &str) -> Option<&'r mut Zone> {
    report.memory.zones.iter_mut().find(|zone| zone.node == node && zone.name == name)
}

/// Reads a zone's line. Sizes are kept in KiB until the blocks show the size of a frame.
fn zone(report: &mut Report, found: &Captures<'_>, text: &str) -> Line {
    let (node, name) = place(found);
    if find(report, node, &name).is_some() {
        return Line::Repeated;
    }
    if report.memory.zones.len() >= ZONES {
        return Line::Taken;
    }
    let mut zone = Zone { node, name, ..Zone::default() };
    let kib = report.memory.page_kib();
    let mut marks = [None; 3];
    for found in FIELD.captures_iter(text) {
        let Some(number) = number(&found, "number") else { continue };
        if number == LARGEST {
            remark(report, format!("zone {} of node {node}: `{}` is no size of memory", zone.name, &found[0]));
        }
        let frames = if found.name("unit").is_some() { number / kib } else { number };
        match &found["name"] {
            "free" => zone.free = frames,
            "min" => marks[0] = Some(frames),
            "low" => marks[1] = Some(frames),
            "high" => marks[2] = Some(frames),
            "boost" => zone.boost = Some(frames),
            "reserved_highatomic" => zone.reserved_highatomic = Some(frames),
            "free_highatomic" => zone.free_highatomic = Some(frames),
            "free_cma" => zone.free_cma = Some(frames),
            "managed" => zone.managed = Some(frames),
            "present" => zone.present = Some(frames),
            "free_pcp" => zone.free_pcp = Some(frames),
            "local_pcp" => zone.local_pcp = Some(frames),
            "active_file" | "inactive_file" => zone.file = Some(zone.file.unwrap_or(0).saturating_add(frames)),
            "slab_reclaimable" => zone.slab_reclaimable = Some(frames),
            "pages_scanned" | "isolated(anon)" => {
                report.note_before(KernelVersion::new(4, 8));
            }
            _ => {}
        }
    }
    let [min, low, high] = marks;
    if marks.iter().any(Option::is_none) {
        let name = &zone.name;
        remark(report, format!("zone {name} of node {node}: the line is cut before the marks, which count as 0"));
    }
    (zone.min, zone.low, zone.high) = (min.unwrap_or(0), low.unwrap_or(0), high.unwrap_or(0));
    report.memory.zones.push(zone);
    Line::Taken
}

/// Reads the free blocks of a zone, and from the smallest of them the size of a frame.
fn blocks(report: &mut Report, found: &Captures<'_>) {
    let (node, name) = place(found);
    let mut orders: Vec<OrderFree> = Vec::new();
    let mut first = None;
    for block in BLOCK.captures_iter(&found["blocks"]).take(COLUMNS) {
        let (Some(count), Some(size)) = (number(&block, "count"), number(&block, "size")) else { break };
        let first = *first.get_or_insert(size);
        // Each is twice as large as the one before; a line that has lost one is not read further.
        if first == 0 || !first.is_power_of_two() || Some(size) != first.checked_shl(orders.len() as u32) {
            remark(report, format!("zone {name} of node {node}: `{}` does not follow in the row of orders", &block[0]));
            break;
        }
        let types = block.name("letters").map(|letters| Types::of_letters(letters.as_str()));
        orders.push(OrderFree { blocks: count, types: types.flatten(), by_type: None });
    }
    if let Some(size) = first.filter(|size| (4..=1024).contains(size)) {
        rescale(report, size);
    }
    // The kernel prints letters for every order with a block, or for none.
    if orders.iter().any(|order| order.types.is_some()) {
        orders.iter_mut().filter(|order| order.blocks == 0).for_each(|order| order.types = Some(Types::default()));
    } else if orders.iter().any(|order| order.blocks > 0) {
        report.note_before(KernelVersion::new(3, 8));
    }
    match find(report, node, &name) {
        Some(zone) if zone.orders.is_empty() => zone.orders = orders,
        Some(_) => {}
        None => remark(report, format!("zone {name} of node {node} has free blocks, but no line of its own")),
    }
}

/// Finds the size of a frame where there are no lists: the zones print KiB, and the whole machine frames.
fn guess_page_size(report: &mut Report) {
    let Some(frames) = report.memory.free.filter(|&frames| frames > 0) else { return };
    let kib = report.memory.zones.iter().fold(0, |sum: u64, zone| sum.saturating_add(zone.free)).saturating_mul(4);
    let near = |size: &u64| kib.abs_diff(frames.saturating_mul(*size)) <= kib / 16;
    if let Some(size) = [4, 8, 16, 32, 64].into_iter().find(near) {
        rescale(report, size);
    }
}

/// Notes the size of a frame, and turns numbers that were read with another one into frames.
fn rescale(report: &mut Report, kib: u64) {
    let before = report.memory.page_kib();
    report.memory.page_size = Some(kib * 1024);
    if before == kib {
        return;
    }
    let scaled = |frames: u64| frames.saturating_mul(before) / kib;
    for zone in &mut report.memory.zones {
        for frames in [&mut zone.free, &mut zone.min, &mut zone.low, &mut zone.high] {
            *frames = scaled(*frames);
        }
        let optional = [
            &mut zone.boost,
            &mut zone.reserved_highatomic,
            &mut zone.free_highatomic,
            &mut zone.free_cma,
            &mut zone.managed,
            &mut zone.present,
            &mut zone.free_pcp,
            &mut zone.local_pcp,
            &mut zone.file,
            &mut zone.slab_reclaimable,
        ];
        optional.into_iter().for_each(|frames| *frames = frames.map(scaled));
    }
}

fn remark(report: &mut Report, text: String) {
    if report.unread.len() < REMARKS {
        report.unread.push(text);
    }
}

/// Reads nodes as `0-1,3`; `None` for `(null)`, which allows all, and for what cannot be read.
fn nodes(text: &str) -> Option<Vec<u32>> {
    let ranges = framewright_table::ranges::<u32>(text)?;
    if ranges.is_empty() || ranges.len() > NODES as usize || ranges.iter().any(|range| *range.end() >= NODES) {
        return None;
    }
    let mut nodes: Vec<u32> = ranges.into_iter().flatten().collect();
    nodes.sort_unstable();
    nodes.dedup();
    Some(nodes)
}

/// Returns the version that a release begins with, as 5.15.86 of `5.15.86.mx64.443`.
fn version(release: &str) -> Option<KernelVersion> {
    let end = release.match_indices(|c: char| !c.is_ascii_digit()).nth(2).map_or(release.len(), |(at, _)| at);
    release[..end].parse().ok()
}

//! A list of operations that rebuilds the state of a report and makes its request.
//!
//! The machine has the report's zones, marks and free blocks, and memory just large enough for them: what is in use is
//! in use as a whole. The lists say how many blocks of an order there are and of which types, but not how many of each.
//! Both ends are built ([`End`]).

use framewright::request::{__GFP_DMA, __GFP_DMA32, __GFP_HIGHMEM, __GFP_THISNODE, GFP_KERNEL, Gfp};
use framewright::watermark::Marks;
use framewright::{Mechanisms, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Region, ZoneIdx, ZoneKind};
use framewright_ops::{Handle, Op, Scenario, Shape, Terms};
use serde::Serialize;

use crate::decision::{Bounds, Case, Query, Rights, configured, highest, usable};
use crate::memory::{ListType, Memory, OrderFree, Types, Zone};

/// Which end of what is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Everything unknown is in the request's favour, and frames of per-CPU lists are free.
    Best,
    /// Everything unknown is against it.
    Worst,
}

/// Most frames of a machine that is rebuilt: those of 32 GiB in pages of 4 KiB.
const FRAMES: u64 = 1 << 23;
/// Most free blocks.
const BLOCKS: u64 = 1 << 21;

/// The kind that a zone has on our machine, which knows no HighMem: there Normal stands for it, and DMA32 for Normal.
fn kind(name: &str, has_highmem: bool) -> Option<ZoneKind> {
    Some(match (name, has_highmem) {
        ("DMA", _) => ZoneKind::Dma,
        ("DMA32", false) | ("Normal", true) => ZoneKind::Dma32,
        ("Normal", false) | ("HighMem", true) => ZoneKind::Normal,
        ("Movable", _) => ZoneKind::Movable,
        _ => return None,
    })
}

/// The rebuilt machine.
pub struct Rebuilt {
    /// The operations; the last one is the request, if there is one.
    pub scenario: Scenario,
    /// Where each zone of the report lies.
    pub zones: Vec<(String, PfnRange)>,
}

/// A machine that is being put together.
struct Machine<'a> {
    request: Option<(&'a Query, &'a Case)>,
    end: End,
    shape: Shape,
    ops: Vec<Op>,
    ranges: Vec<(String, PfnRange)>,
    /// The first frame after those of the zones so far.
    next: Pfn,
    /// Free blocks so far.
    blocks: u64,
}

/// Rebuilds a state, with the zones that a request may use, or with all.
///
/// # Errors
/// The state cannot be rebuilt, in words.
pub fn rebuild(
    memory: &Memory,
    request: Option<(&Query, &Case)>,
    mechanisms: Mechanisms,
    end: End,
) -> Result<Rebuilt, String> {
    let has_highmem = memory.has_highmem();
    let nodes = memory.nodes();
    let zones = placed(memory, request.map(|(_, case)| case), &nodes, has_highmem);
    let orders = zones.iter().map(|(_, zone)| zone.orders.len()).max().unwrap_or(0);
    if zones.is_empty() {
        return Err("the request may use no zone".to_owned());
    }
    if orders == 0 {
        return Err("the report has no lists of free blocks".to_owned());
    }
    let max = Order(orders.min(Order::COUNT) as u8 - 1);
    let mut shape = Shape::new(&[], &[NodeId(0)]);
    shape.geometry.max_order = max;
    shape.geometry.pageblock_order = Order(max.0.min(9));
    shape.geometry.page_shift = memory.page_size.map_or(12, |bytes| bytes.ilog2() as u8);
    shape.mechanisms = mechanisms;
    (shape.dma_end, shape.dma32_end) = (Pfn(0), Pfn(0));
    let (ops, ranges) = (Vec::new(), Vec::new());
    let mut machine = Machine { request, end, shape, ops, ranges, next: Pfn(0), blocks: 0 };
    for &(at, zone) in &zones {
        machine.zone(at, zone)?;
    }
    let Machine { mut shape, mut ops, ranges, .. } = machine;
    shape.dma32_end = shape.dma32_end.max(shape.dma_end);
    if let Some((query, _)) = request {
        let highest = kind(highest(query.gfp, &configured(memory)), has_highmem);
        let name = Handle(zones.len() as u32 + 1);
        ops.push(Op::Alloc { name, order: Order(query.order), terms: terms(query, highest, &nodes) });
    }
    Ok(Rebuilt { scenario: Scenario::new(shape, ops), zones: ranges })
}

/// Returns the zones that are rebuilt, in the order of their addresses: those that the request may use, or all.
fn placed<'m>(memory: &'m Memory, case: Option<&Case>, nodes: &[u32], has_highmem: bool) -> Vec<(ZoneIdx, &'m Zone)> {
    let mut zones: Vec<(ZoneIdx, &Zone)> = Vec::new();
    for zone in &memory.zones {
        let is_asked = case.is_none_or(|case| case.asked().any(|asked| asked.is_of(zone)));
        let node = nodes.iter().position(|&node| node == zone.node).filter(|&node| node < NodeId::LIMIT);
        if let (true, Some(kind), Some(node)) = (is_asked, kind(&zone.name, has_highmem), node) {
            zones.push((ZoneIdx::of(NodeId(node as u8), kind), zone));
        }
    }
    zones.sort_by_key(|(at, _)| (at.kind(), at.node()));
    zones
}

impl Machine<'_> {
    /// Adds a zone after those that are there.
    fn zone(&mut self, at: ZoneIdx, zone: &Zone) -> Result<(), String> {
        let max = self.shape.geometry.max_order;
        let rights = self.request.map_or(Rights::default(), |(_, case)| case.rights);
        let own = self.request.map_or(ListType::Movable, |(query, _)| own_type(query.gfp));
        let rows = rows(zone, rights, own, self.end);
        let blocks = rows.iter().flat_map(|(_, row)| row).fold(0, |sum: u64, &count| sum.saturating_add(count));
        self.blocks = self.blocks.saturating_add(blocks);
        let frames = rows.iter().fold(max.frames(), |sum, (_, row)| sum.saturating_add(room(row, max)));
        let range = PfnRange { start: self.next, end: self.next.add(frames) };
        if self.blocks > BLOCKS || range.end.0 > FRAMES {
            return Err(format!("more than {BLOCKS} free blocks or {FRAMES} frames are too many to rebuild"));
        }
        self.next = range.end;
        match at.kind() {
            ZoneKind::Dma => self.shape.dma_end = range.end,
            ZoneKind::Dma32 => self.shape.dma32_end = range.end,
            ZoneKind::Movable => self.shape.movable.push(range),
            ZoneKind::Normal => {}
        }
        self.shape.regions.push(Region::usable(range.start.0, range.end.0, at.node().0));
        let reserve = self
            .request
            .and_then(|(_, case)| case.zones.iter().find(|one| one.is_of(zone)).map(|one| one.account.reserve));
        let tuning = self.shape.tuning_mut(at);
        tuning.marks = Some(Marks { min: zone.min, low: zone.low, high: zone.high });
        tuning.reserve = Some([chosen(reserve.unwrap_or_default(), self.end); ZoneKind::COUNT]);
        let handle = Handle(self.ranges.len() as u32 + 1);
        self.ops.push(Op::AllocRange { name: handle, range, gfp: GFP_KERNEL });
        for (migratetype, blocks) in rows.into_iter().filter(|(_, row)| row.iter().any(|&count| count > 0)) {
            self.ops.push(Op::FreeBlocks { handle, migratetype, blocks });
        }
        self.ranges.push((format!("{} {}", zone.node, zone.name), range));
        Ok(())
    }
}

fn chosen(bounds: Bounds, end: End) -> u64 {
    match end {
        End::Best => bounds.least,
        End::Worst => bounds.most,
    }
}

/// Returns the flags and nodes of the request on the rebuilt machine.
fn terms(query: &Query, highest: Option<ZoneKind>, nodes: &[u32]) -> Terms {
    let zone = match highest {
        Some(ZoneKind::Dma) => __GFP_DMA,
        Some(ZoneKind::Dma32) => __GFP_DMA32,
        Some(ZoneKind::Movable) => __GFP_HIGHMEM,
        _ => Gfp::NONE,
    };
    let plain = query.gfp & !(__GFP_DMA | __GFP_DMA32 | __GFP_HIGHMEM | __GFP_THISNODE);
    let set = query.nodes.as_ref().map(|wanted| {
        let dense = nodes.iter().enumerate().filter(|(_, node)| wanted.contains(node));
        dense.fold(NodeSet::default(), |set, (node, _)| set.with(NodeSet::only(NodeId(node as u8))))
    });
    let policy = set.filter(|set| set.len() < nodes.len() as u32).map_or(Policy::Local, Policy::Bind);
    Terms { policy, ..Terms::new(plain | zone) }
}

fn own_type(gfp: Gfp) -> ListType {
    match gfp.migratetype() {
        MigrateType::Movable => ListType::Movable,
        MigrateType::Reclaimable => ListType::Reclaimable,
        _ => ListType::Unmovable,
    }
}

/// Returns the free blocks of a zone by type and order.
fn rows(zone: &Zone, rights: Rights, own: ListType, end: End) -> Vec<(MigrateType, Vec<u64>)> {
    let mut rows: Vec<(MigrateType, Vec<u64>)> = Vec::new();
    let mut add = |list: ListType, order: usize, count: u64| {
        let migratetype = match list {
            ListType::Unmovable => MigrateType::Unmovable,
            ListType::Movable | ListType::Reserve => MigrateType::Movable,
            ListType::Reclaimable => MigrateType::Reclaimable,
            ListType::HighAtomic => MigrateType::HighAtomic,
            ListType::Cma => MigrateType::Cma,
            ListType::Isolate => return,
        };
        let at = rows.iter().position(|row| row.0 == migratetype).unwrap_or_else(|| {
            rows.push((migratetype, vec![0; zone.orders.len()]));
            rows.len() - 1
        });
        rows[at].1[order] += count;
    };
    for (order, free) in zone.orders.iter().enumerate() {
        for list in ListType::ALL {
            add(list, order, share(free, list, rights, own, end));
        }
    }
    if end == End::Best && !zone.orders.is_empty() {
        add(own, 0, zone.free_pcp.unwrap_or(0));
    }
    rows
}

/// Returns the blocks of an order that count as of type `list`.
///
/// Each type that the report names has one. The others are of the type that serves the request best, or least.
fn share(free: &OrderFree, list: ListType, rights: Rights, own: ListType, end: End) -> u64 {
    if let Some(by_type) = &free.by_type {
        return by_type[list as usize];
    }
    let types = free.types.filter(|types| types.iter().next().is_some()).unwrap_or(Types::default().with(own));
    if !types.contains(list) || free.blocks == 0 {
        return 0;
    }
    let is_usable = |one: &ListType| usable(types, rights).any(|usable| usable == *one);
    let rank = |one: &ListType| match (is_usable(one), *one == own) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let main = match end {
        End::Best => types.iter().min_by_key(rank),
        End::Worst => types.iter().max_by_key(rank),
    };
    let others = types.iter().count() as u64 - 1;
    if main == Some(list) { free.blocks.saturating_sub(others).max(1) } else { 1 }
}

/// Returns the frames that surely hold these blocks, in largest blocks.
///
/// A block takes at most twice its size, and each order may begin a largest block of its own.
fn room(row: &[u64], max: Order) -> u64 {
    let smaller = row.iter().enumerate().take(usize::from(max.0));
    let frames = smaller.fold(0, |sum: u64, (order, &count)| sum.saturating_add(count.saturating_mul(2 << order)));
    let largest = row.get(usize::from(max.0)).copied().unwrap_or(0);
    let units = frames.div_ceil(max.frames()).saturating_add(largest);
    units.saturating_add(if frames > 0 { 1 } else { 0 }).saturating_mul(max.frames())
}

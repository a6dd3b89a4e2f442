//! Machines for tests: small ones, each with a special feature, and random ones.
//!
//! All have a few thousand frames at most, so that checking every frame after every operation stays cheap. Sizes of
//! blocks and pageblocks shrink with them, because only their ratios matter.

use framewright::watermark::{Marks, PcpSize};
use framewright::{NodeId, Order, Pfn, PfnRange, Region, ZoneIdx, ZoneKind};

use crate::generate::variety;
use crate::language::{Scenario, Shape};
use crate::rng::Rng;

/// Machines with a name, as a scenario writes them.
const NAMED: &[(&str, &str)] = &[
    ("plain", "memory 0x0..0x800 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n"),
    (
        "three zones, from frame 1",
        "max-order 6\npageblock-order 4\nmemory 0x1..0x9f node 0\nmemory 0x100..0x480 node 0\ncpus 0 0\n\
         dma-end 0x40\ndma32-end 0x200\n",
    ),
    (
        "two nodes with holes",
        "max-order 7\npageblock-order 5\nmemory 0x3..0x7d node 0\nreserved 0x7d..0x90 node 0\n\
         memory 0x90..0x200 node 0\nmemory 0x1000..0x1123 node 1\nmemory 0x1125..0x11c0 node 1\ncpus 0 1 1\n\
         dma-end 0x20\ndma32-end 0x100\n",
    ),
    (
        "four nodes on a ring",
        "max-order 5\npageblock-order 3\nmemory 0x0..0x80 node 0\nmemory 0x80..0x100 node 1\n\
         memory 0x100..0x180 node 2\nmemory 0x180..0x200 node 3\ncpus 0 1 2 3\n\
         distances 10 20 40 20 20 10 20 40 40 20 10 20 20 40 20 10\ndma-end 0x0\ndma32-end 0x40\n",
    ),
    (
        "nodes that meet inside of a pageblock",
        "max-order 6\npageblock-order 4\nmemory 0x0..0x6a node 0\nmemory 0x6a..0xf3 node 1\n\
         memory 0xf5..0x180 node 0\ncpus 0 1\ndma-end 0x18\ndma32-end 0x24\n",
    ),
    (
        "a node without memory",
        "max-order 6\npageblock-order 5\nmemory 0x40..0x200 node 0\nmemory 0x200..0x300 node 2\ncpus 0 1 2\n\
         distances 10 30 20 30 10 15 20 15 10\ndma-end 0x0\ndma32-end 0x100\n",
    ),
    (
        "movable memory",
        "max-order 6\npageblock-order 4\nmemory 0x0..0x400 node 0\ncpus 0 0\ndma-end 0x40\ndma32-end 0x100\n\
         movable 0x280..0x400\n",
    ),
    (
        "contiguous reserves",
        "max-order 6\npageblock-order 4\nmemory 0x0..0x300 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
         cma 0x80..0x100\ncma 0x210..0x220\n",
    ),
    (
        "pageblocks of two frames",
        "max-order 3\npageblock-order 1\nmemory 0x5..0xe3 node 0\ncpus 0 0\ndma-end 0x10\ndma32-end 0x30\n",
    ),
    (
        "pageblocks as large as blocks",
        "max-order 9\npageblock-order 9\nmemory 0x0..0x600 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n",
    ),
    (
        "many pageblocks in a block",
        "max-order 10\npageblock-order 2\nmemory 0x0..0x640 node 0\ncpus 0\ndma-end 0x80\ndma32-end 0x0\n",
    ),
    (
        "tiny zones",
        "max-order 4\npageblock-order 1\nmemory 0x0..0x7 node 0\nmemory 0x9..0x15 node 1\nmemory 0x18..0x19 node 1\n\
         cpus 0 1\ndma-end 0x2\ndma32-end 0x4\n",
    ),
    (
        "large per-CPU lists",
        "max-order 6\npageblock-order 4\nmemory 0x0..0x400 node 0\ncpus 0 0 0\ndma-end 0x0\ndma32-end 0x0\n\
         pcp 0 Normal 16 96\n",
    ),
    (
        "small batches, high lists",
        "max-order 7\npageblock-order 5\nmemory 0x0..0x400 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\
         pcp 0 Normal 1 58\n",
    ),
    (
        "high marks and reserves",
        "max-order 6\npageblock-order 4\nmemory 0x0..0x400 node 0\ncpus 0\ndma-end 0x100\ndma32-end 0x200\n\
         marks 0 DMA 16 20 24\nreserve 0 DMA 0 16 48 48\nmarks 0 DMA32 32 40 48\nreserve 0 DMA32 0 0 32 32\n\
         marks 0 Normal 64 80 96\n",
    ),
    (
        "a PC: a hole below zone Normal",
        "max-order 6\npageblock-order 4\nmemory 0x1..0x27 node 0\nmemory 0x28..0x300 node 0\n\
         memory 0x400..0x800 node 0\ncpus 0 0\ndma-end 0x40\ndma32-end 0x400\nmechanisms default\n",
    ),
    (
        "holes inside of zones",
        "max-order 5\npageblock-order 3\nmemory 0x0..0x60 node 0\nmemory 0xc0..0x163 node 0\n\
         memory 0x166..0x200 node 0\nmemory 0x400..0x500 node 0\nmemory 0x580..0x5a0 node 0\ncpus 0 0\n\
         dma-end 0x100\ndma32-end 0x0\nmechanisms default\n",
    ),
    (
        "firmware's first section, then a hole",
        "max-order 6\npageblock-order 4\nreserved 0x0..0x30 node 0\nmemory 0x100..0x300 node 0\n\
         memory 0x340..0x400 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x100\nmechanisms default\n",
    ),
    (
        "nodes inside of each other's span",
        "max-order 5\npageblock-order 3\nmemory 0x0..0x80 node 0\nmemory 0xc0..0x150 node 1\n\
         memory 0x150..0x240 node 0\nmemory 0x300..0x380 node 1\ncpus 0 1\ndma-end 0x0\ndma32-end 0x100\n\
         mechanisms default\n",
    ),
    (
        "zones that begin and end inside of sections and holes",
        "max-order 7\npageblock-order 3\nmemory 0x9..0x90 node 0\nmemory 0x128..0x1d8 node 0\n\
         memory 0x310..0x500 node 1\ncpus 0 1\ndma-end 0x38\ndma32-end 0x180\nmovable 0x3a8..0x438\n\
         mechanisms default\n",
    ),
    (
        "the end of the address space",
        "max-order 5\npageblock-order 3\nmemory 0xffffffffffb00..0xffffffffffc00 node 0\n\
         memory 0xffffffffffd00..0x10000000000000 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\nmechanisms default\n",
    ),
    (
        "memory as far apart as it can be",
        "max-order 5\npageblock-order 3\nmemory 0x0..0x100 node 0\nmemory 0x10000000003..0x10000000100 node 0\n\
         memory 0xfffffffffff00..0x10000000000000 node 1\ncpus 0 1\ndma-end 0x80\ndma32-end 0x10000000080\n\
         mechanisms default\n",
    ),
];

/// Returns every machine with a name.
pub fn named() -> impl Iterator<Item = (&'static str, Shape)> {
    // The texts are constants, and a test reads them all.
    NAMED.iter().filter_map(|(name, text)| Some((*name, text.parse::<Scenario>().ok()?.shape)))
}

/// Draws a machine with a name or a random one, with a preset's or random mechanisms.
pub fn any(rng: &mut Rng) -> Shape {
    let named = NAMED.get(rng.below(2 * NAMED.len() as u64) as usize);
    let named = named.and_then(|(_, text)| text.parse::<Scenario>().ok()).map(|scenario| scenario.shape);
    let mut shape = named.unwrap_or_else(|| random(rng));
    (shape.zone_counters, shape.node_counters) = (rng.below(5) as usize, rng.below(5) as usize);
    if rng.one_in(3) {
        holes(rng, &mut shape);
    }
    shape.mechanisms = variety::mechanisms(rng);
    shape
}

/// Draws a random machine.
pub fn random(rng: &mut Rng) -> Shape {
    let nodes = *rng.pick(&[1_u8, 1, 2, 2, 4]);
    let mut shape = Shape::new(&[], &[]);
    (shape.geometry.max_order, shape.geometry.pageblock_order) = orders(rng);
    let mut at = rng.below(3) * rng.below(40);
    for node in 0..nodes {
        // A node may have no memory, but the first always has some.
        if node != 0 && rng.one_in(6) {
            continue;
        }
        at = regions(rng, &mut shape, at, node);
    }
    let end = at;
    shape.cpus = (0..rng.between(1, 4)).map(|_| NodeId(rng.below(nodes.into()) as u8)).collect();
    if rng.one_in(2) {
        let count = shape.nodes();
        shape.distances = (0..count * count).map(|_| rng.between(10, 40) as u8).collect();
    }
    let cut = |rng: &mut Rng| Pfn(rng.below(3) * rng.below(end) / 2);
    let (one, other) = (cut(rng), cut(rng));
    (shape.dma_end, shape.dma32_end) = (one.min(other), one.max(other));
    let block = shape.geometry.pageblock_order.frames();
    let piece = |rng: &mut Rng| {
        let start = rng.below(end / block + 1);
        PfnRange::new(start * block, (start + rng.between(1, 6)) * block)
    };
    if rng.one_in(4) {
        shape.movable = vec![piece(rng)];
    }
    if rng.one_in(3) {
        shape.cma = (0..rng.between(1, 3)).map(|_| piece(rng)).collect();
    }
    if rng.one_in(2) {
        tune(rng, &mut shape);
    }
    shape
}

/// Draws the orders of the largest block and of a pageblock, a few of them extreme.
fn orders(rng: &mut Rng) -> (Order, Order) {
    if rng.one_in(40) {
        return *rng.pick(&[
            (Order(0), Order(0)),
            (Order(1), Order(0)),
            (Order(4), Order(0)),
            (Order(1), Order(1)),
            (Order(14), Order(11)),
            (Order(18), Order(9)),
            (Order(18), Order(18)),
        ]);
    }
    let max = rng.between(3, 10);
    (Order(max as u8), Order(rng.between(1, max.min(9)) as u8))
}

/// Adds a node's memory from `at` on; returns its end.
fn regions(rng: &mut Rng, shape: &mut Shape, at: u64, node: u8) -> u64 {
    let mut at = at;
    for i in 0..rng.between(1, 3) {
        let frames = rng.between(1, 8) * rng.between(1, 64);
        let (start, end) = (at, at + frames);
        if rng.one_in(5) && frames > 4 {
            let hole = rng.between(1, frames - 2);
            let width = rng.between(1, frames - hole - 1);
            shape.regions.push(Region::usable(start, start + hole, node));
            shape.regions.push(Region::reserved(start + hole, start + hole + width, node));
            shape.regions.push(Region::usable(start + hole + width, end, node));
        } else {
            shape.regions.push(Region { usable: i == 0 || !rng.one_in(8), ..Region::usable(start, end, node) });
        }
        at = end + rng.below(2) * rng.below(100);
    }
    at
}

/// Opens up to three holes, mostly of whole sections.
fn holes(rng: &mut Rng, shape: &mut Shape) {
    let section = shape.geometry.max_order.frames();
    for _ in 0..rng.between(1, 3) {
        let region = rng.pick(&shape.regions).range;
        let at = region.start.0 + rng.below(2) * rng.below(region.frames());
        // Memory that ends near the last possible frame has no room for a hole.
        let frames = match rng.below(16) {
            0..=3 => rng.between(1, 2 * section),
            4 => section << rng.between(1, 30),
            _ => section * rng.between(1, 4),
        };
        if shape.regions.last().is_some_and(|last| last.range.end.add(frames).0 <= 1 << 52) {
            let at = if rng.one_in(3) { at } else { at & !(section - 1) };
            open_hole(shape, Pfn(at), frames);
        }
    }
    if rng.one_in(2) {
        // A zone may end at a hole.
        shape.dma32_end = shape.dma32_end.max(rng.pick(&shape.regions).range.start);
    }
}

/// Moves all memory from a frame on up by `frames`; the borders of zones stay.
pub fn open_hole(shape: &mut Shape, at: Pfn, frames: u64) {
    let mut regions = Vec::with_capacity(shape.regions.len() + 1);
    for region in &shape.regions {
        let cut = at.clamp(region.range.start, region.range.end);
        let below = PfnRange { end: cut, ..region.range };
        let above = PfnRange { start: cut.add(frames), end: region.range.end.add(frames) };
        let parts = [below, above].into_iter().filter(|range| !range.is_empty());
        regions.extend(parts.map(|range| Region { range, ..*region }));
    }
    shape.regions = regions;
}

fn tune(rng: &mut Rng, shape: &mut Shape) {
    for node in 0..shape.nodes() {
        let zone = ZoneIdx::of(NodeId(node as u8), *rng.pick(&ZoneKind::ALL));
        let tuning = shape.tuning_mut(zone);
        if rng.one_in(2) {
            let min = rng.below(40);
            let low = min + rng.below(20);
            tuning.marks = Some(Marks { min, low, high: low + rng.below(20) });
        }
        if rng.one_in(3) {
            tuning.reserve = Some(std::array::from_fn(|_| rng.below(40)));
        }
        if tuning.marks.is_none() || rng.one_in(2) {
            let batch = rng.between(1, 20) as u32;
            tuning.pcp = Some(PcpSize { batch, high: batch * rng.between(1, 12) as u32 });
        }
    }
}

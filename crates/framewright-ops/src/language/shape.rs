//! The machine of a scenario: memory map, CPUs and sizes.
//!
//! A [`Shape`] owns what the core's `Config` borrows. It prints as the head of a scenario, a line for each fact. Facts
//! with x86's default are left out.
//!
//! ```text
//! max-order 6
//! pageblock-order 4
//! memory 0x1..0x9f node 0
//! reserved 0x9f..0x100 node 0
//! memory 0x100..0x400 node 1
//! possible 0x800..0x1000 node 1
//! cpus 0 1
//! distances 10 20 20 10
//! dma-end 0x40
//! dma32-end 0x200
//! movable 0x300..0x400
//! cma 0x200..0x220
//! min-free-kbytes 128
//! watermark-scale 10
//! marks 0 Normal 4 6 8
//! reserve 0 DMA 0 1 4 4
//! pcp 0 Normal 3 16
//! zone-counters 3
//! node-counters 4
//! sections when-used
//! descriptors dirty
//! mechanisms fallback=claim-steal
//! ```
//!
//! All sizes are in frames. `marks` are min, low and high, `reserve` the frames kept from requests by their highest
//! zone, `pcp` batch and high. `zone-counters` and `node-counters` are the numbers of the embedder's counters in each.
//! With `sections when-used`, sections are not put on the free lists at boot. With `descriptors dirty`, the descriptors
//! are not zeroed before boot. `mechanisms` names the switches that differ from the baseline.

use std::fmt;

use framewright::config::SectionInit;
use framewright::watermark::{Marks, PcpSize};
use framewright::{Config, Geometry, Mechanisms, NodeId, Pfn, PfnRange, Region, Tuning, ZoneIdx};

use crate::language::counter::{OF_NODES, OF_ZONES};
use crate::language::words::{Reason, Words};

/// The machine that an allocator is set up on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Page size and largest orders.
    pub geometry: Geometry,
    /// The memory map, ascending.
    pub regions: Vec<Region>,
    /// The node of each CPU.
    pub cpus: Vec<NodeId>,
    /// Distances between nodes, row by row; empty if all are equal.
    pub distances: Vec<u8>,
    /// First frame after zone DMA.
    pub dma_end: Pfn,
    /// First frame after zone DMA32.
    pub dma32_end: Pfn,
    /// Zone Movable.
    pub movable: Vec<PfnRange>,
    /// Pageblocks of type CMA.
    pub cma: Vec<PfnRange>,
    /// `min_free_kbytes`; `None` for Linux's formula.
    pub min_free_kbytes: Option<u64>,
    /// Gap between watermarks in ten-thousandths of the zone.
    pub watermark_scale_factor: u64,
    /// Zones with sizes of their own, each named once.
    pub tuning: Vec<Tuning>,
    /// Counters that the embedder keeps in each zone; at most 4.
    pub zone_counters: usize,
    /// Counters that the embedder keeps in each node; at most 4.
    pub node_counters: usize,
    /// When sections are put on the free lists; never by size.
    pub section_init: SectionInit,
    /// Whether the descriptors are zeroed before boot.
    pub is_zeroed: bool,
    /// The mechanisms at work.
    pub mechanisms: Mechanisms,
}

impl Shape {
    /// Makes a machine of `regions` and `cpus`, with x86's sizes.
    pub fn new(regions: &[Region], cpus: &[NodeId]) -> Shape {
        let config = Config::new(regions, cpus);
        Shape {
            geometry: config.geometry,
            regions: regions.to_vec(),
            cpus: cpus.to_vec(),
            distances: Vec::new(),
            dma_end: config.dma_end,
            dma32_end: config.dma32_end,
            movable: Vec::new(),
            cma: Vec::new(),
            min_free_kbytes: config.min_free_kbytes,
            watermark_scale_factor: config.watermark_scale_factor,
            tuning: Vec::new(),
            zone_counters: 0,
            node_counters: 0,
            section_init: SectionInit::AtBoot,
            is_zeroed: true,
            mechanisms: Mechanisms::BASELINE,
        }
    }

    /// Returns the core's configuration.
    pub fn config(&self) -> Config<'_> {
        Config {
            distances: &self.distances,
            geometry: self.geometry,
            dma_end: self.dma_end,
            dma32_end: self.dma32_end,
            movable: &self.movable,
            cma: &self.cma,
            min_free_kbytes: self.min_free_kbytes,
            watermark_scale_factor: self.watermark_scale_factor,
            tuning: &self.tuning,
            section_init: self.section_init,
            is_zeroed: self.is_zeroed,
            mechanisms: self.mechanisms,
            zone_counters: &OF_ZONES[..self.zone_counters],
            node_counters: &OF_NODES[..self.node_counters],
            ..Config::new(&self.regions, &self.cpus)
        }
    }

    /// Returns the number of nodes: one more than the highest named.
    pub fn nodes(&self) -> usize {
        let nodes = self.regions.iter().map(|region| region.node).chain(self.cpus.iter().copied());
        nodes.map(|node| node.index() + 1).max().unwrap_or(0)
    }

    /// Returns the frames of the memory map.
    pub fn frames(&self) -> u64 {
        self.regions.iter().map(|region| region.range.frames()).fold(0, u64::saturating_add)
    }

    /// Returns the entry for a zone's own sizes; makes it if there is none.
    pub fn tuning_mut(&mut self, zone: ZoneIdx) -> &mut Tuning {
        let found = self.tuning.iter().position(|tuning| tuning.zone == zone);
        let at = found.unwrap_or_else(|| {
            self.tuning.push(Tuning { zone, marks: None, reserve: None, pcp: None });
            self.tuning.len() - 1
        });
        &mut self.tuning[at]
    }

    /// Reads one line of a machine's description; returns false if the line is none.
    pub(crate) fn read(&mut self, line: &str) -> Result<bool, Reason> {
        let mut words = Words::new(line);
        match words.word("a line")? {
            "page-shift" => self.geometry.page_shift = words.number("a page shift")?,
            "max-order" => self.geometry.max_order = words.order()?,
            "pageblock-order" => self.geometry.pageblock_order = words.order()?,
            "memory" => self.regions.push(region(&mut words, Region::usable)?),
            "reserved" => self.regions.push(region(&mut words, Region::reserved)?),
            "possible" => self.regions.push(region(&mut words, Region::possible)?),
            "cpus" => self.cpus = words.numbers("a node's number")?.into_iter().map(NodeId).collect(),
            "distances" => self.distances = words.numbers("a distance")?,
            "dma-end" => self.dma_end = words.pfn()?,
            "dma32-end" => self.dma32_end = words.pfn()?,
            "movable" => self.movable.push(words.range()?),
            "cma" => self.cma.push(words.range()?),
            "min-free-kbytes" => self.min_free_kbytes = Some(words.number("KiB")?),
            "watermark-scale" => self.watermark_scale_factor = words.number("a scale")?,
            "marks" => {
                let zone = words.zone()?;
                let [min, low, high] = frames(&mut words)?;
                self.tuning_mut(zone).marks = Some(Marks { min, low, high });
            }
            "reserve" => {
                let zone = words.zone()?;
                self.tuning_mut(zone).reserve = Some(frames(&mut words)?);
            }
            "pcp" => {
                let zone = words.zone()?;
                let [batch, high] = frames(&mut words)?;
                self.tuning_mut(zone).pcp = Some(PcpSize { batch, high });
            }
            "zone-counters" => self.zone_counters = counters(&mut words, OF_ZONES)?,
            "node-counters" => self.node_counters = counters(&mut words, OF_NODES)?,
            "sections" => {
                words.keyword("when-used")?;
                self.section_init = SectionInit::WhenUsed;
            }
            "descriptors" => {
                words.keyword("dirty")?;
                self.is_zeroed = false;
            }
            "mechanisms" => {
                let list = words.word("mechanisms")?;
                let wrong = |(part, _)| format!("`{part}` is no mechanism");
                self.mechanisms = Mechanisms::parse(list).map_err(wrong)?;
            }
            _ => return Ok(false),
        }
        words.end().map(|()| true)
    }
}

fn region(words: &mut Words<'_>, kind: fn(u64, u64, u8) -> Region) -> Result<Region, Reason> {
    let PfnRange { start, end } = words.range()?;
    words.keyword("node")?;
    Ok(kind(start.0, end.0, words.node()?.0))
}

/// Reads how many of these counters there are.
fn counters(words: &mut Words<'_>, names: &[&str]) -> Result<usize, Reason> {
    let most = names.len();
    let count = words.number("a number of counters")?;
    if count <= most { Ok(count) } else { Err(format!("{count} counters are more than {most}")) }
}

/// Reads exactly `N` numbers of frames.
fn frames<T: TryFrom<u64> + Copy + Default, const N: usize>(words: &mut Words<'_>) -> Result<[T; N], Reason> {
    let mut numbers = [T::default(); N];
    for number in &mut numbers {
        *number = words.number("a number of frames")?;
    }
    Ok(numbers)
}

/// Mechanisms as the switches that differ from the baseline.
struct Differing(Mechanisms);

impl fmt::Display for Differing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, baseline) = (self.0.to_string(), Mechanisms::BASELINE.to_string());
        let differing = all.split(',').zip(baseline.split(',')).filter(|(one, other)| one != other);
        let names: Vec<&str> = differing.map(|(one, _)| one).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Shape::new(&[], &[]);
        let Geometry { page_shift, max_order, pageblock_order } = self.geometry;
        let optional = |f: &mut fmt::Formatter<'_>, name, value: &dyn fmt::Display, is_default: bool| {
            if is_default { Ok(()) } else { writeln!(f, "{name} {value}") }
        };
        optional(f, "page-shift", &page_shift, page_shift == default.geometry.page_shift)?;
        optional(f, "max-order", &max_order, max_order == default.geometry.max_order)?;
        optional(f, "pageblock-order", &pageblock_order, pageblock_order == default.geometry.pageblock_order)?;
        for Region { range, node, usable, present } in &self.regions {
            let kind = match (usable, present) {
                (_, false) => "possible",
                (true, _) => "memory",
                (false, _) => "reserved",
            };
            writeln!(f, "{kind} {range} node {}", node.0)?;
        }
        list(f, "cpus", self.cpus.iter().map(|node| node.0))?;
        list(f, "distances", self.distances.iter().copied())?;
        optional(f, "dma-end", &self.dma_end, self.dma_end == default.dma_end)?;
        optional(f, "dma32-end", &self.dma32_end, self.dma32_end == default.dma32_end)?;
        self.movable.iter().try_for_each(|range| writeln!(f, "movable {range}"))?;
        self.cma.iter().try_for_each(|range| writeln!(f, "cma {range}"))?;
        let scale = self.watermark_scale_factor;
        self.min_free_kbytes.map_or(Ok(()), |kib| writeln!(f, "min-free-kbytes {kib}"))?;
        optional(f, "watermark-scale", &scale, scale == default.watermark_scale_factor)?;
        self.tuning.iter().try_for_each(|tuning| tuned(f, tuning))?;
        optional(f, "zone-counters", &self.zone_counters, self.zone_counters == 0)?;
        optional(f, "node-counters", &self.node_counters, self.node_counters == 0)?;
        optional(f, "sections", &"when-used", self.section_init != SectionInit::WhenUsed)?;
        optional(f, "descriptors", &"dirty", self.is_zeroed)?;
        optional(f, "mechanisms", &Differing(self.mechanisms), self.mechanisms == Mechanisms::BASELINE)
    }
}

fn list(f: &mut fmt::Formatter<'_>, name: &str, numbers: impl ExactSizeIterator<Item = u8>) -> fmt::Result {
    if numbers.len() == 0 {
        return Ok(());
    }
    f.write_str(name)?;
    numbers.into_iter().try_for_each(|number| write!(f, " {number}"))?;
    f.write_str("\n")
}

fn tuned(f: &mut fmt::Formatter<'_>, tuning: &Tuning) -> fmt::Result {
    let zone = format!("{} {}", tuning.zone.node().0, tuning.zone.kind());
    if let Some(Marks { min, low, high }) = tuning.marks {
        writeln!(f, "marks {zone} {min} {low} {high}")?;
    }
    if let Some([dma, dma32, normal, movable]) = tuning.reserve {
        writeln!(f, "reserve {zone} {dma} {dma32} {normal} {movable}")?;
    }
    if let Some(PcpSize { batch, high }) = tuning.pcp {
        writeln!(f, "pcp {zone} {batch} {high}")?;
    }
    Ok(())
}

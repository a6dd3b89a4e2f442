//! The memory of the machine: nodes, zones and marks.

use framewright::config::SectionInit;
use framewright::units::{NodeId, ZoneIdx, ZoneKind};
use framewright::watermark::{PcpSize, Tuning};
use framewright::{Config, Mechanisms, Pfn, Region};

use super::options::{Marks, Thpfioscale};
use crate::model::Model;

/// First frame of the machine.
pub(super) const FIRST: u64 = 1 << 10;

/// Frames of the largest block.
const BLOCK: u64 = 1 << 10;

/// Frames of a pageblock.
const PAGEBLOCK: u64 = 512;

/// Frames of zone DMA: 16 MiB.
const DMA: u64 = 16 << 8;

/// Frames of the node whose proportions are used, 64 GiB; and of the one whose marks are used, 16 GiB.
pub(super) const NODE: u64 = 64 << 18;

const MARKS: u64 = 16 << 18;

/// Batch and high of per-CPU lists in Linux 4.20, in zones of a gigabyte or more.
const PCP: [u64; 2] = [63, 378];

/// The machine's memory.
pub(super) struct FioMap {
    pub(super) regions: Vec<Region>,
    tuning: Vec<Tuning>,
    pub(super) dma_end: u64,
    pub(super) dma32_end: u64,
    /// Frames of a node.
    pub(super) each: u64,
    pub(super) min_free_kbytes: u64,
}

impl FioMap {
    pub(super) fn of(model: &Model, options: &Thpfioscale) -> FioMap {
        let nodes = u64::from(model.topology.sockets);
        let each = (u64::from(options.mib) * 256 / nodes / BLOCK).max(8) * BLOCK;
        let region = |node: u64| Region::usable(FIRST + node * each, FIRST + (node + 1) * each, node as u8);
        let [dma, low] = match u64::from(options.low) {
            0 => [(each / 4096 / PAGEBLOCK).max(1) * PAGEBLOCK, (each * 3 / 64 / BLOCK).max(1) * BLOCK],
            mib => [DMA, (mib * 256).next_multiple_of(BLOCK)],
        };
        let min_free_kbytes = match options.marks {
            _ if options.min_free != 0 => options.min_free.into(),
            Marks::Own => min_free_kbytes(nodes, nodes * each),
            Marks::Scaled => min_free_kbytes(nodes, MARKS) * each / MARKS,
        };
        let regions = (0..nodes).map(region).collect();
        let share = |pages: u64| (pages * each).div_ceil(NODE) as u32;
        let pcp = PcpSize { batch: share(PCP[0]), high: share(PCP[1]) };
        let zones = (0..nodes)
            .flat_map(|node| [ZoneKind::Dma32, ZoneKind::Normal].map(|kind| ZoneIdx::of(NodeId(node as u8), kind)));
        let tuning = match options.marks {
            Marks::Own => Vec::new(),
            Marks::Scaled => zones.map(|zone| Tuning { zone, marks: None, reserve: None, pcp: Some(pcp) }).collect(),
        };
        FioMap { regions, tuning, dma_end: FIRST + dma, dma32_end: FIRST + low, each, min_free_kbytes }
    }

    pub(super) fn frames(&self) -> u64 {
        self.each * self.regions.len() as u64
    }

    pub(super) fn config<'c>(&'c self, cpus: &'c [NodeId], mechanisms: Mechanisms) -> Config<'c> {
        Config {
            mechanisms,
            dma_end: Pfn(self.dma_end),
            dma32_end: Pfn(self.dma32_end),
            min_free_kbytes: Some(self.min_free_kbytes),
            tuning: &self.tuning,
            section_init: SectionInit::AtBoot,
            ..Config::new(&self.regions, cpus)
        }
    }
}

/// Returns khugepaged's `min_free_kbytes` of a machine.
///
/// It is two pageblocks of each zone, and one more for each pair of mobilities; at most a twentieth of memory.
fn min_free_kbytes(nodes: u64, frames: u64) -> u64 {
    // DMA, DMA32 and Normal of the first node, Normal of others.
    4 * (PAGEBLOCK * (2 + nodes) * (2 + 3 * 3)).min(frames / 20)
}

//! Derives geometry, memory map, CPUs and sizes for the core from an arena's description.
//!
//! # Differences from a kernel
//!
//! - **One zone, Normal, for each node**, and Movable where asked for: no memory is out of any device's reach here.
//! - **All marks and reserves are 0.** A kernel keeps them for code that frees memory. Here no code needs any, and all
//!   memory can be allocated. [`ArenaBuilder::min_free`] sets the memory aside that `__GFP_HIGH` and `__GFP_MEMALLOC`
//!   requests may use.
//! - **The largest block is 1 GiB**, or the largest that fits into the largest node. Fewer, larger blocks are also the
//!   reason that 1 TiB takes little to boot: descriptors are touched where blocks begin.
//! - **A block's address is a multiple of its size**, for memory mapped here.

use framewright::watermark::PcpSize;
use framewright::{Config, Geometry, NodeId, Order, Pfn, PfnRange, Region, Tuning, ZoneIdx, ZoneKind};

use super::backing::Backing;
use super::builder::{ArenaBuilder, Part};
use crate::cpus::{CpuMode, RseqUnavailable};
use crate::error::ArenaError;
use crate::native::Native;
use crate::os::{Placement, distances, page_size};

/// Blocks are at most this large, in bytes: 1 GiB.
const LARGEST_BLOCK_SHIFT: u8 = 30;
/// CPUs that an allocator can have.
const MOST_CPUS: usize = u16::MAX as usize;
/// A pageblock, the unit of grouping by mobility, is a huge page of 2 MiB.
const PAGEBLOCK_SHIFT: u8 = 21;
/// Frames that a CPU keeps at most, unless the arena is small: eight pageblocks of 4 KiB pages.
const PCP_HIGH: u64 = 4096;

/// The checked consequences of a builder.
pub(super) struct Shape {
    /// Bytes of address space: those present at first, and those that may come.
    pub(super) bytes: u64,
    pub(super) geometry: Geometry,
    pub(super) regions: Vec<Region>,
    /// Frames of each node, with those that may come.
    pub(super) nodes: Vec<PfnRange>,
    pub(super) movable: Vec<PfnRange>,
    pub(super) cpus: Vec<NodeId>,
    pub(super) distances: Vec<u8>,
    pub(super) tuning: Vec<Tuning>,
}

/// The arena's machine, and why it is not the one that was asked for.
pub(super) struct Runner {
    pub(super) machine: Native,
    pub(super) refused: Option<RseqUnavailable>,
}

impl ArenaBuilder {
    /// Checks the description and derives the core's configuration.
    pub(super) fn shape(&self) -> Result<(Shape, Runner), ArenaError> {
        if let (Some(_), Backing::Hugetlb(_)) = (self.limit, self.backing) {
            return Err(ArenaError::Unsupported { what: "growing", memory: "hugetlb" });
        }
        let geometry = self.geometry()?;
        let multiple = match (self.backing, self.parts.len()) {
            _ if self.limit.is_some() => self.page << geometry.max_order.0,
            (Backing::Hugetlb(page), _) => page.bytes(),
            (_, 0 | 1) => self.page,
            _ => self.page << geometry.pageblock_order.0,
        };
        let (shift, largest) = (geometry.page_shift, geometry.max_order.frames());
        if !self.first_pfn.is_multiple_of(largest) {
            return Err(ArenaError::BadFirstFrame { pfn: self.first_pfn, multiple: largest });
        }
        let mut shape = Shape {
            bytes: 0,
            geometry,
            regions: Vec::new(),
            nodes: Vec::new(),
            movable: Vec::new(),
            cpus: Vec::new(),
            distances: Vec::new(),
            tuning: Vec::new(),
        };
        for (node, part) in self.parts.iter().enumerate() {
            let limit = self.limit_of(part, multiple)?;
            let (end, room_end) = (shape.bytes.saturating_add(part.bytes), shape.bytes.saturating_add(limit));
            if room_end > isize::MAX as u64 {
                return Err(too_large(room_end));
            }
            let frame = |bytes: u64| self.first_pfn.saturating_add(bytes >> shift);
            let node = u8::try_from(node).unwrap_or(u8::MAX);
            shape.regions.push(Region::usable(frame(shape.bytes), frame(end), node));
            if self.movable != 0 {
                let start = end.saturating_sub(self.movable).max(shape.bytes);
                shape.movable.push(PfnRange::new(frame(start), frame(end)));
            }
            if room_end > end {
                shape.regions.push(Region::possible(frame(end), frame(room_end), node));
            }
            shape.nodes.push(PfnRange::new(frame(shape.bytes), frame(room_end)));
            shape.bytes = room_end;
        }
        let mut runner = self.runner(shape.nodes.len().clamp(1, NodeId::LIMIT))?;
        if self.interrupts {
            runner.machine = runner.machine.with_interrupts();
        }
        shape.cpus = runner.machine.nodes().to_vec();
        shape.distances = self.distances();
        shape.tuning = self.tuning(&shape);
        Ok((shape, runner))
    }

    /// Checks a node's sizes; returns the bytes that it may have.
    fn limit_of(&self, part: &Part, multiple: u64) -> Result<u64, ArenaError> {
        let limit = self.limit.unwrap_or(part.bytes);
        let sizes = [part.bytes, self.movable, limit];
        if part.bytes == 0 {
            Err(ArenaError::Empty)
        } else if let Some(&bytes) = sizes.iter().find(|bytes| !bytes.is_multiple_of(multiple)) {
            Err(ArenaError::BadSize { bytes, multiple })
        } else if part.bytes > limit {
            Err(ArenaError::AboveLimit { bytes: part.bytes, limit })
        } else {
            Ok(limit)
        }
    }

    /// Makes the machine of an arena of `nodes` nodes.
    fn runner(&self, nodes: usize) -> Result<Runner, ArenaError> {
        let parallel = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let slots = self.cpus.unwrap_or_else(|| (2 * parallel() + 1).min(MOST_CPUS));
        // Checked before there is a list of them. With interrupts there are twice as many.
        let sides = if self.interrupts { 2 } else { 1 };
        if slots == 0 || slots > MOST_CPUS / sides {
            return Err(ArenaError::Boot(framewright::BootError::BadCpus));
        }
        let lease = || {
            let dealt: Vec<NodeId> = (0..slots).map(|cpu| NodeId((cpu % nodes) as u8)).collect();
            Native::new(&dealt)
        };
        match self.cpu_mode {
            CpuMode::Lease => Ok(Runner { machine: lease(), refused: None }),
            CpuMode::PerCpu => match Native::per_cpu(nodes) {
                Ok(machine) => Ok(Runner { machine, refused: None }),
                Err(why) if self.strict => Err(ArenaError::PerCpu(why)),
                Err(why) => Ok(Runner { machine: lease(), refused: Some(why) }),
            },
        }
    }

    /// The distances of the machine's nodes; empty if all are equally far.
    ///
    /// Known if each of the arena's nodes is placed on one of the machine's.
    fn distances(&self) -> Vec<u8> {
        let on_one = |part: &Part| match part.placement {
            Placement::Prefer(node) => Some(node),
            Placement::Bind(nodes) if nodes.len() == 1 => nodes.nth_cyclic(0),
            _ => None,
        };
        let nodes: Option<Vec<NodeId>> = self.parts.iter().map(on_one).collect();
        nodes.and_then(|nodes| distances(&nodes)).unwrap_or_default()
    }

    fn geometry(&self) -> Result<Geometry, ArenaError> {
        let largest_page = match self.backing {
            Backing::Hugetlb(page) => page.bytes(),
            Backing::Private | Backing::Memfd | Backing::File => 1 << LARGEST_BLOCK_SHIFT,
        };
        if !self.page.is_power_of_two() || !(page_size() as u64..=largest_page).contains(&self.page) {
            return Err(ArenaError::BadPage { bytes: self.page });
        }
        let page_shift = self.page.trailing_zeros() as u8;
        let limit = LARGEST_BLOCK_SHIFT - page_shift;
        let pageblock = PAGEBLOCK_SHIFT.saturating_sub(page_shift);
        let frames = self.parts.iter().map(|part| part.bytes >> page_shift).max().unwrap_or(0);
        let fitting = frames.checked_ilog2().ok_or(ArenaError::Empty)? as u8;
        // The largest block is the unit in which an arena grows and shrinks.
        let largest = if self.limit.is_some() { pageblock } else { fitting.clamp(pageblock, limit) };
        let max_order = self.max_order.unwrap_or(Order(largest));
        if max_order.0 > limit {
            return Err(ArenaError::BadMaxOrder { order: max_order, max: Order(limit) });
        }
        Ok(Geometry { page_shift, max_order, pageblock_order: Order(pageblock).min(max_order) })
    }

    /// Sizes of the per-CPU lists.
    ///
    /// Linux's formula shares out the memory below the low mark, so with marks of 0 it gives none.
    fn tuning(&self, shape: &Shape) -> Vec<Tuning> {
        let cpus = shape.cpus.len().max(1) as u64;
        let kinds = [ZoneKind::Normal, ZoneKind::Movable];
        // Nor does a zone Normal keep anything from requests that could have used Movable.
        let reserve = (self.min_free == 0).then_some([0; ZoneKind::COUNT]);
        let present = shape.regions.iter().filter(|region| region.present);
        let zones = present.flat_map(|region| kinds.map(|kind| (region, kind)));
        let sized = zones.map(|(region, kind)| {
            let frames = region.range.frames();
            let shared = (frames / 16 / cpus).min(PCP_HIGH);
            let size = PcpSize::compute(frames, shared.saturating_mul(cpus), cpus, shape.geometry.page_shift);
            let pcp = self.pcp.unwrap_or(size);
            Tuning { zone: ZoneIdx::of(region.node, kind), marks: None, reserve, pcp: Some(pcp) }
        });
        sized.collect()
    }

    /// The core's configuration.
    pub(super) fn config<'c>(&self, shape: &'c Shape) -> Config<'c> {
        Config {
            geometry: shape.geometry,
            dma_end: Pfn(0),
            dma32_end: Pfn(0),
            movable: &shape.movable,
            distances: &shape.distances,
            min_free_kbytes: Some(self.min_free >> 10),
            watermark_scale_factor: if self.min_free == 0 { 0 } else { 10 },
            tuning: &shape.tuning,
            mechanisms: self.mechanisms,
            ..Config::new(&shape.regions, &shape.cpus)
        }
    }
}

/// The error for a size beyond the address space.
pub(super) fn too_large(bytes: u64) -> ArenaError {
    ArenaError::TooLarge { bytes, max: isize::MAX as u64 }
}

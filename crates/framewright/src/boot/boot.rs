//! Boot: builds an allocator from a memory map.
//!
//! 1. The caller describes its memory ([`Config`]).
//! 2. It asks what the descriptors need ([`Layout`]).
//! 3. It provides that much memory as slices ([`Parts`]).
//! 4. It gets an allocator over them.
//!
//! All pageblocks learn their zone before the first block is freed, because merging looks across pageblocks.
//!
//! Cost: nothing is allocated here, and no managed memory is touched. Zeroed slices need no initialisation, and are
//! written only where blocks begin.

use crate::boot::config::{Config, Piece, Runs};
use crate::boot::layout::{Layout, grain_of};
use crate::boot::sizes::Sizes;
use crate::buddy::buddy::Place;
use crate::frame::cluster::{Cluster, ClusterRange, Clusters};
use crate::frame::frame::Frames;
use crate::frame::head::Head;
use crate::frame::map::{Map, Run};
use crate::frame::owned_pageblock::OwnedPageblocks;
use crate::frame::pageblock::Pageblock;
use crate::pcp::depot::Depots;
use crate::pcp::pcp::{Pcp, PcpPlan, SLOTS_IN_LINE};
use crate::pcp::pcp_guard::Pcps;
use crate::pcp::shard::{Magazine, Shard};
use crate::seam::compiled::Compiled;
use crate::seam::machine::{LockName, Machine, Ordering, Word};
use crate::shared::{Cpu, Shared};
use crate::stat::node_stat::{NodeDiffs, NodeStat, NodeStats};
use crate::stat::vmstat::{GlobalEvents, ZoneEvent};
use crate::stat::zone_diffs::ZoneDiffs;
use crate::stat::zone_stat::Stats;
use crate::sync::smp_list::Link;
use crate::types::error::BootError;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, NodeId, Pfn, PfnRange, ZoneIdx, ZoneKind};
use crate::zone::section_init;
use crate::zone::zone::Zone;
use crate::zonelist::node_states::NodeStates;
use crate::zonelist::world::World;

/// The memory of the allocator's own data.
///
/// Words are zeroed, records have their default values, and the lengths come from [`Layout`].
pub struct Parts<'a, M: Machine> {
    /// From frame numbers to descriptors: 8 bytes for each largest block of the span.
    pub sections: &'a mut [u64],
    /// From descriptors to frame numbers: 8 bytes for each largest block with memory.
    pub bases: &'a mut [u64],
    /// Stretches of memory in which no largest block is missing.
    pub runs: &'a mut [Run],
    /// State words.
    pub states: &'a mut [M::U64],
    /// Neighbours on free lists.
    pub links: &'a mut [Link<M>],
    /// Head bytes.
    pub heads: &'a mut [M::U8],
    /// Pageblock words.
    pub pageblocks: &'a mut [M::U32],
    /// Zones.
    pub zones: &'a mut [Zone<M>],
    /// For each node, zones in the order they are tried.
    pub zonelists: &'a mut [ZoneIdx],
    /// CPUs.
    pub cpus: &'a mut [Cpu<M>],
    /// Per-CPU lists.
    pub pcps: &'a mut [Pcp<M>],
    /// Entries of the per-CPU lists.
    pub slots: &'a mut [M::U32],
    /// Parts of the zones' depots.
    pub shards: &'a mut [Shard<M>],
    /// Magazines of the depots; only those that were ever used are touched.
    pub magazines: &'a mut [Magazine<M>],
    /// Locks of ranges of frames, where the free path takes them.
    pub range_locks: &'a mut [M::U32],
    /// The cluster of each frame, where refills take clusters.
    pub cluster_of: &'a mut [M::U32],
    /// Clusters.
    pub clusters: &'a mut [Cluster<M>],
    /// Owners of pageblocks, where CPUs own some.
    pub owners: &'a mut [M::U32],
    /// Free frames of owned pageblocks: a bit for each frame.
    pub owned: &'a mut [M::U64],
    /// Hints to the owners that such frames are free.
    pub hints: &'a mut [M::U32],
    /// Counts of zones that CPUs keep, where the mechanisms say so.
    pub diffs: &'a mut [ZoneDiffs<M>],
    /// The embedder's counters of nodes, if there are any.
    pub node_stats: &'a mut [NodeStat<M>],
    /// Counts of nodes that CPUs keep, where the mechanisms say so.
    pub node_diffs: &'a mut [NodeDiffs<M>],
}

impl<M: Machine> Parts<'_, M> {
    /// Cuts each part to the length that the layout says.
    fn cut(self, layout: &Layout) -> Result<Self, BootError> {
        Ok(Parts {
            sections: cut("sections", self.sections, layout.sections)?,
            bases: cut("bases", self.bases, layout.bases)?,
            runs: cut("runs", self.runs, layout.runs)?,
            states: cut("states", self.states, layout.frames)?,
            links: cut("links", self.links, layout.frames)?,
            heads: cut("heads", self.heads, layout.frames)?,
            pageblocks: cut("pageblocks", self.pageblocks, layout.pageblocks)?,
            zones: cut("zones", self.zones, layout.zones)?,
            zonelists: cut("zonelists", self.zonelists, layout.zonelists)?,
            cpus: cut("cpus", self.cpus, layout.cpus)?,
            pcps: cut("pcps", self.pcps, layout.pcps)?,
            slots: cut("slots", self.slots, layout.slots)?,
            shards: cut_if(M::MAY_STORE, "shards", self.shards, layout.shards)?,
            magazines: cut_if(M::MAY_STORE, "magazines", self.magazines, layout.magazines)?,
            range_locks: cut_if(M::MAY_LOCK_RANGES, "range_locks", self.range_locks, layout.range_locks)?,
            cluster_of: cut_if(M::MAY_CLUSTER, "cluster_of", self.cluster_of, layout.cluster_of)?,
            clusters: cut_if(M::MAY_CLUSTER, "clusters", self.clusters, layout.clusters)?,
            owners: cut_if(M::MAY_OWN, "owners", self.owners, layout.owners)?,
            owned: cut_if(M::MAY_OWN, "owned", self.owned, layout.owned)?,
            hints: cut_if(M::MAY_OWN, "hints", self.hints, layout.hints)?,
            diffs: cut_if(M::MAY_KEEP, "diffs", self.diffs, layout.diffs)?,
            node_stats: cut("node_stats", self.node_stats, layout.node_stats)?,
            node_diffs: cut_if(M::MAY_KEEP, "node_diffs", self.node_diffs, layout.node_diffs)?,
        })
    }
}

impl<M: Machine> Parts<'_, M> {
    /// Zeroes the descriptors of frames and pageblocks, unless they are zeroed.
    ///
    /// With `is_lazy`, states and links are zeroed when their sections are used.
    fn clear(&mut self, config: &Config<'_>, is_lazy: bool) {
        if config.is_zeroed {
            return;
        }
        self.heads.fill_with(|| Word::new(0));
        self.pageblocks.fill_with(|| Word::new(0));
        if !is_lazy {
            self.states.fill_with(|| Word::new(0));
            self.links.fill_with(Link::default);
        }
    }
}

fn cut<'a, T>(part: &'static str, slice: &'a mut [T], needed: usize) -> Result<&'a mut [T], BootError> {
    let given = slice.len();
    slice.get_mut(..needed).ok_or(BootError::TooShort { part, needed, given })
}

/// Like [`cut`], for a part that only some mechanisms need.
#[inline(always)]
fn cut_if<'a, T>(
    may_be: bool,
    part: &'static str,
    slice: &'a mut [T],
    needed: usize,
) -> Result<&'a mut [T], BootError> {
    if may_be { cut(part, slice, needed) } else { Ok(&mut []) }
}

/// Builds the world over the caller's memory and frees all usable frames to it.
pub(crate) fn boot<'a, M: Machine>(
    machine: M,
    config: &Config<'_>,
    parts: Parts<'a, M>,
) -> Result<World<'a, M>, BootError> {
    let config = &Sizes::<M>::of(config);
    let layout = Layout::compute(config)?;
    let mut parts = parts.cut(&layout)?;
    let has_fast_path = has_fast_path(&machine, config)?;
    let is_lazy = M::FEATURES.section_init && (leaves_sections(&machine, config) || config.may_grow());
    parts.clear(config, is_lazy);
    place_runs(config, parts.runs, layout.frames as u32);
    place_records(config, &mut parts, has_fast_path);
    let frames = Frames {
        geometry: config.geometry,
        map: Map::new(grain_of(config), config.geometry.max_order, parts.sections, parts.bases, parts.runs),
        states: parts.states,
        links: parts.links,
        heads: parts.heads,
        pageblocks: parts.pageblocks,
        owned: OwnedPageblocks::new(
            parts.owners,
            parts.owned,
            parts.hints,
            layout.zones,
            config.geometry.pageblock_order,
        ),
        lazy: is_lazy,
        dirty: is_lazy && !config.is_zeroed,
    };
    let world = World {
        shared: Shared {
            machine,
            chosen: *config.mechanisms(),
            frames,
            cpus: parts.cpus,
            events: GlobalEvents::default(),
            stats: Stats::new(parts.diffs, layout.zones),
            node_stats: NodeStats::new(parts.node_stats, parts.node_diffs),
            range_locks: parts.range_locks,
            clusters: Clusters { of: parts.cluster_of, all: parts.clusters },
        },
        zones: parts.zones,
        pcps: Pcps {
            records: parts.pcps,
            slots: parts.slots,
            depots: depots(config, &layout, parts.shards, parts.magazines, parts.slots),
            zones: layout.zones,
        },
        zonelists: parts.zonelists,
        nodes: config.nodes(),
        node_states: NodeStates::default(),
        min_free_frames: config.min_free_frames(config.managed),
        scale: config.watermark_scale_factor,
        zone_counters: config.zone_counters,
        node_counters: config.node_counters,
    };
    if world.pinned(|_| ()).is_none() {
        return Err(BootError::NoCpu);
    }
    populate(config, &world);
    Ok(world)
}

/// Writes to each record what is fixed in it.
fn place_records<M: Machine>(config: &Sizes<'_, M>, parts: &mut Parts<'_, M>, has_fast_path: bool) {
    parts.diffs.iter_mut().for_each(|diffs| diffs.place(config.mechanisms()));
    place_zones(config, parts.zones, parts.pcps, has_fast_path);
    place_zonelists(config, parts.zonelists);
    if M::MAY_STORE {
        place_shards(config, parts.shards);
    }
    place_cpus(config, parts.cpus, parts.zonelists, has_fast_path);
}

/// Returns whether memory may be freed as it is, without a pattern in it.
fn is_blank<M: Machine>(machine: &M, config: &Sizes<'_, M>) -> bool {
    !config.mechanisms().is_hardened() || machine.starts_zeroed()
}

/// Returns whether sections are initialised when they are used.
fn leaves_sections<M: Machine>(machine: &M, config: &Sizes<'_, M>) -> bool {
    config.is_lazy() && is_blank(machine, config)
}

/// Frees all memory to its zones, and computes what depends on their sizes.
fn populate<M: Machine>(config: &Sizes<'_, M>, world: &World<'_, M>) {
    tag_pageblocks(config, world);
    if world.shared.frames.is_lazy() && leaves_sections(&world.shared.machine, config) {
        config.each_piece(&mut |piece| leave_uninit(config, world, piece));
    }
    if world.shared.frames.is_dirty() {
        clear_others(world);
    }
    let blank = is_blank(&world.shared.machine, config);
    config.each_piece(&mut |piece| fill(world, piece, blank));
    world.node_states.refresh(world.zones);
    world.refresh_thresholds();
}

/// Builds the depots; their entries come after all others.
fn depots<'a, M: Machine>(
    config: &Sizes<'_, M>,
    layout: &Layout,
    shards: &'a [Shard<M>],
    magazines: &'a [Magazine<M>],
    slots: &'a [M::U32],
) -> Depots<'a, M> {
    if !M::MAY_STORE {
        return Depots { shards, magazines, each: 0, base: 0, entries: 0, slots };
    }
    let entries = config.magazine_entries();
    let base = layout.slots.saturating_sub(layout.magazines.saturating_mul(entries as usize)) as u32;
    Depots { shards, magazines, each: config.shards(), base, entries, slots }
}

/// Places the runs of the map, up to the frames that have descriptors; all others are holes.
fn place_runs(config: &Config<'_>, runs: &mut [Run], described: u32) {
    let shift = config.geometry.max_order.0;
    let mut first = 0_u32;
    for (run, (start, end)) in runs.iter_mut().zip(Runs::of(config)) {
        let left = described.saturating_sub(first);
        let frames = (end.saturating_sub(start) << shift).min(left.into()) as u32;
        *run = Run { pfn: Pfn(start << shift), first, frames };
        first = first.saturating_add(frames);
    }
}

fn place_shards<M: Machine>(config: &Sizes<'_, M>, shards: &mut [Shard<M>]) {
    let (each, entries) = (config.shards(), config.magazine_entries());
    let mut next = 0_u32;
    for (i, zone) in config.zones().enumerate() {
        let magazines = config.magazines_of(zone, entries) as u32;
        let start = i.saturating_mul(each);
        for (number, shard) in (0..).zip(shards.get_mut(start..start.saturating_add(each)).unwrap_or_default()) {
            shard.place(LockName::depot(zone, number), next, magazines);
            next = next.saturating_add(magazines);
        }
    }
}

/// Writes to each CPU its node, and the zones of its fast path, if any.
fn place_cpus<M: Machine>(config: &Sizes<'_, M>, cpus: &mut [Cpu<M>], zonelists: &[ZoneIdx], has_fast_path: bool) {
    let length = config.nodes().saturating_mul(ZoneKind::COUNT);
    for (cpu, &node) in cpus.iter_mut().zip(config.cpus.iter().cycle()) {
        if !M::MAY_BE_FAST && !M::MAY_TAKE_MARKED {
            cpu.node = node;
            continue;
        }
        let list = zonelists.iter().skip(node.index().saturating_mul(length)).take(length);
        let first = |kind| list.clone().copied().find(|&zone| zone != ZoneIdx::NONE && zone.kind() <= kind);
        let near = ZoneKind::ALL.map(|kind| first(kind).unwrap_or(ZoneIdx::NONE));
        (cpu.node, cpu.has_fast_path, cpu.near_zones) = (node, has_fast_path, near);
        cpu.fast_zones = if has_fast_path { near } else { [ZoneIdx::NONE; ZoneKind::COUNT] };
    }
}

/// Returns whether per-CPU lists serve requests and accept frees without further checks.
///
/// They do if the mechanisms allow it, and the machine's fences and interrupts.
fn has_fast_path<M: Machine>(machine: &M, config: &Sizes<'_, M>) -> Result<bool, BootError> {
    if config.mechanisms().needs_interrupts_apart() && !machine.keeps_interrupts_apart() {
        return Err(BootError::Interrupts);
    }
    Ok(machine.is_asymmetric() && config.mechanisms().allows_fast_path())
}

fn place_zones<M: Machine>(config: &Sizes<'_, M>, zones: &mut [Zone<M>], pcps: &mut [Pcp<M>], has_fast_path: bool) {
    let cpus = config.records();
    let count = config.nodes().saturating_mul(ZoneKind::COUNT);
    let mut slot = SLOTS_IN_LINE;
    let mut cluster = 0_u32;
    for (idx, zone) in config.zones().zip(zones.iter_mut()) {
        let size = config.size_of(idx);
        zone.idx = idx;
        zone.span = size.span;
        zone.reserve = config.reserve_of(idx);
        zone.stat.place(config.zone_counters.len(), config.mechanisms());
        zone.fixed_marks = config.tuning_of(idx).is_some_and(|tuning| tuning.marks.is_some());
        zone.stat.set_marks(config.marks_of(idx, size.managed, config.managed));
        if size.present == 0 {
            continue;
        }
        let rules = config.mechanisms().list_rules(has_fast_path);
        let plan = PcpPlan { rules, ..config.pcp_plan(idx, size) };
        zone.pcp = plan.size;
        let own = ClusterRange { first: cluster, count: config.clusters_of(idx) };
        zone.clusters.place(own, zone.pcp.batch);
        cluster = cluster.saturating_add(own.count);
        for cpu in 0..cpus {
            if let Some(pcp) = pcps.get_mut(cpu.saturating_mul(count).saturating_add(idx.index())) {
                slot = pcp.place(&plan, slot);
            }
        }
    }
}

/// Makes each node's list of zones.
///
/// Its own zones come first, then those of the other nodes by distance; of each node, the highest kind comes first. At
/// equal distance the next higher number comes first, cyclically. So the neighbours of a full node do not all use the
/// same node. Zones without memory are left out. The unused rest of the list names no zone.
fn place_zonelists<M: Machine>(config: &Sizes<'_, M>, zonelists: &mut [ZoneIdx]) {
    let nodes = config.nodes();
    let length = nodes.saturating_mul(ZoneKind::COUNT);
    zonelists.fill(ZoneIdx::NONE);
    for (from, list) in zonelists.chunks_exact_mut(length.max(1)).enumerate() {
        // Keys differ, so the next node is the least above the last.
        let key = |to: usize| {
            let distance = config.distances.get(from.saturating_mul(nodes).saturating_add(to)).copied().unwrap_or(10);
            let turn = to.saturating_add(nodes).saturating_sub(from).checked_rem(nodes).unwrap_or(0);
            u64::from(to != from) << 48 | u64::from(distance) << 32 | (turn as u64) << 16 | to as u64
        };
        let (mut last, mut entries) = (None, list.iter_mut());
        for _ in 0..nodes {
            last = (0..nodes).map(key).filter(|next| last.is_none_or(|last| *next > last)).min();
            let node = NodeId(last.unwrap_or(0) as u8);
            for kind in ZoneKind::ALL.into_iter().rev() {
                let zone = ZoneIdx::of(node, kind);
                if config.size_of(zone).present != 0
                    && let Some(entry) = entries.next()
                {
                    *entry = zone;
                }
            }
        }
    }
}

/// Writes to every pageblock its zone and type.
fn tag_pageblocks<M: Machine>(config: &Sizes<'_, M>, world: &World<'_, M>) {
    let frames = &world.shared.frames;
    let mask = config.geometry.pageblock_order.mask();
    config.each_piece(&mut |piece| {
        let mut pfn = piece.range.start;
        while pfn < piece.range.end {
            let here = PfnRange { start: pfn, end: Pfn(pfn.0 | mask).add(1) };
            let cma = M::FEATURES.mobility && config.cma.iter().any(|range| range.intersect(here) == here);
            let migratetype = if cma { MigrateType::Cma } else { MigrateType::Movable };
            if let Some(frame) = frames.frame(pfn).filter(|&frame| frames.pageblock(frame).zone().is_none()) {
                let is_absent = M::FEATURES.section_init && !piece.present;
                let present = Pageblock::new(piece.zone, migratetype);
                frames.set_pageblock(frame, if is_absent { Pageblock::absent(piece.zone) } else { present });
            }
            pfn = here.end;
        }
    });
}

/// Marks the whole sections of a piece as uninitialised, unless they have CMA memory.
///
/// Their frames count as free.
fn leave_uninit<M: Machine>(config: &Config<'_>, world: &World<'_, M>, piece: Piece) {
    let (frames, max_order) = (&world.shared.frames, world.max_order());
    let mut left = 0_u32;
    for (pfn, order) in piece.range.blocks(max_order) {
        let is_left =
            order == max_order && piece.usable && !piece.allocated && !config.has_cma(PfnRange::block(pfn, order));
        if let Some(frame) = frames.frame(pfn).filter(|_| is_left) {
            frames.mark_uninit(frame, true);
            left = left.saturating_add(1);
        }
    }
    let Some(zone) = world.zone(piece.zone).filter(|_| left != 0) else { return };
    world.pinned(|cx| section_init::leave(zone, &zone.lock(cx).buddy(), Frame(0), left));
}

/// Zeroes the states and links of all sections that boot initialises.
fn clear_others<M: Machine>(world: &World<'_, M>) {
    let frames = &world.shared.frames;
    let sections = (0..frames.states.len()).step_by(world.max_order().frames().max(1) as usize);
    let initialised = sections.map(|index| Frame(index as u32)).filter(|&section| !frames.is_uninit(section));
    initialised.for_each(|section| frames.clear_section(section));
}

/// Frees a piece's blocks, or withholds them, or leaves them to their owners.
///
/// Freed memory is filled first, unless it is `blank`. Otherwise the check before its first use would take its old
/// contents for a write after a free.
fn fill<M: Machine>(world: &World<'_, M>, piece: Piece, blank: bool) {
    let frames = &world.shared.frames;
    let pageblock_order = frames.geometry.pageblock_order;
    for (pfn, order) in piece.range.blocks(world.max_order()) {
        let Some(frame) = frames.frame(pfn).filter(|&frame| !frames.is_uninit(frame)) else { continue };
        // A block above the pageblock order starts a pageblock of its own zone, so one look is enough for all of it.
        let owner = frames.pageblock(frame).zone();
        debug_assert!(order < pageblock_order || owner == Some(piece.zone));
        let Some(zone) = owner.and_then(|idx| world.zone(idx)) else { continue };
        let is_freed = piece.usable && !piece.allocated;
        if is_freed && !blank && owner == Some(piece.zone) {
            world.fill_freed(frame, order);
        }
        world.pinned(|cx| {
            let guard = zone.lock(cx);
            if owner != Some(piece.zone) {
                // Part of a pageblock that belongs to another zone: treated as a hole.
                return;
            }
            zone.present.add(order.frames(), Ordering::Relaxed);
            if piece.usable {
                zone.managed.add(order.frames(), Ordering::Relaxed);
                if is_freed {
                    guard.free(frame, order, Place::Last);
                } else {
                    // Nothing has started inside the block, so its states say that it is not free.
                    frames.set_head(frame, Head::allocated(order, false));
                    zone.events.add(ZoneEvent::AllocFrames, order.frames());
                }
            } else {
                let _ = frames.change(frame, |state| state.retire(order));
                zone.offline.add(order.frames(), Ordering::Relaxed);
            }
        });
    }
}

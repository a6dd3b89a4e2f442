//! Boots an allocator in the memory of a simulated machine.

use framewright::machine::Word;
use framewright::mechanisms::PcpProtection;
use framewright::units::{NodeId, ZoneIdx};
use framewright::{
    Allocator, BootError, Cluster, Config, Cpu, Layout, Link, Magazine, Mechanisms, NodeDiffs, NodeStat, Parts, Pcp,
    Run, Shard, Zone, ZoneDiffs,
};

use crate::engine::sim::Sim;
use crate::memory::arena::{Arena, Packing};

/// How large a frame's descriptor is on the simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Descriptors {
    /// As on the host: state words, links and head bytes in arrays of their own, 17 bytes in all.
    #[default]
    Compact,
    /// All descriptors of a frame in a line of their own, as in Linux's `struct page`.
    Line,
}

const FIELDS: (bool, Packing) = (true, Packing::Natural);
const ARRAY: (bool, Packing) = (false, Packing::Natural);

/// Returns the nodes of the CPUs to boot an allocator with, and whether interrupts have CPUs of their own.
///
/// Where there are interrupts and the mechanisms give them lists of their own, each CPU is there a second time for its
/// interrupts. The machine must be told ([`crate::run::Simulation::keep_interrupts_apart`]).
pub(crate) fn contexts(cpus: &[NodeId], mechanisms: &Mechanisms, interrupts: bool) -> (Vec<NodeId>, bool) {
    let apart = interrupts && mechanisms.pcp_protection == PcpProtection::OwnLists;
    (cpus.repeat(if apart { 2 } else { 1 }), apart)
}

/// Makes an arena with room for an allocator of this configuration and `more` bytes.
///
/// # Errors
/// The configuration is wrong.
pub fn arena_for(config: &Config<'_>, more: usize) -> Result<Arena, BootError> {
    let layout = Layout::of(config)?;
    // Each region is rounded up, and `Layout::bytes` knows nothing of the allocator itself.
    Ok(Arena::new(layout.bytes::<Sim>() + size_of::<Allocator<'_, Sim>>() + 23 * Arena::bytes_of::<u8>(1) + more))
}

/// Boots an allocator whose words are all in the arena, each on its owner's node.
///
/// # Errors
/// The configuration is wrong.
pub fn boot<'a>(
    arena: &'a Arena,
    config: &Config<'_>,
    descriptors: Descriptors,
) -> Result<&'a Allocator<'a, Sim>, BootError> {
    let layout = Layout::of(config)?;
    let states = arena.place("frame states", (false, packing(descriptors, 8)), layout.frames, |_| Word::new(0));
    let first = arena.number_of("frame states").unwrap_or(0);
    let over = |bytes| match descriptors {
        Descriptors::Compact => Packing::Natural,
        Descriptors::Line => Packing::Over(first, bytes),
    };
    let parts = Parts {
        states,
        links: arena
            .place("frame links", (false, over(size_of::<Link<Sim>>() as u32)), layout.frames, |_| Link::default()),
        heads: arena.place("frame heads", (false, over(1)), layout.frames, |_| Word::new(0)),
        sections: arena.place("sections", ARRAY, layout.sections, |_| 0),
        bases: arena.place("bases", ARRAY, layout.bases, |_| 0),
        runs: arena.place("runs", ARRAY, layout.runs, |_| Run::default()),
        pageblocks: arena.place("pageblocks", ARRAY, layout.pageblocks, |_| Word::new(0)),
        zones: arena.place("zone", FIELDS, layout.zones, |_| Zone::default()),
        zonelists: arena.place("zonelists", ARRAY, layout.zonelists, |_| ZoneIdx::NONE),
        cpus: arena.place("cpu", FIELDS, layout.cpus, |_| Cpu::default()),
        pcps: arena.place("pcp", FIELDS, layout.pcps, |_| Pcp::default()),
        slots: arena.place("slots", ARRAY, layout.slots, |_| Word::new(0)),
        shards: arena.place("shard", FIELDS, layout.shards, |_| Shard::default()),
        magazines: arena.place("magazines", ARRAY, layout.magazines, |_| Magazine::default()),
        range_locks: arena.place("range locks", ARRAY, layout.range_locks, |_| Word::new(0)),
        cluster_of: arena.place("clusters of frames", (false, over(4)), layout.cluster_of, |_| Word::new(0)),
        clusters: arena.place("clusters", ARRAY, layout.clusters, |_| Cluster::default()),
        owners: arena.place("owners", ARRAY, layout.owners, |_| Word::new(0)),
        owned: arena.place("owned", ARRAY, layout.owned, |_| Word::new(0)),
        hints: arena.place("hints", ARRAY, layout.hints, |_| Word::new(0)),
        diffs: arena.place("diffs", ARRAY, layout.diffs, |_| ZoneDiffs::default()),
        node_stats: arena.place("node stats", ARRAY, layout.node_stats, |_| NodeStat::default()),
        node_diffs: arena.place("node diffs", ARRAY, layout.node_diffs, |_| NodeDiffs::default()),
    };
    let allocator = Allocator::boot(Sim, config, parts)?;
    let mut allocator = Some(allocator);
    let placed = arena.place("allocator", FIELDS, 1, |_| allocator.take().expect("one element is made once"));
    name(arena, &placed[0]);
    Ok(&placed[0])
}

fn packing(descriptors: Descriptors, bytes: u32) -> Packing {
    match descriptors {
        Descriptors::Compact => Packing::Natural,
        Descriptors::Line => Packing::Spread(bytes),
    }
}

/// Names every word, and sets its node.
fn name(arena: &Arena, allocator: &Allocator<'_, Sim>) {
    allocator.fields(&mut |field| {
        let bytes = field.size * field.count;
        let home = field.node.map(|node| node.index());
        arena.name(field.address, bytes, (field.record.to_string(), field.name.to_string()), home);
    });
}

//! The allocator's own data by name and place: which word of which record, or which array, an address belongs to.
//!
//! A tool that observes accesses, such as a simulator, needs this: [`Allocator::fields`] names every word there is. The
//! allocator itself does not use it.

use core::fmt;
use core::ops::Range;

use crate::api::allocator::Allocator;
use crate::frame::owned_pageblock::{self, OwnedPageblocks};
use crate::pcp::ring::SlotRange;
use crate::seam::field::{Field, Record, Words};
use crate::seam::machine::Machine;
use crate::types::units::{Frame, NodeId, ZoneIdx};

/// Displays a zone, as the names of records do.
struct OfZone(ZoneIdx);

impl fmt::Display for OfZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {} of node {}", self.0.kind(), self.0.node().0)
    }
}

/// Displays a node, as the names of records do.
struct OfNode(NodeId);

impl fmt::Display for OfNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0.0)
    }
}

/// What the fields of one record have in common.
struct RecordLabel<'n> {
    part: &'static str,
    index: usize,
    record: fmt::Arguments<'n>,
    node: Option<NodeId>,
}

impl RecordLabel<'_> {
    /// Passes each word that `words` names to `visit`.
    fn tell(self, visit: &mut dyn FnMut(Field<'_>), words: impl FnOnce(&mut Words<'_>)) {
        let RecordLabel { part, index, record, node } = self;
        words(&mut |name, word| {
            let (address, size) = word.place();
            visit(Field { part, index, record, name, address, size, count: 1, node });
        });
    }

    /// Passes the elements of `array` within `stretch` to `visit`, as far as they exist.
    fn tell_stretch<T>(
        self,
        visit: &mut dyn FnMut(Field<'_>),
        array: &[T],
        stretch: Range<usize>,
        name: fmt::Arguments<'_>,
    ) {
        let RecordLabel { part, index, record, node } = self;
        let stretch = array.get(stretch.start..stretch.end.min(array.len())).unwrap_or_default();
        if !stretch.is_empty() {
            let (address, size) = (stretch.as_ptr().addr(), size_of::<T>());
            visit(Field { part, index, record, name, address, size, count: stretch.len(), node });
        }
    }
}

impl<M: Machine> Allocator<'_, M> {
    /// Calls `visit` with every word and array of words of the allocator.
    ///
    /// The order is unspecified, and no two overlap. Arrays are passed in stretches of one node each. For descriptors,
    /// the node is that of the frames' zone. For entries of per-CPU lists, it is that of the CPU. For magazines, it is
    /// that of the shard's first CPU. Fields that are no words are fixed at boot, and left out.
    pub fn fields(&self, visit: &mut dyn FnMut(Field<'_>)) {
        let world = self.world();
        for zone in world.zones {
            let (index, of) = (zone.idx.index(), OfZone(zone.idx));
            let record = RecordLabel { part: "zone", index, record: format_args!("{of}"), node: Some(zone.node()) };
            record.tell(visit, |words| zone.words(words));
        }
        for (index, cpu) in world.shared.cpus.iter().enumerate() {
            let record = format_args!("CPU {index}");
            RecordLabel { part: "cpu", index, record, node: Some(cpu.node) }.tell(visit, |words| cpu.words(words));
        }
        let record = format_args!("counters of slow paths");
        RecordLabel { part: "events", index: 0, record, node: None }
            .tell(visit, |words| world.shared.events.words(words));
        let record = format_args!("states of nodes");
        RecordLabel { part: "node states", index: 0, record, node: None }
            .tell(visit, |words| world.node_states.words(words));
        let record = format_args!("statistics of all zones");
        RecordLabel { part: "stats", index: 0, record, node: None }
            .tell(visit, |words| world.shared.stats.words(words));
        for (cpu, zone, diffs) in world.shared.stats.diffs.every() {
            let (index, of) = (cpu.index(), OfZone(ZoneIdx(zone as u16)));
            let record = format_args!("counts of CPU {index}, {of}");
            let node = self.node_of(index);
            RecordLabel { part: "diffs", index, record, node }.tell(visit, |words| diffs.words(words));
        }
        self.counters_of_nodes(visit);
        self.lists_of_cpus(visit);
        self.depots(visit);
        self.descriptors(visit);
    }

    fn node_of(&self, cpu: usize) -> Option<NodeId> {
        self.world().shared.cpus.get(cpu).map(|cpu| cpu.node)
    }

    fn counters_of_nodes(&self, visit: &mut dyn FnMut(Field<'_>)) {
        let stats = &self.world().shared.node_stats;
        for (index, (node, told)) in stats.every_told().enumerate() {
            let of = node.map(OfNode);
            let of: &dyn fmt::Display = of.as_ref().map_or(&"all nodes", |of| of);
            let record = format_args!("counters of {of}");
            RecordLabel { part: "node stats", index, record, node }.tell(visit, |words| told.words(words));
        }
        for (cpu, node, diffs) in stats.every_kept() {
            let (index, here) = (cpu.index(), self.node_of(cpu.index()));
            let record = format_args!("counts of CPU {index}, {}", OfNode(node));
            RecordLabel { part: "node diffs", index, record, node: here }.tell(visit, |words| diffs.words(words));
        }
    }

    fn lists_of_cpus(&self, visit: &mut dyn FnMut(Field<'_>)) {
        let pcps = &self.world().pcps;
        for (index, pcp) in pcps.records.iter().enumerate() {
            let (cpu, zone) = (index.checked_div(pcps.zones), index.checked_rem(pcps.zones));
            let (Some(cpu), Some(zone)) = (cpu, zone) else { continue };
            let (node, of) = (self.node_of(cpu), OfZone(ZoneIdx(zone as u16)));
            let record = format_args!("lists of CPU {cpu}, {of}");
            RecordLabel { part: "pcp", index, record, node }.tell(visit, |words| pcp.words(words));
            if let Some(SlotRange { start, end }) = pcp.own_slots() {
                let slots = start as usize..end as usize;
                RecordLabel { part: "slots", index, record, node }.tell_stretch(
                    visit,
                    pcps.slots,
                    slots,
                    format_args!("entry"),
                );
            }
        }
    }

    fn depots(&self, visit: &mut dyn FnMut(Field<'_>)) {
        let depots = &self.world().pcps.depots;
        for (index, shard) in depots.shards.iter().enumerate() {
            let (zone, own) = (index.checked_div(depots.each), index.checked_rem(depots.each));
            let (Some(zone), Some(own)) = (zone, own) else { continue };
            let (node, of) = (self.node_of(own), OfZone(ZoneIdx(zone as u16)));
            let record = format_args!("depot shard {own}, {of}");
            RecordLabel { part: "shard", index, record, node }.tell(visit, |words| shard.words(words));
            let (first, count) = shard.own_magazines();
            let end = first.saturating_add(count);
            let magazines = RecordLabel { part: "magazines", index, record, node };
            magazines.tell_stretch(visit, depots.magazines, first as usize..end as usize, format_args!("magazine"));
            let entries = depots.start_of(first) as usize..depots.start_of(end) as usize;
            let record = RecordLabel { part: "magazine slots", index, record, node };
            record.tell_stretch(visit, depots.slots, entries, format_args!("entry"));
        }
    }

    /// Passes head bytes, states, links and pageblock words, in stretches of frames of one zone.
    fn descriptors(&self, visit: &mut dyn FnMut(Field<'_>)) {
        let frames = &self.world().shared.frames;
        let order = frames.geometry.pageblock_order.0;
        let zone_at = |pageblock: usize| frames.pageblock(Frame((pageblock as u32) << order)).zone();
        let (mut start, mut index) = (0, 0);
        while start < frames.pageblocks.len() {
            let zone = zone_at(start);
            let same = (start..frames.pageblocks.len()).take_while(|&pageblock| zone_at(pageblock) == zone);
            let end = start.saturating_add(same.count().max(1));
            let of = zone.map(OfZone);
            let of: &dyn fmt::Display = of.as_ref().map_or(&"no zone", |of| of);
            let record = format_args!("frames of {of}");
            let stretch = |part| RecordLabel { part, index, record, node: zone.map(ZoneIdx::node) };
            let by_frame = || start << order..end << order;
            stretch("heads").tell_stretch(visit, frames.heads, by_frame(), format_args!("head"));
            stretch("states").tell_stretch(visit, frames.states, by_frame(), format_args!("state"));
            stretch("links").tell_stretch(visit, frames.links, by_frame(), format_args!("link"));
            let OwnedPageblocks { owners, free, pageblock_order, .. } = frames.owned;
            stretch("owners").tell_stretch(visit, owners, start..end, format_args!("owner"));
            let words = owned_pageblock::words_of(pageblock_order);
            let by_word = start.saturating_mul(words)..end.saturating_mul(words);
            stretch("owned").tell_stretch(visit, free, by_word, format_args!("free frames"));
            stretch("pageblocks").tell_stretch(visit, frames.pageblocks, start..end, format_args!("pageblock"));
            (start, index) = (end, index.saturating_add(1));
        }
    }
}

//! What the fields are that a reason names: a line for each, and links to it.
//!
//! A reason names the words that CPUs fetched and queued for most, as the allocator's records call them
//! (`stat.nr_free_cma`). A reader of a page does not know these records. So the page has a list of the fields that its
//! reasons name, and each name leads to its line. The lines are by the begin of a name, because names go on with an
//! order or a mobility. A test asks for the name of every word that a run reports.

use std::collections::BTreeSet;

use serde::Serialize;

use super::why::MOST;

/// Fields by the begin of their names, and what they are. Of several, the longest begin is meant.
const MEANINGS: &[(&str, &str)] = &[
    ("+ ", "words of the workload's own LRU totals: pages on the LRU lists"),
    ("ExtFrag", "how many blocks were served from another mobility's lists"),
    ("LRU pages", "the workload's own records of pages on LRU lists"),
    ("aside.", "events of a CPU in a zone that its per-CPU lists do not count"),
    ("arrived", "the workload's own barrier: processes that have reached it"),
    ("rounds", "the workload's own barrier: how often all processes have reached it"),
    ("bases", "translation of frame numbers: where each section's descriptors begin"),
    ("boxes", "the workload's own boxes, in which one process leaves pages for another"),
    ("busy", "mark of the CPU that uses its own per-CPU lists"),
    ("claim", "mark of a CPU that takes from another CPU's lists"),
    ("clusters of frames", "the cluster of each frame: a run of pages on a free list that leaves or enters it as one"),
    ("clusters.", "a zone's clusters: how many are unused, were ever used, or are being cut"),
    ("clusters", "records of clusters: runs of pages on a free list that leave or enter it as one"),
    ("compaction.", "back-off of compaction: when the next search begins, and where"),
    ("count.isolated", "free frames that were isolated"),
    ("count.owned", "pageblocks of a zone that CPUs own"),
    ("count.quarantined", "frames whose descriptor was found damaged"),
    ("count.skipped", "free blocks that were not checked for a merge"),
    ("count", "frames on a CPU's lists of a zone"),
    ("counting", "whether NUMA counters are on"),
    ("deferred", "list of blocks that were freed while the zone lock was taken"),
    ("diffs", "a CPU's counts of a zone that were not yet added to the shared counters"),
    ("empty", "stack of a depot's empty magazines"),
    ("events.", "events of a CPU in a zone, counted with its per-CPU lists"),
    ("first", "first page of an LRU list of the workload"),
    ("frame heads", "a byte of each frame: whether a block begins there, and its order"),
    ("frame links", "the links of free blocks in their lists"),
    ("frame states", "a word of each frame: what the block that begins there is used for"),
    ("frames", "frames in the magazines of a part of the depot"),
    ("fresh", "magazines of a part of the depot that were ever used"),
    ("full[", "stack of a depot's full magazines of one kind"),
    ("held", "locks that a CPU holds, for the check of their order"),
    ("highatomic_reserved", "frames in pageblocks that are kept for requests that must not wait"),
    ("hints", "pageblocks that a CPU owned last, to find them again"),
    ("idle", "how long a CPU's lists of another node's zone have been idle"),
    ("last", "last page of an LRU list of the workload"),
    ("link.", "the links of a free block in its list"),
    ("lists[", "head or length of a zone's list of free blocks, by mobility and order"),
    ("lock.", "tickets or turns of a lock: the zone lock beside the free lists, or the lock of a part of a depot"),
    ("lock_alone.", "tickets or turns of the zone lock where it has cache lines of its own"),
    ("lock_behind.", "tickets or turns of the zone lock where it lies behind the free lists"),
    ("lock", "lock of an LRU list of the workload"),
    ("magazines", "records of magazines: arrays of blocks that move between per-CPU lists and a depot as one"),
    ("managed", "frames of a zone that were ever handed to the allocator"),
    ("merging.", "back-off of searches for blocks that were not merged: when the next begins, and where"),
    ("node ", "counters of a node, shared or of one CPU"),
    ("offline", "frames of a zone that were taken offline"),
    ("owned", "the free frames of a pageblock that a CPU owns, a bit each"),
    ("owners", "the CPU that owns a pageblock"),
    ("pageblocks", "a word of each pageblock: its zone and mobility"),
    ("place", "a place where waiters for a lock look for their turn"),
    ("present", "frames of a zone that have memory"),
    ("range locks", "locks of ranges of frames, which concurrent merges take"),
    ("recent.", "the workload's own counts of pages that LRU lists were asked for"),
    ("ring[", "a per-CPU list: where its entries begin and end, its window, and what was taken from it"),
    ("ring", "entries of per-CPU lists, or of the workload's own rings"),
    ("runs", "translation of frame numbers: stretches of memory"),
    ("sections", "translation of frame numbers: a word of each section of memory"),
    ("size", "length of an LRU list of the workload"),
    ("slots", "entries of per-CPU lists"),
    ("stat.asked.", "the largest order that background reclaim or compaction was asked for"),
    ("stat.boost", "frames by which a zone's watermarks are raised for a time"),
    ("stat.drift_mark", "free frames below which the CPUs' counts must be added before a watermark is compared"),
    ("stat.highatomic", "free frames in pageblocks that are kept for requests that must not wait"),
    ("stat.marks.", "watermarks of a zone: min, low and high"),
    ("stat.nr_free_cma", "free frames of a zone in CMA pageblocks; watermarks count them apart"),
    ("stat.nr_free_pages", "free frames of a zone, which every watermark is compared with"),
    ("stat.numa.", "NUMA counters of a zone: requests by the node that they wanted and got"),
    ("stat.", "other counters of a zone"),
    ("sums.", "counters of all zones together"),
    ("tuning.", "size of a CPU's lists where it adapts, and the counts that it follows"),
    ("turn", "where a CPU's next drain or interleaved request begins"),
    ("waiting", "freed blocks that wait on a CPU's list, and their frames"),
    ("with_memory[", "nodes that have memory of a kind"),
];

/// What is said of a field that no line is about.
const OTHER: &str = "a word of the allocator, which crates/framewright declares by this name";

/// A field that a page explains.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
pub struct FieldMeaning {
    /// The name, as reports have it.
    name: String,
    /// The name of the line for links.
    anchor: String,
    /// What it is.
    what: &'static str,
}

/// Returns what a field is, by the longest begin of its name.
pub fn meaning(name: &str) -> Option<&'static str> {
    let begins = MEANINGS.iter().filter(|(begin, _)| name.starts_with(begin));
    begins.max_by_key(|(begin, _)| begin.len()).map(|(_, what)| *what)
}

impl FieldMeaning {
    fn of(name: &str) -> Self {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let anchor = format!("field-{}", name.chars().map(word).collect::<String>());
        Self { name: name.to_owned(), anchor, what: meaning(name).unwrap_or(OTHER) }
    }
}

/// Links the fields in the reasons of some HTML to their lines, and adds them to those that the page explains.
pub(super) fn linked(html: &str, explained: &mut BTreeSet<FieldMeaning>) -> String {
    let mut parts = html.split(MOST);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += MOST;
        let mut rest = part;
        while let Some((name, share)) = rest.split_once(" (").filter(|(name, _)| !name.contains(['<', ';'])) {
            let field = FieldMeaning::of(name);
            text += &format!("<a href=\"#{}\">{name}</a> (", field.anchor);
            explained.insert(field);
            let end = share.find(')').map_or(share.len(), |at| at + 1);
            text += &share[..end];
            rest = &share[end..];
            let Some(next) = rest.strip_prefix(", ") else { break };
            text += ", ";
            rest = next;
        }
        text += rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_lines() {
        let mut explained = BTreeSet::new();
        let html = format!("<dd>a; {MOST}stat.nr_free_cma (8.1 %), ring[Movable].top order 0 (0.5 %).</dd> x (y)");
        let linked = linked(&html, &mut explained);
        assert_eq!(
            linked,
            format!(
                "<dd>a; {MOST}<a href=\"#field-stat-nr-free-cma\">stat.nr_free_cma</a> (8.1 %), \
                 <a href=\"#field-ring-Movable--top-order-0\">ring[Movable].top order 0</a> (0.5 %).</dd> x (y)"
            )
        );
        let what: Vec<&str> = explained.iter().map(|field| field.what).collect();
        assert_eq!(what, [meaning("ring[").unwrap(), meaning("stat.nr_free_cma").unwrap()]);
        let plain = "<p>nothing (at all)</p>";
        assert_eq!((super::linked(plain, &mut explained), explained.len()), (plain.to_owned(), 2));
    }

    #[test]
    fn the_longest_begin_is_meant() {
        assert_ne!(meaning("lock"), meaning("lock.serving"));
        assert_ne!(meaning("lock.serving"), meaning("lock_behind.turns"));
        assert_eq!((meaning("unheard"), FieldMeaning::of("unheard").what), (None, OTHER));
        let begins: BTreeSet<&str> = MEANINGS.iter().map(|(begin, _)| *begin).collect();
        assert_eq!(begins.len(), MEANINGS.len(), "a begin is there twice");
    }
}

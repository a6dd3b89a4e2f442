//! Which zones a request may use, and the place of its highest zone in `lowmem_reserve[]`.
//!
//! A kernel lists a reserve for each zone that it was built with, whether or not the zone has memory. The report names
//! only those with memory, so the others follow from their number.

use framewright::Gfp;
use framewright::request::{__GFP_DMA, __GFP_DMA32, __GFP_HIGHMEM, __GFP_MOVABLE};

use crate::memory::Memory;

/// Every zone of Linux, in its order.
const NAMES: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];

/// Position of HighMem.
const HIGHMEM: usize = 3;

/// Returns the zones that the kernel was built with, ascending.
pub(crate) fn configured(memory: &Memory) -> Vec<&'static str> {
    let is_seen = |name: &str| memory.zones.iter().any(|zone| zone.name == name);
    let mut has = NAMES.map(|name| is_seen(name) || name == "Movable" || name == "Normal");
    let is_narrow = memory.has_highmem();
    if is_narrow {
        has[HIGHMEM] = true;
    }
    let columns = memory.zones.iter().filter_map(|zone| zone.lowmem_reserve.as_ref()).map(Vec::len).max();
    let mut missing = columns.unwrap_or(4).saturating_sub(has.iter().filter(|&&has| has).count());
    // A 64-bit kernel has DMA32 and no HighMem. A zone Device is configured last.
    for name in if is_narrow { ["DMA", "Device", "DMA32"] } else { ["DMA", "DMA32", "Device"] } {
        if let Some(at) = NAMES.iter().position(|&one| one == name).filter(|&at| !has[at] && missing > 0) {
            has[at] = true;
            missing -= 1;
        }
    }
    NAMES.into_iter().zip(has).filter_map(|(name, has)| has.then_some(name)).collect()
}

/// Returns the position of a zone among those of Linux; `None` for a name that no kernel has.
pub(crate) fn rank(name: &str) -> Option<usize> {
    NAMES.iter().position(|&one| one == name)
}

/// Returns the highest zone that flags allow, in a kernel with the zones `configured`.
pub(crate) fn highest(gfp: Gfp, configured: &[&str]) -> &'static str {
    let or_normal = |name: &'static str| if configured.contains(&name) { name } else { "Normal" };
    if gfp.contains(__GFP_DMA) {
        or_normal("DMA")
    } else if gfp.contains(__GFP_DMA32) {
        or_normal("DMA32")
    } else if gfp.contains(__GFP_HIGHMEM | __GFP_MOVABLE) {
        "Movable"
    } else if gfp.contains(__GFP_HIGHMEM) {
        or_normal("HighMem")
    } else {
        "Normal"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Zone;

    fn memory(names: &[&str], columns: usize) -> Memory {
        let zone =
            |name: &&str| Zone { name: (*name).to_owned(), lowmem_reserve: Some(vec![0; columns]), ..Zone::default() };
        Memory { zones: names.iter().map(zone).collect(), ..Memory::default() }
    }

    #[test]
    fn zones_without_memory_follow_from_the_columns() {
        let cases: [(&[&str], usize, &[&str]); 7] = [
            (&["DMA", "DMA32", "Normal"], 4, &["DMA", "DMA32", "Normal", "Movable"]),
            (&["DMA", "DMA32"], 5, &["DMA", "DMA32", "Normal", "Movable", "Device"]),
            (&["DMA", "Normal", "HighMem"], 4, &["DMA", "Normal", "HighMem", "Movable"]),
            (&["Normal", "HighMem"], 3, &["Normal", "HighMem", "Movable"]),
            (&["DMA"], 3, &["DMA", "Normal", "Movable"]),
            (&["Normal"], 2, &["Normal", "Movable"]),
            (&["DMA32", "Normal"], 4, &["DMA", "DMA32", "Normal", "Movable"]),
        ];
        for (names, columns, expected) in cases {
            assert_eq!(configured(&memory(names, columns)), expected, "{names:?} {columns}");
        }
    }
}

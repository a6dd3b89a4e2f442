//! Runs of pages that leave their list in one cut, against others who look at their states.
//!
//! CPU 0 refills its list by a cluster of three or four pages; CPU 1 keeps no pages of its own, so that all it does is done in the zone.

use framewright::Mechanisms;
use framewright::mechanisms::{FreePath, Refill};
use framewright::units::Pfn;
use framewright::watermark::PcpSize;

use super::sound;
use crate::explore::{Model, Part};
use crate::interrupt::Fences;
use crate::stage::{self, Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: || unmerged(&[0, 1, 2, 3]),
    threads: &[],
    check: sound,
};
const MERGING: Sizes = Sizes {
    pcp: PcpSize { batch: 4, high: 4 },
    bypass_pcp: &[1],
    cpus: 2,
    mechanisms: Mechanisms { refill: Refill::Cluster, ..stage::PLAIN },
    ..Sizes::TINY
};
const UNMERGED: Sizes =
    Sizes { mechanisms: Mechanisms { free_path: FreePath::NoMerge, ..MERGING.mechanisms }, ..MERGING };

/// What CPU 0 does.
const REFILL: (u16, Part) = (0, |stage| stage.alloc_into(0, 0));

/// Models of clusters.
pub const MODELS: &[Model] = &[
    // The buddy of a page that is being cut off is freed: it must not merge with it. That page is in the middle of its run, as
    // the ends of a run disagree with the list at once.
    Model {
        name: "cluster_cut",
        bound: Some(4),
        stage: || pages(&Sizes { frames: 6, ..MERGING }, &[0, 2, 4]),
        threads: &[REFILL, (1, |stage| stage.free_from(2))],
        ..PLAIN
    },
    // Unmerged pages merge for a larger request, but for those that are being cut off.
    Model {
        name: "cluster_cut_larger",
        bound: Some(2),
        threads: &[REFILL, (1, |stage| stage.alloc_into(1, 1))],
        ..PLAIN
    },
    // A page comes to the front of the list, and a page leaves it, one by one.
    Model {
        name: "cluster_cut_unmerged",
        bound: Some(3),
        stage: || unmerged(&[0, 2]),
        threads: &[REFILL, (1, |stage| stage.free_from(1))],
        ..PLAIN
    },
    Model { name: "cluster_cut_alloc", threads: &[REFILL, (1, |stage| stage.alloc_into(1, 0))], ..PLAIN },
];

fn unmerged(free: &[u64]) -> Stage {
    pages(&UNMERGED, free)
}

/// All memory in pages, of which those of `free` lie in the zone; the others, in slots from 1 on.
fn pages(sizes: &Sizes, free: &[u64]) -> Stage {
    let stage = Stage::new(sizes);
    stage.as_cpu(1, |stage| {
        let pages: Vec<Pfn> = std::iter::from_fn(|| stage.alloc(0)).collect();
        assert_eq!(pages.len() as u64, sizes.frames);
        let (free, held): (Vec<Pfn>, Vec<Pfn>) = pages.into_iter().partition(|page| free.contains(&page.0));
        free.into_iter().for_each(|page| stage.free(page, 0));
        held.into_iter().zip(1..).for_each(|(page, slot)| stage.put_into(slot, page, 0));
    });
    stage
}

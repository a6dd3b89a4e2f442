//! Runs of pages that leave their list in one cut, while another CPU looks at their states.
//!
//! CPU 0 refills its list by a cluster of three or four pages. CPU 1 keeps no pages of its own, so all its calls go to
//! the zone.

use framewright::Mechanisms;
use framewright::mechanisms::{FreePath, Refill};
use framewright::watermark::PcpSize;

use super::model;
use crate::explore::Model;
use crate::stage::{self, Sizes, Stage};

/// CPU 0 refills by clusters, and CPU 1 has no lists.
pub(super) const MERGING: Sizes = Sizes {
    pcp: PcpSize { batch: 4, high: 4 },
    bypass_pcp: &[1],
    mechanisms: Mechanisms { refill: Refill::Cluster, ..stage::PLAIN },
    ..Sizes::TINY
};

/// Models of clusters.
pub const MODELS: &[Model] = &[
    // The buddy of a page that is being cut off is freed: it must not merge with that page. The page is in the middle
    // of its run, because the ends of a run disagree with the list at once.
    model("cluster_cut", every_other_of_six, cpus!(0[alloc_into(0, 0)], 1[free_from(2)])),
    // Unmerged pages merge for a larger request, except those that are being cut off.
    model("cluster_cut_larger", || unmerged(&[]), cpus!(0[alloc_into(0, 0)], 1[alloc_into(1, 1)])).bound(2),
    // A page comes to the front of the list, or a page leaves it, one by one.
    model("cluster_cut_unmerged", || unmerged(&[(1, 1), (3, 2)]), cpus!(0[alloc_into(0, 0)], 1[free_from(1)])),
    model("cluster_cut_alloc", || unmerged(&[]), cpus!(0[alloc_into(0, 0)], 1[alloc_into(1, 0)])),
];

fn every_other_of_six() -> Stage {
    let stage = Stage::new(&Sizes { frames: 6, cpus: 2, ..MERGING });
    stage.as_cpu(1, |stage| stage.keep(stage.alloc_all(), &[(1, 1), (3, 2), (5, 3)]));
    stage
}

/// All memory in pages that did not merge. Those of `held` lie in slots, the others in the zone.
fn unmerged(held: &[(u64, usize)]) -> Stage {
    let mechanisms = Mechanisms { free_path: FreePath::NoMerge, ..MERGING.mechanisms };
    let stage = Stage::new(&Sizes { cpus: 2, mechanisms, ..MERGING });
    stage.as_cpu(1, |stage| stage.keep(stage.alloc_all(), held));
    stage
}

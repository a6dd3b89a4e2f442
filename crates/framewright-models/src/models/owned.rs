//! Owned pageblocks: blocks return to one while its owner takes some, or while it loses its owner.
//!
//! CPU 0 owns the first pageblock, of four pages. A second one is free, so that the zone is above its marks. Lists keep
//! nothing, so each free returns its block at once.

use framewright::mechanisms::{PreMerge, Refill};
use framewright::units::{MigrateType, Order, Pfn};
use framewright::watermark::PcpSize;
use framewright::{FrameState, Mechanisms};

use super::{drain_0, free_0, free_1, model};
use crate::explore::Model;
use crate::stage::{self, Sizes, Stage};

const OWNED: Sizes = Sizes {
    frames: 8,
    max_order: 2,
    pageblock_order: 2,
    pcp: PcpSize { batch: 1, high: 1 },
    mechanisms: Mechanisms { pre_merge: PreMerge::Batch, refill: Refill::Pageblocks, ..stage::PLAIN },
    ..Sizes::TINY
};

/// Models of owned pageblocks.
pub const MODELS: &[Model] = &[
    // A block returns while the pageblock loses its owner, and then also gets another type.
    model("owned_disown", four_pages, cpus!(1 free_0, 2 drain_0)),
    model("owned_retype", four_pages, cpus!(1 free_0, 2 [set_type(MigrateType::Unmovable)])),
    // The owner takes the block that returns, or one that was there, and puts back the blocks that it does not need.
    model("owned_refill", four_pages, cpus!(1 free_0, 0 [alloc_into(2, 0)])).bound(3),
    // The last two blocks return: one of the two CPUs gives the whole pageblock back.
    model("owned_whole", four_pages, cpus!(1 free_0, 2 free_1)).check(whole),
    model("owned_words", two_words, cpus!(1 free_0, 2 free_1)).check(whole).bound(3),
    // The owner takes a block while the pageblock loses its owner.
    model("owned_lost", four_pages, cpus!(0 [alloc_into(2, 0)], 2 drain_0)).bound(3),
    // A larger request takes the pageblock, because nothing else is left, while a block returns.
    model("owned_larger", nothing_else, cpus!(1 free_0, 2 [alloc_into(2, 1)])).bound(3),
    // All at once. (With two preemptions it takes a minute.)
    model("owned_three", four_pages, cpus!(1 free_0, 2 drain_0, 0 [alloc_into(2, 0)])).bound(1),
];

fn whole(stage: &Stage) {
    let census = stage.check();
    let largest = stage.on(|allocator| allocator.state_of(Pfn(0)));
    let order = Order(census.present.ilog2() as u8).down();
    assert_eq!(largest, FrameState::Free(Pfn(0), order), "the pageblock did not go back whole");
}

fn four_pages() -> Stage {
    held(&OWNED, 2, &[(0, 0), (1, 1)])
}

/// The bitmap of the pageblock has two words.
fn two_words() -> Stage {
    let sizes = Sizes { frames: 256, max_order: 7, pageblock_order: 7, ..OWNED };
    held(&sizes, 65, &[(0, 0), (64, 1)])
}

/// Like [`four_pages`], and CPU 2 has all of the second pageblock.
fn nothing_else() -> Stage {
    let stage = four_pages();
    stage.as_cpu(2, does!([alloc_into(3, 2)]));
    stage
}

/// CPU 0 has allocated the first `count` pages, and freed all but those of `kept`.
fn held(sizes: &Sizes, count: u64, kept: &[(u64, usize)]) -> Stage {
    let stage = Stage::new(sizes);
    stage.as_cpu(0, |stage| stage.keep((0..count).filter_map(|_| stage.alloc(0)).collect(), kept));
    stage
}

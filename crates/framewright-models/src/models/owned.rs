//! Pageblocks that CPUs own: blocks that return to the owner, while he takes some, or while somebody takes the pageblock from him.
//!
//! CPU 0 owns the first pageblock, of four pages; a second one is free, so that the zone is above its marks. Lists keep nothing, so
//! that each free returns its block at once.

use framewright::mechanisms::{PreMerge, Refill};
use framewright::units::{MigrateType, Order, Pfn};
use framewright::watermark::PcpSize;
use framewright::{FrameState, Mechanisms};

use super::sound;
use crate::explore::{Model, Part};
use crate::interrupt::Fences;
use crate::stage::{self, Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: Some(3),
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: || held(&OWNED, 2, &[0, 1]),
    threads: &[],
    check: sound,
};
const OWNED: Sizes = Sizes {
    frames: 8,
    max_order: 2,
    pageblock_order: 2,
    pcp: PcpSize { batch: 1, high: 1 },
    mechanisms: Mechanisms { pre_merge: PreMerge::Batch, refill: Refill::Pageblocks, ..stage::PLAIN },
    ..Sizes::TINY
};
/// A pageblock of two words.
const WORDS: Sizes = Sizes { frames: 256, max_order: 7, pageblock_order: 7, ..OWNED };

/// What CPU 1 does in most of them.
const RETURN: (u16, Part) = (1, |stage| stage.free_from(0));

/// Models of pageblocks that CPUs own.
pub const MODELS: &[Model] = &[
    // A block returns while the pageblock is taken from its owner.
    Model { name: "owned_disown", bound: None, threads: &[RETURN, (2, disown)], ..PLAIN },
    // The same, and the pageblock gets another type.
    Model { name: "owned_retype", bound: None, threads: &[RETURN, (2, retype)], ..PLAIN },
    // The owner takes what returns, or what was there, and puts back what he does not need.
    Model { name: "owned_refill", threads: &[RETURN, (0, |stage| stage.alloc_into(2, 0))], ..PLAIN },
    // The last two blocks return: the pageblock goes back whole, by one hand.
    Model {
        name: "owned_whole",
        bound: None,
        threads: &[RETURN, (2, |stage| stage.free_from(1))],
        check: whole,
        ..PLAIN
    },
    Model {
        name: "owned_words",
        stage: || held(&WORDS, 65, &[0, 64]),
        threads: &[RETURN, (2, |stage| stage.free_from(1))],
        check: whole,
        ..PLAIN
    },
    // The owner takes while the pageblock is taken from him.
    Model { name: "owned_lost", threads: &[(0, |stage| stage.alloc_into(2, 0)), (2, disown)], ..PLAIN },
    // A larger request takes it, as nothing else is left, while a block returns.
    Model {
        name: "owned_larger",
        stage: nothing_else,
        threads: &[RETURN, (2, |stage| stage.alloc_into(2, 1))],
        ..PLAIN
    },
    // All at once. (With two preemptions it takes a minute.)
    Model {
        name: "owned_three",
        bound: Some(1),
        threads: &[RETURN, (2, disown), (0, |stage| stage.alloc_into(2, 0))],
        ..PLAIN
    },
];

fn disown(stage: &Stage) {
    stage.drain(0);
}

fn retype(stage: &Stage) {
    let set = |allocator: &framewright::Allocator<'_, _>| allocator.set_pageblock_type(Pfn(0), MigrateType::Unmovable);
    assert_eq!(stage.on(set), Ok(()));
}

fn whole(stage: &Stage) {
    let census = stage.check();
    let largest = stage.on(|allocator| allocator.state_of(Pfn(0)));
    let order = Order(census.present.ilog2() as u8).down();
    assert_eq!(largest, FrameState::Free(Pfn(0), order), "the pageblock did not go back whole");
}

/// The same, and CPU 2 has all of the second pageblock.
fn nothing_else() -> Stage {
    let stage = held(&OWNED, 2, &[0, 1]);
    stage.as_cpu(2, |stage| stage.alloc_into(3, 2));
    stage
}

/// CPU 0 has allocated the first `count` pages, and freed all but those of `kept`, which lie in slots from 0 on.
fn held(sizes: &Sizes, count: u64, kept: &[u64]) -> Stage {
    let stage = Stage::new(sizes);
    stage.as_cpu(0, |stage| {
        let pages: Vec<Pfn> = (0..count).filter_map(|_| stage.alloc(0)).collect();
        let (kept, freed): (Vec<Pfn>, Vec<Pfn>) = pages.into_iter().partition(|page| kept.contains(&page.0));
        freed.into_iter().for_each(|page| stage.free(page, 0));
        kept.into_iter().zip(0..).for_each(|(page, slot)| stage.put_into(slot, page, 0));
    });
    stage
}

//! A zone's lists under its lock.

use framewright::request::Gfp;
use framewright::units::MigrateType;

use super::{free_0, free_1, model};
use crate::explore::Model;
use crate::stage::{EVERY, Sizes, Stage};

const BYPASS: Sizes = Sizes { bypass_pcp: EVERY, frames: 2, ..Sizes::TINY };

/// Models of zones.
pub const MODELS: &[Model] = &[
    model("zone_buddies", holds_buddies, cpus!(0 free_0, 1 free_1)).check(|stage| stage.is_whole(1)),
    // Blocks of order 4 are above what per-CPU lists keep.
    model("zone_large", holds_large, cpus!(0 free_0, 1 [alloc_and_free(4)])),
    model("zone_split_merge", || holds_page(4), cpus!(0 free_0, 1 [alloc_into(1, 0)])),
    model("zone_last", || holds_page(2), cpus!(0[alloc_into(1, 0)], 1[alloc_into(2, 0)])).check(one_got_it),
    model("zone_steal", four, cpus!(0[alloc_into(0, 0)], 1[alloc_for(Gfp::NONE, 0)])),
    model("zone_retype", holds_buddies, cpus!(0 free_0, 1 [set_type(MigrateType::Unmovable), alloc(0)])).bound(3),
];

fn four() -> Stage {
    Stage::new(&Sizes { frames: 4, ..BYPASS })
}

fn holds_page(frames: u64) -> Stage {
    Stage::new(&Sizes { frames, ..BYPASS }).then(does!([alloc_into(0, 0)]))
}

fn holds_buddies() -> Stage {
    holds_page(2).then(does!([alloc_into(1, 0)]))
}

fn holds_large() -> Stage {
    let sizes = Sizes { frames: 32, max_order: 4, pageblock_order: 3, ..Sizes::TINY };
    Stage::new(&sizes).then(does!([alloc_into(0, 4)]))
}

fn one_got_it(stage: &Stage) {
    assert_eq!(stage.check().free, 0);
    assert!(stage.block_in(1).is_some() != stage.block_in(2).is_some(), "the last page has one owner");
}

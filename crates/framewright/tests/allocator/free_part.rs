//! Parts of blocks that are freed: whole blocks, parts, tails, several blocks, and calls that are refused.

use framewright::mechanisms::PRESETS;
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::units::{NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::{Allocator, FrameState, FreeError, Layout, Mechanisms, Request};
use framewright_rt::Storage;

use crate::maps::zones_of_two_nodes;
use crate::roles::{Keeping, Kept, Roles, Unkept};

fn boots<K: Keeping>(mechanisms: Mechanisms, test: impl FnOnce(&Allocator<'_, Roles<K>>)) {
    let config = zones_of_two_nodes(mechanisms);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Roles::<K>::new(config.cpus), &config, storage.parts()).unwrap();
    let before = pages.validate().unwrap().free;
    test(&pages);
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, before, "all memory came back");
}

/// The blocks that `range` consists of, and their frames.
fn held<K: Keeping>(pages: &Allocator<'_, Roles<K>>, range: PfnRange) -> Vec<(Pfn, Order)> {
    let states = (range.start.0..range.end.0).map(|pfn| (Pfn(pfn), pages.state_of(Pfn(pfn))));
    let heads = states.filter_map(|(pfn, state)| match state {
        FrameState::Allocated(head, order) => (head == pfn).then_some((pfn, order)),
        _ => None,
    });
    heads.collect()
}

/// A tail, a middle and the whole, by turns, under each preset.
fn frees_parts<K: Keeping>(name: &str, mechanisms: Mechanisms) {
    boots::<K>(mechanisms, |pages| {
        for gfp in [GFP_KERNEL, GFP_HIGHUSER_MOVABLE] {
            for order in [0, 1, 3, 9, 10] {
                let pfn = pages.alloc(&Request::new(gfp, order)).unwrap();
                pages.free_part(pfn, Order(order)).unwrap_or_else(|error| panic!("{name}, order {order}: {error}"));
                assert_eq!(pages.free_part(pfn, Order(order)), Err(FreeError::AlreadyFree(pfn)), "{name}");
            }
            let pfn = pages.alloc(&Request::new(gfp, 5)).unwrap();
            let block = PfnRange::block(pfn, Order(5));
            pages.free_part(pfn.add(16), Order(4)).unwrap();
            assert_eq!(held(pages, block), [(pfn, Order(4))], "{name}: a tail was freed");
            pages.free_part(pfn.add(5), Order(0)).unwrap();
            let rest = [(0, 2), (4, 0), (6, 1), (8, 3)].map(|(at, order)| (pfn.add(at), Order(order)));
            assert_eq!(held(pages, block), rest, "{name}: a frame of the middle was freed");
            pages.free(pfn.add(8), Order(3)).unwrap();
            pages.free_part(pfn, Order(2)).unwrap();
            pages.validate().unwrap();
            // Several blocks at once.
            pages.free_range(PfnRange { start: pfn.add(6), end: pfn.add(8) }).unwrap();
            pages.free_part(pfn.add(4), Order(0)).unwrap();
            assert_eq!(held(pages, block), [], "{name}");
            let pfn = pages.alloc(&Request::new(gfp, 4)).unwrap();
            pages.split(pfn, Order(4), Order(1)).unwrap();
            pages.free_part(pfn, Order(4)).unwrap();
            assert!(!matches!(pages.state_of(pfn.add(9)), FrameState::Allocated(..)), "{name}: blocks inside one");
        }
    });
}

#[test]
fn parts_of_blocks_are_freed() {
    for &(name, mechanisms) in PRESETS {
        frees_parts::<Unkept>(name, mechanisms);
        frees_parts::<Kept>(name, mechanisms);
    }
}

/// The free of a whole block goes where [`Allocator::free`] puts it: on the CPU's list.
#[test]
fn a_whole_block_costs_what_a_plain_free_does() {
    boots::<Kept>(Mechanisms::DEFAULT, |pages| {
        let page = Request::page(GFP_KERNEL);
        let pfn = pages.alloc(&page).unwrap();
        pages.free_part(pfn, Order(0)).unwrap();
        assert_eq!(pages.alloc(&page), Ok(pfn), "last in, first out");
        pages.free(pfn, Order(0)).unwrap();
    });
}

#[test]
fn wrong_frees_are_refused_and_change_nothing() {
    boots::<Unkept>(Mechanisms::DEFAULT, |pages| {
        let normal = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
        let pfn = pages.alloc(&Request::new(GFP_KERNEL, 4)).unwrap();
        let block = PfnRange::block(pfn, Order(4));
        pages.free_part(pfn.add(8), Order(2)).unwrap();
        let state = || (pages.validate().unwrap(), pages.zone_memory(normal), held(pages, block));
        let (before, bad) = (state(), pages.counters().bad_frees);
        let wrong = [
            (pfn.add(1), Order(1), FreeError::BadRange(PfnRange::block(pfn.add(1), Order(1)))),
            (pfn, Order(11), FreeError::BadRange(PfnRange::block(pfn, Order(11)))),
            (pfn, Order(63), FreeError::BadRange(PfnRange::block(pfn, Order(63)))),
            // A part of it is free.
            (pfn.add(8), Order(3), FreeError::AlreadyFree(pfn.add(8))),
            (pfn, Order(4), FreeError::AlreadyFree(pfn.add(8))),
            (pfn.add(8), Order(0), FreeError::AlreadyFree(pfn.add(8))),
            (Pfn(0x8000), Order(0), FreeError::Foreign(Pfn(0x8000))),
            (Pfn(0), Order(0), FreeError::Foreign(Pfn(0))),
            (Pfn(1 << 51), Order(0), FreeError::Foreign(Pfn(1 << 51))),
        ];
        for (pfn, order, error) in wrong {
            assert_eq!(pages.free_part(pfn, order), Err(error), "{pfn} of {order}");
            assert_eq!(state(), before, "{pfn} of {order}");
        }
        assert_eq!(pages.counters().bad_frees, bad + wrong.len() as u64);
        pages.free_part(pfn, Order(3)).unwrap();
        pages.free_part(pfn.add(12), Order(2)).unwrap();
    });
}

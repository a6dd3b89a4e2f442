//! Memory that was written to after its free is not handed out again, and contents of freed memory are gone.

use std::ptr::NonNull;

use framewright::mechanisms::{Hardened, Mechanisms};
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_USER};
use framewright::watermark::PcpSize;
use framewright::{Allocator, Config, FrameState, Layout, NodeId, Order, Pfn, PfnRange, Region, Request};
use framewright_rt::{Arena, Memory, Native, Pages, Storage};

const FRAMES: u64 = 1024;
const PAGE: usize = 4096;
const KINDS: [Hardened; 3] = [Hardened::Off, Hardened::Poison, Hardened::Zero];

fn arena(hardened: Hardened) -> Arena {
    let mechanisms = Mechanisms { hardened, ..Mechanisms::DEFAULT };
    Arena::builder().without_background().size(FRAMES * 4096).mechanisms(mechanisms).build().unwrap()
}

/// Everything that the arena gives, page by page.
fn all(arena: &Arena) -> Vec<Pages<'_>> {
    std::iter::from_fn(|| arena.alloc(&Request::page(GFP_USER)).ok()).collect()
}

/// A page with something in it, freed; where it was.
fn freed(arena: &Arena) -> (Pfn, *mut u8) {
    let mut page = arena.alloc(&Request::page(GFP_USER)).unwrap();
    page.fill(7);
    (page.pfn(), page.as_mut_ptr())
}

#[test]
fn who_writes_after_a_free_loses_the_block_to_quarantine() {
    for hardened in [Hardened::Poison, Hardened::Zero] {
        let arena = arena(hardened);
        let (pfn, address) = freed(&arena);
        // SAFETY: the page is mapped as long as the arena, and has no owner. A write to it all the same is the test.
        unsafe { address.add(1000).write_volatile(1) };
        let pages = all(&arena);
        assert_eq!(pages.len() as u64, FRAMES - 1);
        assert!(pages.iter().all(|page| page.pfn() != pfn));
        // SAFETY: nothing is freed through it.
        let allocator = unsafe { arena.allocator() };
        assert_eq!(allocator.counters().written_after_free, 1);
        assert!(matches!(allocator.state_of(pfn), FrameState::Quarantined(..)));
        assert_eq!(arena.validate().unwrap().quarantined, 1);
        drop(pages);
        assert_eq!(arena.validate().unwrap().allocated, 0);
    }
}

/// Once, requests below an address limit, and those for memory by its place, got such blocks.
#[test]
fn no_way_to_a_block_leads_around_the_check() {
    let page = Request::page(GFP_USER);
    /// Takes a page, or all that there is.
    type Way = fn(&Allocator<'static, Native>, Pfn) -> Vec<Pfn>;
    let ways: [(&str, Way); 4] = [
        ("below a limit", |pages, pfn| {
            let below = Request { below: Some(pfn.add(1)), ..Request::page(GFP_USER) };
            std::iter::from_fn(|| pages.alloc(&below).ok()).collect()
        }),
        ("at its place", |pages, pfn| pages.alloc_at(pfn, Order(0), GFP_USER).into_iter().collect()),
        ("as a range", |pages, pfn| {
            let range = PfnRange { start: Pfn(pfn.0 - 3), end: pfn.add(5) };
            pages.alloc_range(range, GFP_USER).map_or(Vec::new(), |()| (0..8).map(|at| range.start.add(at)).collect())
        }),
        ("in a search", |pages, _| {
            let ranges = std::iter::from_fn(|| pages.alloc_contig(24, Order(0), &Request::page(GFP_USER)).ok());
            ranges.flat_map(|range| (0..24).map(move |at| range.start.add(at))).collect()
        }),
    ];
    for (name, way) in ways {
        let arena = arena(Hardened::Poison);
        let held: Vec<Pages<'_>> = (0..40).map(|_| arena.alloc(&page).unwrap()).collect();
        let pfn = held.iter().map(Pages::pfn).max().unwrap();
        let address = arena.address(pfn).unwrap();
        drop(held);
        arena.drain();
        // SAFETY: the page is mapped as long as the arena, and has no owner. A write to it all the same is the test.
        unsafe { address.write_volatile(1) };
        // SAFETY: only what is allocated here is freed through it.
        let allocator = unsafe { arena.allocator() };
        let taken = way(allocator, pfn);
        assert!(!taken.contains(&pfn), "{name}");
        // A block is quarantined as a whole.
        let quarantined = arena.validate().unwrap().quarantined;
        assert!((1..=32).contains(&quarantined), "{name}: {quarantined}");
        taken.into_iter().for_each(|pfn| allocator.free_range(PfnRange { start: pfn, end: pfn.add(1) }).unwrap());
        arena.drain();
        assert_eq!(arena.validate().unwrap().free, FRAMES - quarantined, "{name}");
    }
}

#[test]
fn nothing_is_left_of_what_was_freed() {
    let arena = arena(Hardened::Zero);
    freed(&arena);
    assert!(all(&arena).iter().all(|page| page.iter().all(|&byte| byte == 0)));
}

#[test]
fn freed_pages_wait_before_they_are_used_again() {
    let mechanisms = Mechanisms { hardened: Hardened::Poison, ..Mechanisms::DEFAULT };
    let builder = Arena::builder().without_background().size(FRAMES * 4096).mechanisms(mechanisms);
    // Waiting blocks count against `high`.
    let arena = builder.pcp(PcpSize { batch: 8, high: 64 }).build().unwrap();
    let (pfn, _) = freed(&arena);
    for _ in 0..32 {
        assert_ne!(freed(&arena).0, pfn);
    }
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

/// Pages with something in them, as an earlier owner leaves them.
fn used_memory(frames: usize) -> Vec<[u8; PAGE]> {
    vec![[0x77; PAGE]; frames]
}

#[test]
fn memory_handed_in_with_contents_is_served_and_checked() {
    for hardened in KINDS {
        // Room for a multiple of a page's size.
        let mut bytes = used_memory(FRAMES as usize + 1);
        let start = bytes.as_mut_ptr().cast::<u8>();
        let start = start.wrapping_add(start.align_offset(PAGE));
        let memory = NonNull::slice_from_raw_parts(NonNull::new(start).unwrap(), FRAMES as usize * PAGE);
        let mechanisms = Mechanisms { hardened, ..Mechanisms::DEFAULT };
        let builder = Arena::builder().without_background().mechanisms(mechanisms);
        // SAFETY: the bytes outlive the arena, and no other code uses them.
        let arena = unsafe { builder.build_in(memory) }.unwrap();
        let pages = all(&arena);
        assert_eq!(pages.len() as u64, FRAMES, "{hardened:?}");
        let leftover = pages.iter().any(|page| page.contains(&0x77));
        assert_eq!(leftover, hardened == Hardened::Off, "{hardened:?}");
        drop(pages);
        assert_eq!(arena.validate().unwrap().quarantined, 0);
    }
}

/// Writes to withheld memory, by its owner meanwhile, are no writes after a free.
#[test]
fn memory_brought_online_with_contents_is_served_and_checked() {
    for hardened in KINDS {
        let arena = arena(hardened);
        // SAFETY: no frame that anybody has is freed through it.
        let allocator = unsafe { arena.allocator() };
        let range = PfnRange::new(512, FRAMES);
        allocator.take_offline(range).unwrap();
        let withheld = arena.address(range.start).unwrap();
        // SAFETY: the frames are mapped and withheld from everybody else.
        unsafe { withheld.write_bytes(0x77, range.frames() as usize * PAGE) };
        assert_eq!(allocator.bring_online(range), range.frames());
        assert_eq!(arena.validate().unwrap().offline, 0);
        assert_eq!(all(&arena).len() as u64, FRAMES, "{hardened:?}");
        assert_eq!(arena.validate().unwrap().quarantined, 0);
        let (pfn, address) = freed(&arena);
        // SAFETY: as in the test of writes after a free.
        unsafe { address.write_volatile(1) };
        let caught = all(&arena).iter().all(|page| page.pfn() != pfn);
        assert_eq!(caught, hardened != Hardened::Off, "{hardened:?}");
    }
}

/// A kernel's memory map, of which no byte is zero.
///
/// Some of it is reserved until later, some is CMA's, and a zone ends inside a pageblock.
#[test]
fn a_map_with_contents_is_served_to_the_last_frame() {
    const FIRST: u64 = 0x100000;
    for hardened in KINDS {
        let mut bytes = used_memory(FRAMES as usize);
        let base = NonNull::new(bytes.as_mut_ptr().cast()).unwrap();
        // SAFETY: the bytes outlive the machine, and no other code uses them.
        let memory = unsafe { Memory::new(base, Pfn(FIRST), FRAMES, 12) };
        let map = [
            Region::usable(FIRST, FIRST + 512, 0),
            Region::reserved(FIRST + 512, FIRST + 700, 0),
            Region::usable(FIRST + 700, FIRST + FRAMES, 0),
        ];
        let cma = [PfnRange::new(FIRST, FIRST + 512)];
        let nodes = [NodeId(0); 2];
        let mechanisms = Mechanisms { hardened, ..Mechanisms::DEFAULT };
        let config = Config { cma: &cma, mechanisms, min_free_kbytes: Some(0), ..Config::new(&map, &nodes) };
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Native::new(&nodes).with_memory(memory), &config, storage.parts()).unwrap();
        let served = || std::iter::from_fn(|| pages.alloc(&Request::page(GFP_HIGHUSER_MOVABLE)).ok()).count() as u64;
        assert_eq!(served(), FRAMES - 188, "{hardened:?}");
        assert_eq!(pages.bring_online(PfnRange::new(FIRST, FIRST + FRAMES)), 188);
        assert_eq!(served(), 188, "{hardened:?}");
        assert_eq!(pages.validate().unwrap().quarantined, 0);
    }
}

/// Fresh memory of the kernel's is zero, and an arena over it is not written to when it is built.
#[test]
fn fresh_memory_is_not_filled() {
    let arena = arena(Hardened::Poison);
    assert!(all(&arena).iter().all(|page| page.iter().all(|&byte| byte == 0)));
    assert_eq!(arena.validate().unwrap().quarantined, 0);
}

//! What the error of a request says that found no memory: how much is free, and where.

use framewright::error::Shortage;
use framewright::request::{__GFP_NOWARN, __GFP_THISNODE, GFP_ATOMIC, GFP_NOWAIT, GFP_USER, Gfp};
use framewright::{AllocError, Mechanisms, NodeId, NodeSet, Order, Policy, Request, Why, ZoneIdx, ZoneKind};
use framewright_rt::{Arena, ArenaBuilder, Pages, Placement};

const FRAMES: u64 = 2048;
/// All of the arena in frames, and no free block of it is larger.
const BYTES: u64 = FRAMES << 12;

fn builder() -> ArenaBuilder {
    Arena::builder().without_background()
}

/// Takes all pages that a request gets; returns them, and the error of the last.
fn exhaust<'a>(arena: &'a Arena, request: &Request) -> (Vec<Pages<'a>>, AllocError) {
    let mut held = Vec::new();
    loop {
        match arena.alloc(request) {
            Ok(page) => held.push(page),
            Err(error) => return (held, error),
        }
    }
}

/// The reason and the figures: free, cached, elsewhere.
fn figures(error: AllocError) -> (Why, Option<[u32; 3]>) {
    let AllocError::NoMemory { why, left } = error else { panic!("{error}") };
    (why, left.map(|left: Shortage| [left.free(), left.cached(), left.elsewhere()]))
}

fn refusal(arena: &Arena, gfp: Gfp, order: u8) -> AllocError {
    arena.alloc(&Request::new(gfp, order)).map(drop).unwrap_err()
}

#[test]
fn an_exhausted_arena_says_what_is_left_and_where() {
    let arena = builder().size(BYTES).build().unwrap();
    let (mut held, error) = exhaust(&arena, &Request::page(GFP_USER));
    assert_eq!((held.len() as u64, figures(error)), (FRAMES, (Why::Watermark, Some([0; 3]))));
    assert_eq!(
        refusal(&arena, GFP_NOWAIT, 0).to_string(),
        "out of memory for a request that must not wait; free frames: 0 in its zones, 0 on per-CPU lists there, \
         0 elsewhere; __GFP_DIRECT_RECLAIM lets it wait, and min_free keeps a reserve for GFP_ATOMIC"
    );
    // Single frames of a whole: no two of them are neighbours.
    held.sort_by_key(Pages::pfn);
    let mut index = 0;
    held.retain(|_| {
        index += 1;
        index > 24 || index % 2 == 0
    });
    assert_eq!(
        figures(refusal(&arena, GFP_USER, 9)),
        (Why::Watermark, Some([0, 12, 0])),
        "they are on this CPU's list"
    );
    assert_eq!(arena.drain(), 12);
    assert_eq!(figures(refusal(&arena, GFP_USER, 9)), (Why::Fragmented, Some([12, 0, 0])));
    let error = refusal(&arena, GFP_ATOMIC, 1);
    assert_eq!(figures(error), (Why::Fragmented, Some([12, 0, 0])));
    assert_eq!(
        error.to_string(),
        "out of memory: no free block is large enough; free frames: 12 in its zones, 0 on per-CPU lists there, \
         0 elsewhere; a smaller order may be free"
    );
    drop(held);
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

#[test]
fn a_reserve_is_what_is_left() {
    let arena = builder().size(BYTES).min_free(256 << 12).build().unwrap();
    let (_held, error) = exhaust(&arena, &Request::page(GFP_NOWAIT));
    // SAFETY: nothing is freed through it.
    let zone = unsafe { arena.allocator() }.zone_memory(ZoneIdx::of(NodeId(0), ZoneKind::Normal)).unwrap();
    assert_eq!(zone.free, zone.marks.min);
    assert_eq!(figures(error), (Why::WouldWait, Some([zone.free as u32, 0, 0])));
}

#[test]
fn memory_of_other_nodes_is_elsewhere() {
    let arena = builder().node(BYTES, Placement::Anywhere).node(BYTES, Placement::Anywhere).build().unwrap();
    let request = Request::page(GFP_USER | __GFP_THISNODE).on(NodeId(1));
    let (held, error) = exhaust(&arena, &request);
    assert_eq!((held.len() as u64, figures(error)), (FRAMES, (Why::Watermark, Some([0, 0, FRAMES as u32]))));
    assert!(error.to_string().ends_with("2048 elsewhere; other flags or another policy reach those elsewhere"));
    // Whose turn it was is known no more.
    let nodes = NodeSet::only(NodeId(1));
    let strict = Request::page(GFP_USER | __GFP_THISNODE).with(Policy::Interleave(nodes));
    assert_eq!(arena.alloc(&strict).map(drop), Err(AllocError::no_memory(Why::Watermark)));
    let one = Request::page(GFP_USER).with(Policy::Bind(nodes));
    assert_eq!(figures(arena.alloc(&one).map(drop).unwrap_err()), (Why::Watermark, Some([0, 0, FRAMES as u32])));
}

#[test]
fn a_request_that_wants_no_warning_gets_no_figures() {
    let arena = builder().size(BYTES).build().unwrap();
    let (_held, error) = exhaust(&arena, &Request::page(GFP_NOWAIT | __GFP_NOWARN));
    assert_eq!(error, AllocError::no_memory(Why::WouldWait));
    assert_eq!(error.to_string(), "out of memory for a request that must not wait");
    assert_eq!(refusal(&arena, GFP_USER | __GFP_NOWARN, 3), AllocError::no_memory(Why::Watermark));
}

#[test]
fn calls_for_many_frames_say_it_too() {
    let arena = builder().size(BYTES).build().unwrap();
    let request = Request::page(GFP_USER);
    let mut held = Vec::new();
    assert_eq!(arena.alloc_bulk(&request, 3000, &mut held), Ok(FRAMES as usize), "some were served: that is no error");
    let none = (Why::Watermark, Some([0; 3]));
    assert_eq!(figures(arena.alloc_bulk(&request, 8, &mut held).unwrap_err()), none);
    let quiet = Request::page(GFP_USER | __GFP_NOWARN);
    assert_eq!(arena.alloc_bulk(&quiet, 8, &mut held), Err(AllocError::no_memory(Why::Watermark)));
    // A part of a block, and a range that is larger than the largest block.
    for frames in [3, FRAMES + 1] {
        assert_eq!(figures(arena.alloc_contig(frames, Order(0), &request).unwrap_err()), none);
        assert_eq!(arena.alloc_contig(frames, Order(0), &quiet), Err(AllocError::no_memory(Why::Watermark)));
    }
}

/// A frame is on a free list or cached, never both, with each way to cache.
#[test]
fn each_free_frame_is_counted_once() {
    for mechanisms in
        ["default", "baseline", "patch9", "no_merge", "owned-pageblocks", "linux-6.1", "default,hardened=poison"]
    {
        let arena = builder().size(BYTES).mechanisms(Mechanisms::parse(mechanisms).unwrap()).build().unwrap();
        let (mut held, _) = exhaust(&arena, &Request::page(GFP_USER));
        held.sort_by_key(Pages::pfn);
        let odd: Vec<_> = held.into_iter().enumerate().filter(|(index, _)| index % 2 != 0).collect();
        for gfp in [GFP_USER, GFP_ATOMIC] {
            let (why, left) = figures(refusal(&arena, gfp, 9));
            let [free, cached, elsewhere] = left.unwrap();
            assert_eq!((free + cached, elsewhere), (FRAMES as u32 / 2, 0), "{mechanisms} {gfp} {why:?}");
        }
        drop(odd);
    }
}

#[test]
fn any_context_tells_it() {
    let arena = builder().size(BYTES).build().unwrap();
    let (_held, _) = exhaust(&arena, &Request::page(GFP_USER));
    // SAFETY: nothing is freed through it.
    let allocator = unsafe { arena.allocator() };
    let refused = allocator.alloc_nolock(&Request::page(GFP_ATOMIC)).unwrap_err();
    assert_eq!(figures(refused), (Why::Watermark, Some([0; 3])));
}

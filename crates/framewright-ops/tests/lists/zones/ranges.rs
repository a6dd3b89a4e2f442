//! Ranges: every start that the alignment allows is considered, and errors say what is in the way.

use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::{Order, PfnRange};
use framewright_ops::op::{Handle, Op, Terms};
use framewright_ops::rng::Rng;
use framewright_ops::session::with_session;
use framewright_ops::{Outcome, machines};

use super::play_all;

/// Zones that begin and end anywhere: node 0 in the middle of a pageblock that it has to itself, node 1 inside of the
/// next, with a hole.
const ODD: &str = "max-order 6\npageblock-order 4\nmemory 0x5..0x6a node 0\nmemory 0x6a..0xf3 node 1\n\
                   reserved 0xf3..0xf5 node 1\nmemory 0xf9..0x13f node 1\ncpus 0 1\ndma-end 0x0\ndma32-end 0x0\n\
                   marks 0 Normal 0 0 0\nmarks 1 Normal 0 0 0\npcp 0 Normal 1 1\npcp 1 Normal 1 1\n";

#[test]
fn every_aligned_start_is_considered() {
    let on = |ops: &str| format!("{ODD}{ops}");
    let cases = [
        ("from the first frame of a zone", on("a1 = alloc-contig 101 align 0 GFP_KERNEL bind 0 -> 0x5..0x6a")),
        ("to the last", on("a1 = alloc-contig 98 align 3 GFP_KERNEL bind 0 -> 0x8..0x6a")),
        (
            "the next aligned one is too late",
            on("a1 = alloc-contig 99 align 3 GFP_KERNEL bind 0 -> out of memory: no free block is large enough"),
        ),
        (
            "behind another zone's pageblock, up to a withheld frame",
            on("a1 = alloc-contig 131 align 0 GFP_KERNEL bind 1 -> 0x70..0xf3"),
        ),
        (
            "behind a hole",
            on("a1 = alloc-range 0x70..0xf3 GFP_KERNEL -> ok\n\
          a2 = alloc-contig 70 align 0 GFP_KERNEL bind 1 -> 0xf9..0x13f"),
        ),
        (
            "behind what is in use",
            on(
                "a1 = alloc-at 0x7 order 0 GFP_KERNEL -> ok\na2 = alloc-contig 66 align 1 GFP_KERNEL bind 0 -> 0x8..0x4a",
            ),
        ),
        (
            "between two in use",
            on("a1 = alloc-at 0x7 order 0 GFP_KERNEL -> ok\na2 = alloc-at 0x50 order 0 GFP_KERNEL -> ok\n\
          a3 = alloc-contig 72 align 0 GFP_KERNEL bind 0 -> 0x8..0x50"),
        ),
        (
            "in a zone with no block so large",
            on(
                "a1 = alloc-range 0x20..0x6a GFP_KERNEL -> ok\na2 = alloc-contig 27 align 0 GFP_KERNEL bind 0 -> 0x5..0x20",
            ),
        ),
        (
            "below a limit inside of a pageblock",
            on("a1 = alloc-contig 70 align 0 GFP_KERNEL bind 0 below 0x4b -> 0x5..0x4b\n\
          a2 = alloc-contig 70 align 0 GFP_KERNEL bind 0 below 0x4b -> out of memory: every allowed zone is at its watermark"),
        ),
        (
            "what can move moves",
            on("a1 = alloc-at 0x20 order 2 GFP_HIGHUSER_MOVABLE -> ok\non-migrate move\n\
          a2 = alloc-contig 90 align 0 GFP_NOWAIT bind 0 -> out of memory: no free block is large enough\n\
          a3 = alloc-contig 90 align 0 GFP_KERNEL bind 0 -> 0x5..0x5f"),
        ),
        (
            "what can move and does not is passed",
            on("a1 = alloc-at 0x8 order 2 GFP_HIGHUSER_MOVABLE -> ok\n\
          a2 = alloc-contig 70 align 0 GFP_KERNEL bind 0 -> 0xc..0x52"),
        ),
    ];
    play_all(cases);
}

/// A request that fits into a largest block takes no more than any other of its order may.
#[test]
fn marks_are_kept_by_a_search() {
    play_all([(
        "marks are kept by requests that fit into a block",
        format!(
            "{}a1 = alloc-range 0x20..0x6a GFP_KERNEL -> ok\n\
          a2 = alloc-contig 27 align 0 GFP_KERNEL bind 0 -> out of memory: no free block is large enough\n\
          a3 = alloc-contig 22 align 0 GFP_KERNEL bind 0 -> 0x5..0x1b",
            ODD.replace("marks 0 Normal 0 0 0", "marks 0 Normal 4 4 4")
        ),
    )]);
}

#[test]
fn errors_name_a_frame_of_the_range_and_the_reason() {
    let on = |ops: &str| format!("{ODD}{ops}");
    let cases = [
        ("in use, from its first frame in the range on", on("a1 = alloc-at 0x20 order 4 GFP_KERNEL -> ok\n\
          a2 = alloc-range 0x28..0x32 GFP_KERNEL -> frame 0x28 is in use and cannot be moved\n\
          a3 = alloc-at 0x2c order 1 GFP_KERNEL -> frame 0x2c is in use and cannot be moved\n\
          take-offline 0x18..0x22 -> frame 0x20 is in use and cannot be moved")),
        ("in use and not moved", on("a1 = alloc-at 0x20 order 4 GFP_HIGHUSER_MOVABLE -> ok\n\
          a2 = alloc-range 0x28..0x32 GFP_KERNEL -> frame 0x28 is in use and cannot be moved")),
        ("a zone border", on("a1 = alloc-range 0x60..0x80 GFP_KERNEL -> frame 0x6a is not this allocator's memory\n\
          a2 = alloc-range 0x70..0x80 GFP_KERNEL -> ok")),
        ("a zone border between pageblocks", "max-order 6\npageblock-order 4\nmemory 0x0..0x80 node 0\nmemory 0x80..0x100 node 1\ncpus 0\n\
          dma-end 0x0\ndma32-end 0x40\na1 = alloc-range 0x7f..0x82 GFP_KERNEL -> frame 0x80 is in another zone than the range's first\n\
          a2 = alloc-range 0x3c..0x41 GFP_KERNEL -> frame 0x40 is in another zone than the range's first\n\
          take-offline 0x3c..0x41 -> frame 0x40 is in another zone than the range's first".to_owned()),
        ("a hole in another zone's pageblock", "max-order 7\npageblock-order 5\nmemory 0x1b9..0x1c0 node 0\n\
          memory 0x1d8..0x1d9 node 2\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
          a1 = alloc-range 0x1bf..0x1c1 GFP_KERNEL -> frame 0x1c0 is not this allocator's memory".to_owned()),
        ("a hole", on("a1 = alloc-range 0xf5..0xfa GFP_KERNEL -> frame 0xf5 is not this allocator's memory\n\
          a2 = alloc-range 0x130..0x140 GFP_KERNEL -> frame 0x13f is not this allocator's memory\n\
          a3 = alloc-range 0x0..0x10 GFP_KERNEL -> frame 0x0 is not this allocator's memory\n\
          type 0x1000 Movable -> frame 0x1000 is not this allocator's memory")),
        ("withheld", on("a1 = alloc-range 0xf0..0xf5 GFP_KERNEL -> frame 0xf3 is offline or reserved\n\
          take-offline 0x10..0x20 -> ok\na2 = alloc-range 0xf..0x11 GFP_KERNEL -> frame 0x10 is offline or reserved\n\
          take-offline 0x1f..0x21 -> frame 0x1f is offline or reserved")),
        ("alignment", on("a1 = alloc-at 0x21 order 1 GFP_KERNEL -> no block of order 1 can start at frame 0x21\n\
          a2 = alloc-contig 3 align 52 GFP_KERNEL -> an alignment of order 52 is above the largest, 51; order 6 aligns to 64 frames")),
        ("nothing asked for", on("a1 = alloc-range 0x20..0x20 GFP_KERNEL -> 0x20..0x20 has no frames\n\
          a2 = alloc-contig 0 align 0 GFP_KERNEL -> 0x0..0x0 has no frames")),
        ("isolation that fails", on("fault Isolate 2\na1 = alloc-range 0x2c..0x32 GFP_KERNEL -> \
          the pageblock of frame 0x30 is being emptied by other calls\n\
          fault Isolate 1\na2 = alloc-range 0x2c..0x32 GFP_KERNEL -> the pageblock of frame 0x2c is being emptied by other calls")),
        ("a type that is none", on("type 0x20 Isolate -> no pageblock is set to type Isolate by hand")),
    ];
    play_all(cases);
}

/// On any machine with some frames in use here and there: what is refused the oracle finds nowhere, and what is found
/// begins at any frame.
#[test]
fn runs_are_found_wherever_they_are() {
    let (mut inside, mut refused) = (0, 0);
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let shape = machines::any(&mut rng);
        let pageblock = shape.geometry.pageblock_order;
        let frames: Vec<_> = shape.regions.iter().flat_map(|region| region.range.start.0..region.range.end.0).collect();
        with_session(&shape, |session| {
            let mut name = 0;
            let mut perform = |op: &dyn Fn(Handle) -> Op| {
                name += 1;
                let op = op(Handle(name));
                session.perform(&op).map_err(|wrong| format!("{op}: {wrong}"))
            };
            for _ in 0..rng.below(12) {
                let pfn = framewright::Pfn(*rng.pick(&frames));
                let gfp = *rng.pick(&[GFP_KERNEL, GFP_HIGHUSER_MOVABLE]);
                perform(&|name| Op::AllocRange { name, range: PfnRange { start: pfn, end: pfn.add(1) }, gfp })?;
            }
            for _ in 0..8 {
                let (frames, align) = (1 + rng.below(200), Order(rng.below(5) as u8));
                let gfp = *rng.pick(&[GFP_KERNEL, GFP_NOWAIT, GFP_HIGHUSER_MOVABLE]);
                match perform(&|name| Op::AllocContig { name, frames, align, terms: Terms::new(gfp) })? {
                    Outcome::Range(range) => inside += u32::from(!range.start.is_aligned(pageblock)),
                    _ => refused += 1,
                }
            }
            session.check()?;
            session.check_frames()
        })
        .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}\n{shape}"));
    }
    assert!(inside > 200 && refused > 200, "{inside} inside of pageblocks, {refused} refused");
}

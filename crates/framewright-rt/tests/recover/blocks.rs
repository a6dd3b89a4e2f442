//! What a recovery finds and gives back, by one thread.

use std::alloc::Layout;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use framewright::request::{GFP_KERNEL, GFP_USER};
use framewright::{Mechanisms, NodeId, Order, Pfn, PfnRange};
use framewright_rt::{
    Arena, ArenaBuilder, ArenaError, Backing, Callbacks, HeldFrames, LedgerFault, Placement, RecoverError, Recovered,
    Request,
};

use crate::forked::in_child;

const MIB: u64 = 1 << 20;

fn builder() -> ArenaBuilder {
    Arena::builder().without_background().recoverable(true).backing(Backing::Memfd)
}

/// The file of an arena, which outlives it.
fn file_of(arena: &Arena) -> File {
    // SAFETY: nothing is written through it.
    let file = unsafe { arena.memfd() }.unwrap();
    File::from(file.try_clone_to_owned().unwrap())
}

/// Ends an arena without freeing what is held, and recovers it.
fn again(arena: Arena) -> Recovered {
    let file = file_of(&arena);
    drop(arena);
    recover(&file)
}

/// Recovers an arena. The child of another test may have its file for a moment, between fork and exec.
pub(crate) fn recover(file: &File) -> Recovered {
    for _ in 0..10_000 {
        match Arena::builder().without_background().recover(file) {
            Err(RecoverError::InUse) => std::thread::sleep(std::time::Duration::from_millis(1)),
            recovered => return recovered.unwrap(),
        }
    }
    panic!("the file stays locked")
}

fn frames(held: &[HeldFrames]) -> Vec<(PfnRange, Option<Order>, bool)> {
    held.iter().map(|held| (held.frames(), held.order(), held.in_flight())).collect()
}

/// Frees all that is held, and checks that all memory is one piece again.
fn free_all(Recovered { arena, held }: Recovered) {
    for (number, held) in held.into_iter().enumerate() {
        match held.order() {
            Some(_) if number % 2 == 0 => drop(held.into_block(&arena).unwrap()),
            _ => drop(held.into_range(&arena).unwrap()),
        }
    }
    arena.drain();
    assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
    let largest = Request::new(GFP_USER, arena.report().max_order.0);
    let mut all = Vec::new();
    arena.alloc_bulk(&largest, usize::MAX, &mut all).unwrap();
    assert_eq!(all.len() as u64, arena.frames().frames() >> largest.order.0);
    drop(all);
    assert!(again(arena).held.is_empty());
}

#[test]
fn what_is_held_is_found_and_the_rest_is_free() {
    let arena = builder().size(64 * MIB).build().unwrap();
    let mut expected = Vec::new();
    for order in [0, 3, 9, 0, 1, 5, 0] {
        let mut block = arena.alloc(&Request::new(GFP_KERNEL, order)).unwrap();
        let number = expected.len() as u8;
        block.fill(number + 1);
        expected.push((block.frames(), Some(Order(order)), false, number + 1));
        std::mem::forget(block);
    }
    for pages in [1, 3, 4, 7, 700, 5000] {
        let mut range =
            arena.alloc_range(&Request::page(GFP_USER), Layout::from_size_align(pages << 12, 1).unwrap()).unwrap();
        let number = expected.len() as u8;
        range.fill(number + 1);
        let order = pages.is_power_of_two().then_some(Order(pages.trailing_zeros() as u8));
        expected.push((range.frames(), order, false, number + 1));
        std::mem::forget(range);
    }
    let local = arena.local().unwrap();
    for free in 0..10 {
        let block = local.alloc(&Request::page(GFP_USER)).unwrap();
        if free % 2 == 0 {
            local.free(block);
        } else {
            expected.push((block.frames(), Some(Order(0)), false, 0));
            std::mem::forget(block);
        }
    }
    drop(local);
    let mut bulk = Vec::new();
    arena.alloc_bulk(&Request::new(GFP_USER, 2), 40, &mut bulk).unwrap();
    expected.extend(
        bulk.into_iter().map(|block| (PfnRange::block(block.into_raw().0, Order(2)), Some(Order(2)), false, 0)),
    );
    // It is in flight, as far as the ledger can tell.
    expected.last_mut().unwrap().2 = true;
    expected.sort_by_key(|held| held.0.start);
    let in_use = arena.validate().unwrap().allocated;

    let recovered = again(arena);
    let found = frames(&recovered.held);
    assert_eq!(found, expected.iter().map(|&(frames, order, flight, _)| (frames, order, flight)).collect::<Vec<_>>());
    assert_eq!(recovered.arena.validate().unwrap().allocated, in_use);
    // It was not taken over, so a further recovery cannot tell either.
    let mut recovered = again(recovered.arena);
    assert_eq!(frames(&recovered.held), found);
    for (held, (_, _, _, content)) in recovered.held.drain(..).zip(&expected) {
        let range = held.into_range(&recovered.arena).unwrap();
        assert!(*content == 0 || range.iter().all(|byte| byte == content), "{range:?}");
        std::mem::forget(range);
    }
    let recovered = again(recovered.arena);
    let sure: Vec<_> = found.iter().map(|&(frames, order, _)| (frames, order, false)).collect();
    assert_eq!(frames(&recovered.held), sure);
    free_all(recovered);
}

#[test]
fn blocks_are_taken_over_once_and_by_their_own_arena() {
    let [one, other] = [(), ()].map(|()| builder().size(4 * MIB).build().unwrap());
    std::mem::forget(one.alloc(&Request::page(GFP_USER)).unwrap());
    let layout = Layout::from_size_align(3 << 12, 1).unwrap();
    std::mem::forget(one.alloc_range(&Request::page(GFP_USER), layout).unwrap());
    let Recovered { arena, mut held } = again(one);
    let (range, block) = (held.pop().unwrap(), held.pop().unwrap());
    let block = block.into_block(&other).unwrap_err().into_range(&other).unwrap_err();
    let range = range.into_block(&arena).unwrap_err();
    let private = Arena::builder().size(MIB).without_background().build().unwrap();
    let range = range.into_range(&private).unwrap_err();
    let shared = Arc::new(arena);
    let block = block.into_block(Arc::clone(&shared)).unwrap();
    drop((block, range.into_range(Arc::clone(&shared)).unwrap()));
    assert_eq!(shared.validate().unwrap().allocated, 0);
}

#[test]
fn pieces_of_a_split_are_held_each() {
    let arena = builder().size(4 * MIB).build().unwrap();
    let block = arena.alloc(&Request::new(GFP_USER, 5)).unwrap();
    let start = block.pfn();
    let mut pieces = block.split(Order(2)).unwrap();
    let freed = pieces.next().unwrap();
    pieces.for_each(std::mem::forget);
    drop(freed);
    let recovered = again(arena);
    let expected: Vec<_> =
        (1..8).map(|n| (PfnRange::block(start.add(4 * n), Order(2)), Some(Order(2)), false)).collect();
    assert_eq!(frames(&recovered.held), expected);
    free_all(recovered);
}

#[test]
fn refused_frees_and_raw_blocks_change_nothing() {
    let arena = builder().size(4 * MIB).build().unwrap();
    let (pfn, order) = arena.alloc(&Request::new(GFP_USER, 3)).unwrap().into_raw();
    // SAFETY: it is owned here. Its order is wrong, so that the free at the drop is refused.
    drop(unsafe { framewright_rt::Pages::from_raw_unchecked(&arena, pfn, Order(2)) });
    assert_eq!(arena.refused_frees(), 1);
    // SAFETY: the block is allocated and freed here, past the ledger.
    unsafe {
        let raw = arena.allocator().alloc(&Request::page(GFP_USER)).unwrap();
        drop(framewright_rt::Pages::from_raw(&arena, raw, Order(0)).unwrap());
        arena.allocator().alloc(&Request::page(GFP_USER)).unwrap();
    }
    let recovered = again(arena);
    assert_eq!(frames(&recovered.held), [(PfnRange::block(pfn, order), Some(order), false)]);
    free_all(recovered);
}

#[test]
fn the_shape_is_kept() {
    let nodes = builder().node(8 * MIB, Placement::Anywhere).node(6 * MIB, Placement::Anywhere);
    let arena = nodes.page(16 << 10).first_pfn(0x4000).max_order(8).movable(2 * MIB).build().unwrap();
    let on = |node| Request { policy: framewright::Policy::Prefer(NodeId(node)), ..Request::page(GFP_USER) };
    let expected: Vec<_> =
        [0, 1].map(|node| std::mem::ManuallyDrop::new(arena.alloc(&on(node)).unwrap()).frames()).to_vec();
    let (before, counts) = (arena.report().clone(), arena.validate().unwrap());
    let recovered = again(arena);
    assert_eq!(recovered.held.iter().map(HeldFrames::frames).collect::<Vec<_>>(), expected);
    let report = recovered.arena.report();
    assert_eq!((report.page, report.max_order, report.bytes), (before.page, before.max_order, before.bytes));
    assert_eq!((recovered.arena.frames().start, &report.nodes), (Pfn(0x4000), &before.nodes));
    assert_eq!(recovered.arena.validate().unwrap().allocated, counts.allocated);
}

#[test]
fn a_grown_arena_has_its_held_sections_again() {
    let arena = builder().size(4 * MIB).limit(64 * MIB).build().unwrap();
    let blocks: Vec<_> = (0..9).map(|_| arena.alloc(&Request::new(GFP_USER, 9)).unwrap()).collect();
    let last = blocks.iter().map(|block| block.frames()).max_by_key(|frames| frames.start).unwrap();
    for block in blocks {
        if block.frames() == last {
            std::mem::forget(block);
        }
    }
    let recovered = again(arena);
    assert_eq!(recovered.held.iter().map(HeldFrames::frames).collect::<Vec<_>>(), [last]);
    assert_eq!(recovered.arena.present(), last.end.0 << 12);
    assert_eq!(recovered.arena.grow(2 * MIB).unwrap(), 2 * MIB);
    drop(recovered.held.into_iter().map(|held| held.into_block(&recovered.arena).unwrap()).collect::<Vec<_>>());
    assert_eq!(recovered.arena.validate().unwrap().allocated, 0);
    let recovered = again(recovered.arena);
    assert_eq!((recovered.arena.present(), recovered.held.len()), (4 * MIB, 0));
}

/// A thread's last allocation is in flight until its next call, its exit, or the block's free by another thread.
#[test]
fn only_a_threads_own_last_block_is_in_flight() {
    let arena = Arc::new(builder().size(4 * MIB).build().unwrap());
    let page = || arena.alloc_owned(&Request::page(GFP_USER)).unwrap();
    let file = file_of(&arena);
    let in_flight = || {
        let held = recover(&copy_of(&file)).held;
        held.iter().filter(|held| held.in_flight()).map(|held| held.frames().start).collect::<Vec<_>>()
    };
    let (go, wait) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (go, wait, page) = (&go, &wait, &page);
        let other = scope.spawn(move || {
            sender.send(page()).unwrap();
            go.wait();
            wait.wait();
            let own = page();
            go.wait();
            std::mem::forget(own);
        });
        let theirs = receiver.recv().unwrap();
        go.wait();
        assert_eq!(in_flight(), [theirs.pfn()]);
        let first = theirs.pfn();
        drop(theirs);
        assert_eq!(in_flight(), []);
        // The frame again, by this thread: the other's word names it still.
        let mut again = vec![page()];
        while again.last().is_some_and(|page| page.pfn() != first) {
            again.push(page());
        }
        assert_eq!(in_flight(), [first]);
        drop(again);
        assert_eq!(in_flight(), []);
        wait.wait();
        go.wait();
        other.join().unwrap();
        // It has exited, so its call had returned.
        assert_eq!(in_flight(), []);
    });
    assert_eq!(recover(&copy_of(&file)).held.len(), 1);
}

#[test]
fn a_moved_page_is_held_once_where_it_is() {
    let mechanisms = Mechanisms::parse("default,compaction=emptiest").unwrap();
    let arena = Arc::new(builder().size(8 * MIB).mechanisms(mechanisms).build().unwrap());
    let mut pages: Vec<_> = (0..1024)
        .map(|key: u64| {
            arena.alloc_movable(&Request::page(GFP_USER), key, |bytes| bytes[..8].copy_from_slice(&key.to_le_bytes()))
        })
        .map(Result::unwrap)
        .collect();
    let mut number = 0;
    pages.retain(|_| {
        number += 1;
        number % 16 == 0
    });
    arena.drain();
    for _ in 0..8 {
        arena.compact(NodeId(0));
    }
    assert_ne!(arena.movable_pages().moved, 0);
    let mut keys: Vec<_> = pages.iter().map(|page| page.key()).collect();
    pages.into_iter().for_each(std::mem::forget);
    let file = file_of(&arena);
    // The forgotten pages hold the arena. Its process would have been killed.
    let copy = copy_of(&file);
    let recovered = recover(&copy);
    let key = |held: HeldFrames| u64::from_le_bytes(*held.into_block(&recovered.arena).unwrap().first_chunk().unwrap());
    let mut found: Vec<_> = recovered.held.into_iter().map(key).collect();
    keys.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, keys);
}

/// A file with the contents of another.
fn copy_of(file: &File) -> File {
    let mut copy = tempfile::tempfile().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    std::io::copy(&mut File::open(path).unwrap(), &mut copy).unwrap();
    copy
}

#[test]
fn a_file_of_the_callers_outlives_its_arena() {
    let file = tempfile::tempfile().unwrap();
    let build = || {
        Arena::builder().without_background().size(4 * MIB).recoverable(true).file(file.try_clone().unwrap()).build()
    };
    let arena = build().unwrap();
    assert_eq!(arena.report().backing, Some(Backing::File));
    let mut block = arena.alloc(&Request::page(GFP_USER)).unwrap();
    block[..5].copy_from_slice(b"hello");
    let (pfn, _) = block.into_raw();
    let bytes = file.metadata().unwrap().len();
    assert_eq!(build().map(drop), Err(ArenaError::FileInUse));
    drop(arena);
    // For a moment the child of another test may have it.
    assert!(matches!(build(), Err(ArenaError::FileNotEmpty { .. } | ArenaError::FileInUse)));
    assert_eq!(file.metadata().unwrap().len(), bytes);
    assert_eq!(Arena::builder().size(4 * MIB).backing(Backing::File).build().map(drop), Err(ArenaError::NoFile));
    let recovered = recover(&file);
    let [held] = <[HeldFrames; 1]>::try_from(recovered.held).unwrap();
    let block = held.into_block(&recovered.arena).unwrap();
    assert_eq!((block.pfn(), &block[..5]), (pfn, &b"hello"[..]));
    // Nor is it touched by an arena that fails, or that does not use it.
    let other = tempfile::tempfile().unwrap();
    let failing = |builder: ArenaBuilder| builder.file(other.try_clone().unwrap()).recoverable(true);
    let faults = framewright_rt::os::Faults::always(framewright_rt::os::Call::Mmap, libc::ENOMEM);
    assert!(matches!(failing(Arena::builder().size(4 * MIB)).build(), Err(ArenaError::Os(_))));
    assert_eq!(other.metadata().unwrap().len(), 0);
    other.set_len(100).unwrap();
    assert!(matches!(failing(Arena::builder().size(4 * MIB)).backing(Backing::Memfd).build(), Err(ArenaError::Os(_))));
    assert_eq!(other.metadata().unwrap().len(), 100);
    drop(faults);
    // A file without a ledger serves as well, and is nothing to recover.
    let plain = tempfile::tempfile().unwrap();
    let arena = Arena::builder().without_background().size(4 * MIB).file(plain.try_clone().unwrap()).build().unwrap();
    drop(arena.alloc(&Request::page(GFP_USER)).unwrap());
    assert_eq!(plain.metadata().unwrap().len(), 4 * MIB);
    let error = Arena::recover(&plain).map(drop).unwrap_err();
    assert!(matches!(error, RecoverError::Ledger(LedgerFault::NoHeader { value: 0, .. })), "{error}");
}

#[test]
fn a_living_arena_is_not_recovered() {
    let arena = builder().size(4 * MIB).build().unwrap();
    let file = file_of(&arena);
    assert_eq!(Arena::recover(&file).map(drop), Err(RecoverError::InUse));
    // A child has the file mapped. What it drops is its parent's.
    let block = arena.alloc(&Request::page(GFP_USER)).unwrap();
    let pfn = block.pfn();
    assert!(in_child(|| {
        assert_eq!(Arena::recover(&file).map(drop), Err(RecoverError::InUse));
        // SAFETY: not freed in a child that must not use the arena.
        drop(unsafe { framewright_rt::Pages::from_raw_unchecked(&arena, pfn, Order(0)) });
        assert_eq!(arena.refused_frees(), 1);
    }));
    std::mem::forget(block);
    let recovered = again(arena);
    assert_eq!(recovered.held.iter().map(HeldFrames::frames).collect::<Vec<_>>(), [PfnRange::block(pfn, Order(0))]);
    assert_eq!(Arena::recover(&file).map(drop), Err(RecoverError::InUse));
}

#[test]
fn options_that_a_ledger_cannot_follow_are_refused() {
    struct Nothing;
    impl Callbacks for Nothing {}
    let hardened = Mechanisms::parse("default,hardened=zero").unwrap();
    for (builder, option) in [
        (builder().backing(Backing::Private), "private memory"),
        (builder().backing(Backing::Hugetlb(framewright_rt::HugePage::Size2MiB)), "huge pages of the pool"),
        (builder().callbacks(Arc::new(Nothing)), "callbacks of its own"),
        (builder().mechanisms(hardened), "the mechanism hardened"),
    ] {
        assert_eq!(builder.size(4 * MIB).build().map(drop), Err(ArenaError::NotRecoverable { option }));
    }
    let file = file_of(&builder().size(4 * MIB).build().unwrap());
    let refused = Err(RecoverError::Arena(ArenaError::NotRecoverable { option: "the mechanism hardened" }));
    assert_eq!(Arena::builder().mechanisms(hardened).recover(&file).map(drop), refused);
    let empty = tempfile::tempfile().unwrap();
    let short = Err(RecoverError::Ledger(LedgerFault::TooShort { bytes: 0 }));
    assert_eq!(Arena::recover(&empty).map(drop), short);
    assert!(empty.as_fd().try_clone_to_owned().is_ok());
}

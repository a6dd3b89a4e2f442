//! Operations on an arena: no frame has two owners, contents stay, no free of an owner is refused, and nothing is lost.
#![no_main]

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;

use framewright::request::{__GFP_ZERO, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT, GFP_USER, Gfp};
use framewright::{Mechanisms, NodeId, Order, PfnRange, Request};
use framewright_rt::{Arena, Leaving, LocalArena, MovablePage, OwnedPages, PageRange, Placement};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const PAGE: usize = 4096;
const MIB: u64 = 1 << 20;
/// Operations of a case.
const MOST: usize = 256;

#[derive(Arbitrary, Debug)]
struct Case {
    mechanisms: u8,
    two_nodes: bool,
    grows: bool,
    /// Pages whose key has this bit may be evicted.
    evictable: u8,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Alloc {
        flags: u8,
        order: u8,
    },
    AllocMany {
        flags: u8,
        order: u8,
        count: u8,
    },
    AllocRange {
        flags: u8,
        pages: u16,
        align: u8,
    },
    AllocMovable {
        order: u8,
        key: u8,
    },
    Free(u8),
    /// From another thread.
    FreeAfar(u8),
    FreeAll,
    Split {
        which: u8,
        to: u8,
    },
    Discard(u8),
    Drain,
    Trim(u8),
    Compact(bool),
    Grow(u8),
    Shrink(u8),
}

fn flags(number: u8) -> Gfp {
    const FLAGS: [Gfp; 5] = [GFP_USER, GFP_KERNEL, GFP_NOWAIT, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE];
    let gfp = FLAGS[usize::from(number) % FLAGS.len()];
    if number & 0x80 == 0 { gfp } else { gfp | __GFP_ZERO }
}

/// A block, and the mark in each of its pages.
enum Held {
    Block(OwnedPages, u64),
    Range(PageRange<Arc<Arena>>, u64),
    Movable(MovablePage, u64),
}

/// Marks the first and the last word of each page.
fn mark(bytes: &mut [u8], mark: u64) {
    for (page, number) in bytes.chunks_exact_mut(PAGE).zip(mark..) {
        let (first, rest) = page.split_first_chunk_mut().expect("a page has a word");
        *first = number.to_le_bytes();
        *rest.last_chunk_mut().expect("a page has two words") = number.to_le_bytes();
    }
}

fn check(bytes: &[u8], mark: u64) {
    for (page, number) in bytes.chunks_exact(PAGE).zip(mark..) {
        assert_eq!((&page[..8], &page[PAGE - 8..]), (&number.to_le_bytes()[..], &number.to_le_bytes()[..]));
    }
}

struct Player {
    arena: Arc<Arena>,
    held: Vec<Held>,
    /// By first frame: the end of each block and range that cannot move.
    owned: BTreeMap<u64, u64>,
    marks: u64,
}

impl Player {
    /// Notes an owner. No other has any of these frames.
    fn own(&mut self, frames: PfnRange, bytes: &mut [u8], gfp: Gfp) -> u64 {
        let before = self.owned.range(..frames.end.0).next_back();
        assert!(before.is_none_or(|(_, &end)| end <= frames.start.0), "{frames} has an owner");
        assert!(gfp & __GFP_ZERO != __GFP_ZERO || bytes.iter().all(|&byte| byte == 0), "{frames} is not clear");
        self.owned.insert(frames.start.0, frames.end.0);
        mark(bytes, self.marks);
        self.marks += 1 << 32;
        self.marks - (1 << 32)
    }

    fn take(&mut self, which: u8) -> Option<Held> {
        let held = (!self.held.is_empty()).then(|| self.held.swap_remove(usize::from(which) % self.held.len()))?;
        match &held {
            Held::Block(block, mark) => {
                check(block, *mark);
                self.owned.remove(&block.pfn().0);
            }
            Held::Range(range, mark) => {
                check(range, *mark);
                self.owned.remove(&range.frames().start.0);
            }
            Held::Movable(page, mark) => {
                if let Some(bytes) = page.read() {
                    check(&bytes, *mark);
                }
            }
        }
        Some(held)
    }

    fn add_block(&mut self, mut block: OwnedPages, gfp: Gfp) {
        let mark = self.own(block.frames(), &mut block, gfp);
        self.held.push(Held::Block(block, mark));
    }

    fn alloc_many(&mut self, request: &Request, count: usize) {
        let arena = Arc::clone(&self.arena);
        let mut blocks = Vec::new();
        let done = arena.alloc_bulk(request, count, &mut blocks).unwrap_or(0);
        assert_eq!(done, blocks.len());
        for block in blocks {
            let (pfn, order) = block.into_raw();
            // SAFETY: just allocated with this order, and owned by nothing else.
            let block = unsafe { OwnedPages::from_raw(Arc::clone(&arena), pfn, order) };
            self.add_block(block.expect("it is allocated"), request.gfp);
        }
    }

    fn split(&mut self, which: u8, to: u8) {
        match self.take(which) {
            Some(Held::Block(block, _)) => match block.split(Order(to % 10)) {
                Ok(parts) => parts.for_each(|part| self.add_block(part, GFP_USER)),
                Err((block, _)) => self.add_block(block, GFP_USER),
            },
            other => self.keep(other),
        }
    }

    /// Takes back what was taken.
    fn keep(&mut self, held: Option<Held>) {
        let frames = match &held {
            Some(Held::Block(block, _)) => block.frames(),
            Some(Held::Range(range, _)) => range.frames(),
            Some(Held::Movable(..)) | None => return self.held.extend(held),
        };
        self.owned.insert(frames.start.0, frames.end.0);
        self.held.extend(held);
    }

    fn discard(&mut self, which: u8) {
        match self.take(which) {
            Some(Held::Block(mut block, _)) => {
                block.discard().expect("private memory is given back");
                self.add_block(block, __GFP_ZERO);
            }
            other => self.keep(other),
        }
    }

    fn play(&mut self, step: &Step) {
        let arena = Arc::clone(&self.arena);
        match *step {
            Step::Alloc { flags: gfp, order } => {
                let request = Request::new(flags(gfp), order % 12);
                if let Ok(block) = arena.alloc_owned(&request) {
                    self.add_block(block, request.gfp);
                }
            }
            Step::AllocMany { flags: gfp, order, count } => {
                self.alloc_many(&Request::new(flags(gfp), order % 4), count.into());
            }
            Step::AllocRange { flags: gfp, pages, align } => {
                let layout = Layout::from_size_align(usize::from(pages % 1024) * PAGE, PAGE << (align % 11));
                let request = Request::page(flags(gfp));
                if let Ok(mut range) = arena.alloc_range_owned(&request, layout.expect("it is small")) {
                    let mark = self.own(range.frames(), &mut range, request.gfp);
                    self.held.push(Held::Range(range, mark));
                }
            }
            Step::AllocMovable { order, key } => {
                let marked = self.marks;
                self.marks += 1 << 32;
                let fill = |bytes: &mut [u8]| mark(bytes, marked);
                let page = arena.alloc_movable(&Request::new(GFP_HIGHUSER_MOVABLE, order % 4), key.into(), fill);
                self.held.extend(page.ok().map(|page| Held::Movable(page, marked)));
            }
            Step::Free(which) => drop(self.take(which)),
            Step::FreeAfar(which) => {
                let held = self.take(which);
                std::thread::scope(|scope| scope.spawn(move || drop(held)).join().expect("a free does not panic"));
            }
            Step::FreeAll => while self.take(0).is_some() {},
            Step::Split { which, to } => self.split(which, to),
            Step::Discard(which) => self.discard(which),
            Step::Drain => drop(arena.drain()),
            Step::Trim(order) => drop(arena.trim(Order(order % 12)).expect("private memory is given back")),
            Step::Compact(other) => drop(arena.compact(NodeId(other.into()))),
            Step::Grow(by) => drop(arena.grow(u64::from(by) * MIB)),
            Step::Shrink(by) => drop(arena.shrink(u64::from(by) * MIB)),
        }
    }
}

/// Frees and allocates through a handle of this thread, which no other call disturbs.
fn play_local<'a>(local: &LocalArena<'a>, blocks: usize) {
    let pages: Vec<_> = (0..blocks).map_while(|_| local.alloc(&Request::page(GFP_NOWAIT)).ok()).collect();
    pages.into_iter().for_each(|page| local.free(page));
}

fuzz_target!(|case: Case| {
    const MECHANISMS: [&str; 5] = ["default", "baseline", "default,hardened=poison", "default,hardened=zero", "patch9"];
    let mechanisms = Mechanisms::parse(MECHANISMS[usize::from(case.mechanisms) % MECHANISMS.len()]).expect("known");
    let evictable = u64::from(case.evictable);
    let mut builder = Arena::builder().without_background().mechanisms(mechanisms).max_order(9).cpus(3);
    builder = builder.movable_pages(move |page: &Leaving<'_>| page.key & evictable != 0);
    for _ in 0..=u8::from(case.two_nodes) {
        builder = builder.node(4 * MIB, Placement::Anywhere);
    }
    let builder = if case.grows { builder.limit(16 * MIB) } else { builder };
    let arena = Arc::new(builder.build().expect("the description is right"));
    let mut player = Player { arena: Arc::clone(&arena), held: Vec::new(), owned: BTreeMap::new(), marks: 1 };
    for (number, step) in case.steps.iter().take(MOST).enumerate() {
        player.play(step);
        if number % 16 == 15 {
            arena.validate().unwrap_or_else(|violation| panic!("{violation}"));
            arena.local().iter().for_each(|local| play_local(local, number));
        }
    }
    while player.take(0).is_some() {}
    drop(player);
    let counts = arena.validate().unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!((counts.allocated, arena.refused_frees(), arena.callback_panics()), (0, 0, 0));
    assert_eq!(arena.stats().written_after_free, 0);
});

//! The owners of an arena's blocks, by every way to allocate and to free.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use framewright::request::GFP_USER;
use framewright::{FreeError, Mechanisms, Order, Pfn, PfnRange, Request};
use framewright_ops::rng::Rng;
use framewright_rt::{Arena, ArenaBuilder, MovablePage, OwnedBlock, OwnedPages, Owner, OwnerTotal, Pages};

fn builder() -> ArenaBuilder {
    Arena::builder().without_background().size(16 << 20)
}

fn of_order(order: u8) -> Request {
    Request::new(GFP_USER, order)
}

fn owners(arena: &Arena) -> Vec<Option<Owner>> {
    arena.owners().blocks().map(|block| block.owner).collect()
}

#[test]
fn owners_are_printed_by_size_and_block_by_block() {
    let arena = builder().build().unwrap();
    let blocks = [0, 3, 0].map(|order| arena.alloc(&of_order(order)).unwrap());
    let here = line!() - 1;
    blocks[1].set_owner(Owner::named("rx ring"));
    // SAFETY: the block is kept until the end.
    let raw = unsafe { arena.allocator() }.alloc(&of_order(1)).unwrap();
    let place = format!("{}:{here}:46", file!());
    let printed =
        format!("1 times, 8 pages:\n rx ring\n\n2 times, 2 pages:\n {place}\n\n1 times, 2 pages:\n not recorded\n\n");
    assert_eq!(arena.owners().to_string(), printed);
    let listing = arena.owners().listing().to_string();
    let without_time = listing.lines().map(|line| line.split_once(" ts ").map_or(line, |(before, _)| before));
    let listing = without_time.collect::<Vec<_>>().join("\n") + "\n";
    let all = [(blocks[0].pfn(), 0, &*place), (blocks[1].pfn(), 3, "rx ring"), (blocks[2].pfn(), 0, &*place)];
    for (pfn, order, owner) in all.into_iter().chain([(raw, 1, "not recorded")]) {
        let block = format!("Page allocated via order {order},\nPFN {pfn}\n {owner}\n\n");
        assert!(listing.contains(&block), "{block} in {listing}");
    }
    assert_eq!(listing.lines().count(), 16);
}

/// Every way to allocate records the caller's place, and every way to free forgets it.
#[test]
fn every_way_has_its_place() {
    type Raw = (Pfn, Order);
    type Way = fn(&Arc<Arena>) -> Raw;
    let arena = Arc::new(builder().build().unwrap());
    let ways: [(&str, Way); 5] = [
        ("alloc", |arena| arena.alloc(&of_order(0)).unwrap().into_raw()),
        ("alloc_owned", |arena| arena.alloc_owned(&of_order(2)).unwrap().into_raw()),
        ("local", |arena| arena.local().unwrap().alloc(&of_order(0)).unwrap().into_raw()),
        ("alloc_bulk", |arena| {
            let mut all = Vec::new();
            arena.alloc_bulk(&of_order(0), 1, &mut all).unwrap();
            all.remove(0).into_raw()
        }),
        ("split", |arena| {
            let mut parts = arena.alloc(&of_order(1)).unwrap().split(Order(0)).unwrap();
            drop(parts.next());
            parts.next().unwrap().into_raw()
        }),
    ];
    let mut places = HashSet::new();
    for (way, alloc) in ways {
        for free in [take, free_local] {
            let raw = alloc(&arena);
            let all = owners(&arena);
            assert!(matches!(&all[..], [Some(owner)] if owner.to_string().starts_with(file!())), "{way}: {all:?}");
            places.insert(all[0]);
            free(&arena, raw);
            assert_eq!(owners(&arena), [], "{way}");
        }
    }
    let page = arena.alloc_movable(&of_order(0), 1, |_| ()).unwrap();
    places.insert(owners(&arena)[0]);
    drop(page);
    assert_eq!((places.len(), owners(&arena), arena.refused_frees()), (6, vec![], 0));
}

fn take(arena: &Arena, (pfn, order): (Pfn, Order)) {
    // SAFETY: the caller let the block go.
    drop(unsafe { Pages::from_raw(arena, pfn, order) }.unwrap());
}

fn free_local(arena: &Arena, (pfn, order): (Pfn, Order)) {
    // SAFETY: as above.
    arena.local().unwrap().free(unsafe { Pages::from_raw(arena, pfn, order) }.unwrap());
}

#[test]
fn a_page_that_moves_keeps_its_owner() {
    let mechanisms = Mechanisms::parse("default,compaction=emptiest").unwrap();
    let arena = Arc::new(builder().max_order(9).mechanisms(mechanisms).build().unwrap());
    let mut pages: Vec<MovablePage> =
        (0..4096).map(|key| arena.alloc_movable(&of_order(0), key, |_| ()).unwrap()).collect();
    let owner = owners(&arena)[0];
    assert!(owner.is_some());
    pages.retain(|page| page.key() % 4 == 0);
    arena.drain();
    let huge = arena.alloc(&of_order(9)).unwrap();
    assert!(arena.movable_pages().moved > 0, "{:?}", arena.movable_pages());
    drop(huge);
    assert_eq!(arena.owners().totals(), [OwnerTotal { owner, blocks: 1024, frames: 1024 }]);
}

#[test]
fn misuse_is_refused() {
    let arena = builder().build().unwrap();
    let (pfn, order) = arena.alloc(&of_order(2)).unwrap().into_raw();
    let (block, name) = (PfnRange::block(pfn, order), Some(Owner::named("late")));
    let half = PfnRange::block(pfn, Order(1));
    assert_eq!(arena.set_owner(half, name), Err(FreeError::WrongOrder { pfn, actual: order }));
    assert!(arena.set_owner(arena.frames(), None).is_err());
    assert_ne!(owners(&arena), [name]);
    assert_eq!(arena.set_owner(block, name), Ok(()));
    // Against the contract: two owners, of which the second frees what is free.
    // SAFETY: no memory is written.
    let twice =
        unsafe { [Pages::from_raw(&arena, pfn, order).unwrap(), Pages::from_raw_unchecked(&arena, pfn, order)] };
    drop(twice);
    assert_eq!((arena.refused_frees(), owners(&arena)), (1, vec![]));
    assert_eq!(arena.set_owner(block, name), Err(FreeError::AlreadyFree(pfn)), "of a free block");
    assert_eq!(arena.set_owner(block, None), Err(FreeError::AlreadyFree(pfn)), "of a free block");
    // A free of another order is refused, and the owner stays.
    let (pfn, order) = arena.alloc(&of_order(2)).unwrap().into_raw();
    // SAFETY: as above.
    drop(unsafe { Pages::from_raw_unchecked(&arena, pfn, Order(1)) });
    assert_eq!((arena.refused_frees(), owners(&arena).len()), (2, 1));
    assert!(owners(&arena)[0].is_some());
    take(&arena, (pfn, order));
}

#[test]
fn an_arena_without_owners_lists_its_blocks_all_the_same() {
    let arena = builder().without_owners().build().unwrap();
    let block = arena.alloc(&of_order(3)).unwrap();
    block.set_owner(Owner::named("nobody"));
    assert_eq!(arena.set_owner(block.frames(), Some(Owner::here())), Ok(()));
    let listed: Vec<OwnedBlock> = arena.owners().blocks().collect();
    assert_eq!(listed, [OwnedBlock { pfn: block.pfn(), order: Order(3), owner: None, age: None }]);
    assert_eq!(arena.owners().to_string(), "1 times, 8 pages:\n not recorded\n\n");
}

#[test]
fn leaks_are_reported_when_the_arena_is_dropped() {
    let reports: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&reports);
    let builder = builder().report_leaks(move |owners| told.lock().unwrap().push(owners.to_string()));
    let arena = builder.clone().build().unwrap();
    drop(arena.alloc(&of_order(0)).unwrap());
    drop(arena);
    assert_eq!(reports.lock().unwrap().len(), 0, "nothing leaked");
    let arena = builder.build().unwrap();
    let forgotten = arena.alloc(&of_order(4)).unwrap();
    forgotten.set_owner(Owner::named("session"));
    std::mem::forget(forgotten);
    drop(arena);
    assert_eq!(*reports.lock().unwrap(), ["1 times, 16 pages:\n session\n\n"]);
}

/// Blocks with the owner that each should have.
struct Play<'a> {
    arena: &'a Arc<Arena>,
    rng: RefCell<Rng>,
    borrowed: Vec<(Pages<'a>, Owner)>,
    owned: Vec<(OwnedPages, Owner)>,
    /// Of the allocator's own interface: ranges.
    raw: Vec<(PfnRange, Option<Owner>)>,
}

impl<'a> Play<'a> {
    fn below(&self, end: u64) -> u64 {
        self.rng.borrow_mut().below(end)
    }

    fn some<T>(&self, all: &[T]) -> Option<usize> {
        (!all.is_empty()).then(|| self.below(all.len() as u64) as usize)
    }

    fn turn(&mut self) {
        let arena = self.arena;
        let request = of_order(self.below(5) as u8);
        let (owner, name) = (Owner::named("test"), Owner::named(["a", "b", "c"][self.below(3) as usize]));
        match self.below(10) {
            0 => {
                let block = arena.alloc(&request).unwrap();
                block.set_owner(owner);
                self.borrowed.push((block, owner));
            }
            1 => {
                let local = arena.local().unwrap();
                let block = local.alloc(&request).unwrap();
                block.set_owner(name);
                self.borrowed.push((block, name));
            }
            2 => {
                let block = arena.alloc_owned(&request).unwrap();
                block.set_owner(name);
                self.owned.push((block, name));
            }
            3 => {
                let mut all = Vec::new();
                arena.alloc_bulk(&request, 1 + self.below(9) as usize, &mut all).unwrap();
                all.iter().for_each(|block| block.set_owner(owner));
                self.borrowed.extend(all.into_iter().map(|block| (block, owner)));
            }
            4 => {
                // SAFETY: the range is this test's until it frees it.
                let pages = unsafe { arena.allocator() };
                let range = pages.alloc_contig(1 + self.below(30), Order(0), &Request::page(GFP_USER)).unwrap();
                let named = (self.below(2) == 0).then_some(name);
                named.map_or(Ok(()), |name| arena.set_owner(range, Some(name))).unwrap();
                self.raw.push((range, named));
            }
            5 => drop(self.some(&self.raw).map(|at| {
                let (range, _) = self.raw.swap_remove(at);
                arena.set_owner(range, None).unwrap();
                // SAFETY: as above.
                unsafe { arena.allocator() }.free_range(range).unwrap();
            })),
            6 => drop(self.some(&self.owned).map(|at| self.owned.swap_remove(at))),
            7 => drop(self.some(&self.owned).map(|at| {
                let (block, owner) = self.owned.swap_remove(at);
                let to = Order(self.below(u64::from(block.order().0) + 1) as u8);
                self.owned.extend(block.split(to).ok().unwrap().map(|part| (part, owner)));
            })),
            8 => drop(self.some(&self.borrowed).map(|at| {
                let local = arena.local().unwrap();
                local.free(self.borrowed.swap_remove(at).0);
            })),
            _ => drop(self.some(&self.borrowed).map(|at| self.borrowed.swap_remove(at))),
        }
    }

    fn compare(&self) {
        let borrowed = self.borrowed.iter().map(|(block, owner)| (block.frames(), Some(*owner)));
        let owned = self.owned.iter().map(|(block, owner)| (block.frames(), Some(*owner)));
        let all = borrowed.chain(owned).chain(self.raw.iter().copied());
        let tiles =
            all.flat_map(|(range, owner)| range.blocks(Order(30)).map(move |(pfn, order)| (pfn.0, (order, owner))));
        let model: BTreeMap<u64, (Order, Option<Owner>)> = tiles.collect();
        let listed = self.arena.owners().blocks().map(|block| (block.pfn.0, (block.order, block.owner)));
        assert_eq!(listed.collect::<BTreeMap<_, _>>(), model);
    }
}

#[test]
fn the_owners_agree_with_a_model_after_any_calls() {
    for seed in 0..8 {
        let arena = Arc::new(builder().build().unwrap());
        let rng = RefCell::new(Rng::new(seed));
        let mut play = Play { arena: &arena, rng, borrowed: vec![], owned: vec![], raw: vec![] };
        for _ in 0..400 {
            play.turn();
            play.compare();
        }
        (play.borrowed, play.owned) = (vec![], vec![]);
        play.compare();
        assert_eq!(arena.refused_frees(), 0);
    }
}

//! The lists of pages in use, and their lock: what a page fault takes besides the allocator's.
//!
//! Each node has a list of its pages, linked both ways through their descriptors, under one lock. A process gathers
//! the pages that it faults in, [`PAGEVEC`] at a time, and puts them on the list in one go; when it unmaps, they come
//! off the list in batches again. The links lie in the descriptors' lines where these are lines of their own, so that
//! who takes a page off also touches its neighbours', which other CPUs wrote.

use framewright::machine::{LockEvent, LockKind, LockName, Machine, Ordering, Patience, Word};
use framewright::{Pfn, Region};

use super::Ground;
use super::floor::Floor;
use crate::arena::Packing;
use crate::sim::Sim;
use crate::stage::Descriptors;
use crate::words::SimWord;

/// Pages that are put on a list in one go, as in Linux (`PAGEVEC_SIZE`).
pub(crate) const PAGEVEC: usize = 15;
/// Cycles to move a page, besides its links: its flags and the counts of pages in use. Assumed.
const MOVE: u32 = 40;
/// The list's own link, seen from its pages.
const HEAD: u32 = u32::MAX;

/// Links of a page or a list: to the page behind it and the one before.
struct Links {
    after: SimWord<u32>,
    before: SimWord<u32>,
}

impl Links {
    fn new() -> Links {
        Links { after: Word::new(HEAD), before: Word::new(HEAD) }
    }
}

/// One node's list and its lock: a ticket lock as the allocator's own.
#[repr(C, align(128))]
struct List {
    next: SimWord<u32>,
    serving: SimWord<u32>,
    head: Links,
}

/// See the module's description.
pub(crate) struct Lru<'a> {
    regions: Vec<Region>,
    lists: &'a [List],
    links: &'a [Links],
}

impl<'a> Lru<'a> {
    /// Bytes of a frame's links.
    pub(crate) const FRAME_BYTES: usize = size_of::<Links>();

    pub(crate) fn new(ground: &Ground<'a>) -> Lru<'a> {
        let (arena, map) = (ground.arena, ground.map);
        let packing = match (ground.descriptors, arena.number_of("frame states")) {
            (Descriptors::Line, Some(states)) => Packing::Over(states, size_of::<Links>() as u32),
            _ => Packing::Natural,
        };
        let frames = map.shape.regions.iter().map(|region| region.range.frames() as usize).sum();
        let lists: &[List] = arena.place("LRU list", (true, Packing::Natural), map.shape.regions.len(), |_| List {
            next: Word::new(0),
            serving: Word::new(0),
            head: Links::new(),
        });
        for (node, list) in lists.iter().enumerate() {
            for (word, field) in list.words() {
                let part = format!("LRU list of node {node}");
                arena.name(std::ptr::from_ref(word).addr(), 4, (part, field.to_owned()), Some(node));
            }
        }
        let links = arena.place("LRU links", (false, packing), frames, |_| Links::new());
        let each = map.shape.regions[0].range.frames() as usize;
        arena.set_homes("LRU links", |frame| frame / each);
        Lru { regions: map.shape.regions.clone(), lists, links }
    }

    /// Puts pages on their nodes' lists.
    pub(crate) fn add(&self, floor: &Floor<'_>, pages: &[Pfn]) {
        self.each_node(floor, pages, |list, page| {
            let first = list.head.after.load(Ordering::Relaxed);
            self.links[page as usize].after.store(first, Ordering::Relaxed);
            self.links[page as usize].before.store(HEAD, Ordering::Relaxed);
            list.head.after.store(page, Ordering::Relaxed);
            self.at(list, first).before.store(page, Ordering::Relaxed);
        });
    }

    /// Takes pages off their nodes' lists.
    pub(crate) fn remove(&self, floor: &Floor<'_>, pages: &[Pfn]) {
        self.each_node(floor, pages, |list, page| {
            let links = &self.links[page as usize];
            let (after, before) = (links.after.load(Ordering::Relaxed), links.before.load(Ordering::Relaxed));
            self.at(list, before).after.store(after, Ordering::Relaxed);
            self.at(list, after).before.store(before, Ordering::Relaxed);
        });
    }

    fn at<'l>(&'l self, list: &'l List, page: u32) -> &'l Links {
        if page == HEAD { &list.head } else { &self.links[page as usize] }
    }

    /// Calls `change` for each page under its node's lock, which is kept while the node stays the same.
    fn each_node(&self, floor: &Floor<'_>, pages: &[Pfn], change: impl Fn(&List, u32)) {
        let node = |pfn: &Pfn| self.regions.partition_point(|region| region.range.end <= *pfn);
        for run in pages.chunk_by(|one, other| node(one) == node(other)) {
            let number = node(&run[0]);
            let (list, name) = (&self.lists[number], LockName { kind: LockKind::Lru, index: number as u32 });
            let ticket = list.take(name);
            for pfn in run {
                floor.work(MOVE);
                change(list, (pfn.0 - self.regions[0].range.start.0) as u32);
            }
            list.release(ticket, name);
        }
    }
}

impl List {
    fn words(&self) -> [(&SimWord<u32>, &'static str); 4] {
        let Links { after, before } = &self.head;
        [(&self.next, "lock.next"), (&self.serving, "lock.serving"), (after, "first"), (before, "last")]
    }

    fn take(&self, name: LockName) -> u32 {
        Sim.lock(name, LockEvent::Wanted);
        let ticket = self.next.add(1, Ordering::Relaxed);
        let _ = self.serving.wait_while(Patience::Turn, |serving| serving != ticket);
        Sim.lock(name, LockEvent::Taken);
        ticket
    }

    fn release(&self, ticket: u32, name: LockName) {
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
        Sim.lock(name, LockEvent::Released);
    }
}

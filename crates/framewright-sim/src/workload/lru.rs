//! The lists of pages in use, and their lock: what a page fault takes besides the allocator's.
//!
//! Each node has a list of its pages. A process gathers the pages that it faults in, [`PAGEVEC`] at a time, and puts them on the
//! list in one go; when it unmaps, they come off the list, up to [`BATCH`] in one go. The lists are the core's own
//! ([`smp_list`]), of which they are the second user, and so is the lock ([`QueuedLock`]).
//!
//! - [`LruLists::Lock`]: as in Linux, lists are changed page by page by who has the node's lock alone.
//! - [`LruLists::Smp`]: by many CPUs at once, who share the lock against others (here there are none: nobody reclaims). A batch is put
//!   on by one splice, and each page comes off by itself.
//!
//! # What is touched
//!
//! The lines of Linux 4.18, with memory cgroups compiled in and all processes in one, as distributions have it:
//!
//! | line | touched |
//! |---|---|
//! | descriptor of the page (links, flags, references) | see below |
//! | the node's lock | by all; alone on its line |
//! | head of the list | by who adds |
//! | statistics of reclaim: pages added, and added as active | by who adds |
//! | size of the list | by all |
//! | what a CPU has counted, by node and by zone | by all; told when it is more than [`THRESHOLD`] |
//! | totals of the node, the zone, all nodes, all zones | by who tells: four atomics, under the lock |
//!
//! A batch has a reference to each of its pages until it is on the list, taken and given up outside of the lock. Under it, adding sets a flag of the
//! page (an atomic, then a full barrier); removing gives up the last reference (an atomic) and clears the flag.
//!
//! In `smp` mode there is an atomic for each batch where in `lock` mode there is an addition for each page: the size, the statistics.
//!
//! The head's, the statistics' and the size's lines are written one after the other, but none of them is an address for another, and all
//! three fit into what a core looks ahead. So a core asks for them at once: here, it asks for each before it uses the first.
//!
//! Pages are looked at (for a place in swap) before they come off, [`GATHER`] at a time, so that their own lines have come by the time that
//! the lock is held. Lines that are fetched under it are those of pages before and behind a batch, which others put on.
//!
//! # Assumed
//!
//! What is executed for a page under the lock, besides atomics: [`ADD`] and [`REMOVE`]. They count what is done, not what was measured.

mod check;

use framewright::machine::{LockEvent, LockKind, LockName, Machine, Ordering, Word};
use framewright::queued::{Places, QueuedLock};
use framewright::smp_list::{self, Links, Node};
use framewright::{Link, Pfn, Region};

use super::Ground;
use super::floor::Floor;
use super::page_fault::BATCH;
use super::settings::Choice;
use crate::engine::here;
use crate::engine::running::prefetch;
use crate::engine::sim::Sim;
use crate::engine::words::SimWord;
use crate::memory::arena::Packing;
use crate::stage::Descriptors;

/// Pages that are put on a list in one go, as in Linux (`PAGEVEC_SIZE`).
pub(crate) const PAGEVEC: usize = 15;
/// Pages that are unmapped before the first of them comes off its list: as many pointers as a page has room for beside the
/// batch's own words (`MAX_GATHER_BATCH`).
pub(crate) const GATHER: usize = 506;
/// Pages that a CPU counts before it tells: the most that Linux allows, and what it computes for a node of 32 GiB and 112 CPUs.
const THRESHOLD: i64 = 125;
/// Cycles to put a page on, besides atomics and words of the table above: some 155 instructions, four a cycle. A third of them keeps the four
/// counts, a sixth finds the list by node and cgroup, the rest asks whether the page may be evicted, and which list it belongs to.
const ADD: u32 = 39;
/// The same to take it off: some 170, of which a third keeps counts, and a quarter asks what kind of page it is.
const REMOVE: u32 = 43;
/// The flag of pages on a list, and the references that a page in use has.
const ON_LIST: u32 = 1;
const IN_USE: u32 = 1;

/// How the lists of pages in use are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LruLists {
    /// There are none.
    Off,
    /// By one CPU at a time.
    Lock,
    /// By any number at once.
    Smp,
}

impl Choice for LruLists {
    const NAMES: &'static [(&'static str, LruLists)] =
        &[("off", LruLists::Off), ("lock", LruLists::Lock), ("on", LruLists::Lock), ("smp", LruLists::Smp)];
}

/// Something on a line of its own.
#[repr(C, align(64))]
struct Line<T>(T);

/// What is said of a page besides the allocator's words.
#[repr(C)]
struct Page {
    link: Link<Sim>,
    flags: SimWord<u32>,
    references: SimWord<u32>,
}

/// One node's list.
#[repr(C, align(128))]
struct List {
    lock: Line<QueuedLock<Sim>>,
    head: Line<Link<Sim>>,
    /// Pages put on, and put on as active.
    recent: Line<[SimWord<u64>; 2]>,
    size: Line<SimWord<u64>>,
}

/// A number of pages on lists as [`Counts`] has it: of the node, and of the zone.
type Totals = [Line<SimWord<u64>>; 2];

/// What a CPU has not told the totals of a node. Less than nothing if the highest bit is set.
struct Counts([SimWord<u64>; 2]);

impl Places<Sim> for [Line<SimWord<u32>>] {
    fn place(&self, number: u16) -> Option<&SimWord<u32>> {
        self.get(usize::from(number) % self.len()).map(|Line(word)| word)
    }
}

/// See the module's description.
pub(crate) struct Lru<'a> {
    how: LruLists,
    regions: Vec<Region>,
    lists: &'a [List],
    pages: &'a [Page],
    /// Of each CPU, for each node.
    counts: &'a [Line<Counts>],
    /// Of each node, and of all.
    totals: &'a [Totals],
    /// Where CPUs wait for locks.
    places: &'a [Line<SimWord<u32>>],
}

impl Links<Sim> for Lru<'_> {
    fn link(&self, node: Node) -> Option<&Link<Sim>> {
        let number = node.0.checked_sub(1)? as usize;
        match number.checked_sub(self.lists.len()) {
            None => Some(&self.lists[number].head.0),
            Some(page) => self.pages.get(page).map(|page| &page.link),
        }
    }

    fn is_head(&self, node: Node) -> bool {
        (1..=self.lists.len()).contains(&(node.0 as usize))
    }
}

fn number() -> SimWord<u64> {
    Word::new(0)
}

/// Adds to a word that nobody else changes meanwhile.
fn increase(word: &SimWord<u64>, by: i64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}

impl<'a> Lru<'a> {
    /// Bytes of a frame's words.
    pub(crate) const FRAME_BYTES: usize = size_of::<Page>();

    /// Empty lists; none if there are to be none.
    pub(crate) fn new(ground: &Ground<'a>, how: LruLists) -> Option<Lru<'a>> {
        if how == LruLists::Off {
            return None;
        }
        let (arena, map, cpus) = (ground.arena, ground.map, ground.cpus);
        let packing = match (ground.descriptors, arena.number_of("frame states")) {
            (Descriptors::Line, Some(states)) => Packing::Over(states, size_of::<Page>() as u32),
            _ => Packing::Natural,
        };
        let regions = map.shape.regions.clone();
        let (nodes, frames) = (regions.len(), regions.iter().map(|region| region.range.frames() as usize).sum());
        let own = (true, Packing::Natural);
        let lists: &[List] = arena.place("LRU list", own, nodes, |_| List {
            lock: Line(QueuedLock::default()),
            head: Line(Link::default()),
            recent: Line([number(), number()]),
            size: Line(number()),
        });
        let page = |_| Page { link: Link::default(), flags: Word::new(0), references: Word::new(0) };
        let pages: &[Page] = arena.place("LRU pages", (false, packing), frames, page);
        let each = regions[0].range.frames() as usize;
        arena.set_homes("LRU pages", |frame| frame / each);
        let counts = |_| Line(Counts([number(), number()]));
        let counts: &[Line<Counts>] = arena.place("LRU counts", own, cpus * nodes, counts);
        arena.set_homes("LRU counts", |count| ground.model.topology.socket_of(count / nodes));
        let totals: &[Totals] = arena.place("LRU totals", own, nodes + 1, |_| [Line(number()), Line(number())]);
        arena.set_homes("LRU totals", |node| node % nodes);
        let places: &[Line<SimWord<u32>>] = arena.place("LRU waiting", own, cpus, |_| Line(Word::new(0)));
        let lru = Lru { how, regions, lists, pages, counts, totals, places };
        (1..=nodes as u32).for_each(|head| smp_list::make_empty(&lru, Node(head)));
        lists.iter().enumerate().for_each(|(node, list)| list.name(ground, node));
        Some(lru)
    }

    fn page(&self, pfn: Pfn) -> &Page {
        &self.pages[(pfn.0 - self.regions[0].range.start.0) as usize]
    }

    fn node_of(&self, pfn: Pfn) -> Node {
        let first = 1 + self.lists.len() as u64;
        Node((first + pfn.0 - self.regions[0].range.start.0) as u32)
    }

    fn home(&self, pfn: Pfn) -> usize {
        self.regions.partition_point(|region| region.range.end <= pfn)
    }

    /// A page that was just faulted in will be added.
    pub(crate) fn hold(&self, pfn: Pfn) {
        let references = &self.page(pfn).references;
        references.store(IN_USE, Ordering::Relaxed);
        references.add(1, Ordering::Relaxed);
    }

    /// Puts pages that are held on their nodes' lists.
    pub(crate) fn add(&self, floor: &Floor<'_>, pages: &[Pfn]) {
        for run in pages.chunk_by(|one, other| self.home(*one) == self.home(*other)) {
            match self.how {
                LruLists::Smp => self.splice(floor, run),
                _ => self.add_each(floor, run),
            }
        }
        pages.iter().for_each(|&pfn| _ = self.page(pfn).references.add(1_u32.wrapping_neg(), Ordering::AcqRel));
    }

    fn add_each(&self, floor: &Floor<'_>, pages: &[Pfn]) {
        let node = self.home(pages[0]);
        let (list, head) = (&self.lists[node], Node(1 + node as u32));
        self.locked(node, || {
            for (number, &pfn) in pages.iter().enumerate() {
                self.mark(floor, pfn);
                if number == 0 {
                    list.ask_for();
                }
                list.recent.0.iter().for_each(|count| increase(count, 1));
                self.count(node, 1);
                increase(&list.size.0, 1);
                let (page, first) = (self.node_of(pfn), smp_list::next(self, head));
                smp_list::chain(self, page, first);
                smp_list::chain(self, head, page);
            }
        });
    }

    fn splice(&self, floor: &Floor<'_>, pages: &[Pfn]) {
        let node = self.home(pages[0]);
        let list = &self.lists[node];
        pages.iter().for_each(|&pfn| self.mark(floor, pfn));
        // The last to come is the first, as one by one.
        pages.windows(2).for_each(|pair| smp_list::chain(self, self.node_of(pair[1]), self.node_of(pair[0])));
        let (first, last) = (self.node_of(pages[pages.len() - 1]), self.node_of(pages[0]));
        self.locked(node, || {
            smp_list::splice(&Sim, self, Node(1 + node as u32), first, last).expect("the list is whole");
            list.recent.0.iter().for_each(|count| _ = count.add(pages.len() as u64, Ordering::Relaxed));
            list.size.0.add(pages.len() as u64, Ordering::Relaxed);
            self.count(node, pages.len() as i64);
        });
    }

    /// All that is done to a page that is put on a list, but for the list.
    fn mark(&self, floor: &Floor<'_>, pfn: Pfn) {
        floor.work(ADD);
        self.page(pfn).flags.swap(ON_LIST, Ordering::AcqRel);
        // Who locks the page in memory sees the flag, or this CPU sees that it is locked.
        Sim.fence();
    }

    /// Looks at pages that will soon be removed.
    pub(crate) fn look_at(&self, pages: &[Pfn]) {
        pages.iter().for_each(|&pfn| _ = self.page(pfn).flags.load(Ordering::Relaxed));
    }

    /// Takes pages off their nodes' lists.
    pub(crate) fn remove(&self, floor: &Floor<'_>, pages: &[Pfn]) {
        let batches = pages.chunks(BATCH);
        for run in batches.flat_map(|batch| batch.chunk_by(|one, other| self.home(*one) == self.home(*other))) {
            let node = self.home(run[0]);
            self.locked(node, || self.remove_run(floor, node, run));
        }
    }

    fn remove_run(&self, floor: &Floor<'_>, node: usize, pages: &[Pfn]) {
        let size = &self.lists[node].size.0;
        for &pfn in pages {
            floor.work(REMOVE);
            let page = self.page(pfn);
            page.references.add(1_u32.wrapping_neg(), Ordering::AcqRel);
            page.flags.store(0, Ordering::Relaxed);
            if self.how == LruLists::Smp {
                smp_list::del(&Sim, self, self.node_of(pfn)).expect("the page is on its list");
                continue;
            }
            let here = self.node_of(pfn);
            smp_list::chain(self, smp_list::prev(self, here), smp_list::next(self, here));
            page.link.words().into_iter().for_each(|(_, word)| word.store(0, Ordering::Relaxed));
            self.count(node, -1);
            increase(size, -1);
        }
        if self.how == LruLists::Smp {
            size.add((pages.len() as u64).wrapping_neg(), Ordering::Relaxed);
            self.count(node, -(pages.len() as i64));
        }
    }

    /// The running CPU has put so many pages on a node's list, or taken them off. It alone has its counts.
    fn count(&self, node: usize, pages: i64) {
        let Line(Counts(own)) = &self.counts[here::cpu() * self.lists.len() + node];
        let all = &self.totals[self.lists.len()];
        for ((own, Line(total)), Line(all)) in own.iter().zip(&self.totals[node]).zip(all) {
            let now = own.load(Ordering::Relaxed).wrapping_add_signed(pages);
            let is_much = (now as i64).abs() > THRESHOLD;
            if is_much {
                total.add(now, Ordering::Relaxed);
                all.add(now, Ordering::Relaxed);
            }
            own.store(if is_much { 0 } else { now }, Ordering::Relaxed);
        }
    }

    /// Does `work` with a node's lock held: alone, or together with others who do such work.
    fn locked(&self, node: usize, work: impl FnOnce()) {
        let (lock, name) = (&self.lists[node].lock.0, LockName { kind: LockKind::Lru, index: node as u32 });
        let _irq = Sim.irq_save();
        Sim.lock(name, LockEvent::Wanted);
        if self.how == LruLists::Smp {
            lock.take_shared(self.places);
            Sim.lock(name, LockEvent::Taken);
            work();
            lock.release_shared();
        } else {
            let ticket = lock.take(self.places);
            Sim.lock(name, LockEvent::Taken);
            work();
            lock.release(&ticket, self.places);
        }
        Sim.lock(name, LockEvent::Released);
    }
}

impl List {
    /// What a core has under way at the same time.
    fn ask_for(&self) {
        prefetch(&self.recent.0);
        prefetch(&self.size.0);
        prefetch(&self.head.0);
    }

    fn name(&self, ground: &Ground<'_>, node: usize) {
        let name = |address: usize, bytes: usize, field: &str| {
            let part = format!("LRU list of node {node}");
            ground.arena.name(address, bytes, (part, field.to_owned()), Some(node));
        };
        name(std::ptr::from_ref(&self.lock.0).addr(), size_of_val(&self.lock.0), "lock");
        for ((_, word), field) in self.head.0.words().into_iter().zip(["first", "last"]) {
            name(std::ptr::from_ref(word).addr(), size_of_val(word), field);
        }
        for (word, field) in self.recent.0.iter().zip(["recent.scanned", "recent.rotated"]) {
            name(std::ptr::from_ref(word).addr(), size_of_val(word), field);
        }
        name(std::ptr::from_ref(&self.size.0).addr(), size_of_val(&self.size.0), "size");
    }
}

//! The LRU lists: what CPUs do to them, word by word.

use framewright::machine::{LockEvent, LockKind, LockName, Machine, Ordering, Word};
use framewright::queued_lock::{QueuedLock, WaitSlots};
use framewright::smp_list::{self, Links, Node};
use framewright::{Link, Pfn, Region};

use crate::engine::here;
use crate::engine::running::prefetch;
use crate::engine::sim::Sim;
use crate::engine::words::SimWord;
use crate::memory::arena::Packing;
use crate::settings::Choice;
use crate::stage::Descriptors;
use crate::workload::floor::{BATCH, Floor};
use crate::workload::play::Ground;

/// Pages that are unmapped before the first comes off its list (`MAX_GATHER_BATCH`).
///
/// A page has room for this many pointers beside the batch's own words.
pub(crate) const GATHER: usize = 506;
/// Pages that a CPU counts before it adds them to the totals.
///
/// The most that Linux allows, and what it computes for a node of 32 GiB and 112 CPUs.
const THRESHOLD: i64 = 125;
/// Cycles to add a page, besides atomics and the words of the table: some 155 instructions, four a cycle.
///
/// A third of them keeps the four counts and a sixth finds the list by node and cgroup. The rest asks whether the page
/// may be evicted, and which list it belongs to.
const ADD: u32 = 39;
/// Cycles to remove a page: some 170 instructions, four a cycle.
///
/// A third of them keeps counts and a quarter asks what kind of page it is.
const REMOVE: u32 = 43;
/// The flag of pages on a list, and the references that a page in use has.
pub(super) const ON_LIST: u32 = 1;
pub(super) const IN_USE: u32 = 1;

/// How the lists of pages in use are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LruLists {
    /// There are no lists.
    Off,
    /// One CPU at a time changes a list.
    Lock,
    /// Any number of CPUs at once change a list.
    Smp,
}

impl Choice for LruLists {
    const NAMES: &'static [(&'static str, LruLists)] =
        &[("off", LruLists::Off), ("lock", LruLists::Lock), ("on", LruLists::Lock), ("smp", LruLists::Smp)];
}

/// A value on a line of its own.
#[repr(C, align(64))]
pub(super) struct Padded<T>(pub(super) T);

/// The words of a page besides the allocator's.
#[repr(C)]
pub(super) struct LruPage {
    pub(super) link: Link<Sim>,
    pub(super) flags: SimWord<u32>,
    pub(super) references: SimWord<u32>,
}

/// One node's list.
#[repr(C, align(128))]
pub(super) struct LruList {
    lock: Padded<QueuedLock<Sim>>,
    head: Padded<Link<Sim>>,
    /// Pages added, and pages added as active.
    recent: Padded<[SimWord<u64>; 2]>,
    pub(super) size: Padded<SimWord<u64>>,
}

/// Pages on lists: of the node, and of the zone.
pub(super) type Totals = [Padded<SimWord<u64>>; 2];

/// Pages that a CPU has not added to a node's totals yet, in two's complement.
pub(super) struct CpuCounts(pub(super) [SimWord<u64>; 2]);

impl WaitSlots<Sim> for [Padded<SimWord<u32>>] {
    fn place(&self, number: u16) -> Option<&SimWord<u32>> {
        self.get(usize::from(number) % self.len()).map(|Padded(word)| word)
    }
}

/// The LRU lists of all nodes.
pub(crate) struct Lru<'a> {
    how: LruLists,
    pub(super) regions: Vec<Region>,
    pub(super) lists: &'a [LruList],
    pub(super) pages: &'a [LruPage],
    /// Counts of each CPU, for each node.
    pub(super) counts: &'a [Padded<CpuCounts>],
    /// Totals of each node, and of all nodes.
    pub(super) totals: &'a [Totals],
    /// Words on which CPUs wait for locks.
    places: &'a [Padded<SimWord<u32>>],
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

/// Adds to a word that no other CPU changes meanwhile.
pub(super) fn increase(word: &SimWord<u64>, by: i64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}

impl<'a> Lru<'a> {
    /// Bytes of a frame's words.
    pub(crate) const FRAME_BYTES: usize = size_of::<LruPage>();

    /// Makes empty lists; `None` if there are to be none.
    pub(crate) fn new(ground: &Ground<'a>, how: LruLists) -> Option<Lru<'a>> {
        if how == LruLists::Off {
            return None;
        }
        let (arena, map, cpus) = (ground.arena, ground.map, ground.cpus);
        let packing = match (ground.descriptors, arena.number_of("frame states")) {
            (Descriptors::Line, Some(states)) => Packing::Over(states, size_of::<LruPage>() as u32),
            _ => Packing::Natural,
        };
        let regions = map.shape.regions.clone();
        let (nodes, frames) = (regions.len(), regions.iter().map(|region| region.range.frames() as usize).sum());
        let own = (true, Packing::Natural);
        let lists: &[LruList] = arena.place("LRU list", own, nodes, |_| LruList {
            lock: Padded(QueuedLock::default()),
            head: Padded(Link::default()),
            recent: Padded([number(), number()]),
            size: Padded(number()),
        });
        let page = |_| LruPage { link: Link::default(), flags: Word::new(0), references: Word::new(0) };
        let pages: &[LruPage] = arena.place("LRU pages", (false, packing), frames, page);
        let each = regions[0].range.frames() as usize;
        arena.set_homes("LRU pages", |frame| frame / each);
        let counts = |_| Padded(CpuCounts([number(), number()]));
        let counts: &[Padded<CpuCounts>] = arena.place("LRU counts", own, cpus * nodes, counts);
        arena.set_homes("LRU counts", |count| ground.model.topology.socket_of(count / nodes));
        let totals: &[Totals] = arena.place("LRU totals", own, nodes + 1, |_| [Padded(number()), Padded(number())]);
        arena.set_homes("LRU totals", |node| node % nodes);
        let places: &[Padded<SimWord<u32>>] = arena.place("LRU waiting", own, cpus, |_| Padded(Word::new(0)));
        let lru = Lru { how, regions, lists, pages, counts, totals, places };
        (1..=nodes as u32).for_each(|head| smp_list::make_empty(&lru, Node(head)));
        lists.iter().enumerate().for_each(|(node, list)| list.name(ground, node));
        Some(lru)
    }

    pub(super) fn page(&self, pfn: Pfn) -> &LruPage {
        &self.pages[(pfn.0 - self.regions[0].range.start.0) as usize]
    }

    pub(super) fn node_of(&self, pfn: Pfn) -> Node {
        let first = 1 + self.lists.len() as u64;
        Node((first + pfn.0 - self.regions[0].range.start.0) as u32)
    }

    pub(super) fn home(&self, pfn: Pfn) -> usize {
        self.regions.partition_point(|region| region.range.end <= pfn)
    }

    /// Takes the references of a page that was just faulted in and will be added.
    pub(crate) fn hold(&self, pfn: Pfn) {
        let references = &self.page(pfn).references;
        references.store(IN_USE, Ordering::Relaxed);
        references.add(1, Ordering::Relaxed);
    }

    /// Adds held pages to their nodes' lists.
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
        // The last page becomes the first, as when adding one by one.
        pages.windows(2).for_each(|pair| smp_list::chain(self, self.node_of(pair[1]), self.node_of(pair[0])));
        let (first, last) = (self.node_of(pages[pages.len() - 1]), self.node_of(pages[0]));
        self.locked(node, || {
            smp_list::splice(&Sim, self, Node(1 + node as u32), first, last).expect("the list is whole");
            list.recent.0.iter().for_each(|count| _ = count.add(pages.len() as u64, Ordering::Relaxed));
            list.size.0.add(pages.len() as u64, Ordering::Relaxed);
            self.count(node, pages.len() as i64);
        });
    }

    /// Marks a page that is added to a list.
    fn mark(&self, floor: &Floor<'_>, pfn: Pfn) {
        floor.work(ADD);
        self.page(pfn).flags.swap(ON_LIST, Ordering::AcqRel);
        // A CPU that locks the page in memory sees the flag, or this CPU sees that the page is locked.
        Sim.fence();
    }

    /// Reads the words of pages that will soon be removed.
    pub(crate) fn look_at(&self, pages: &[Pfn]) {
        pages.iter().for_each(|&pfn| _ = self.page(pfn).flags.load(Ordering::Relaxed));
    }

    /// Removes pages from their nodes' lists.
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

    /// Counts pages that the running CPU added to a node's list, or removed.
    ///
    /// No other CPU changes its counts.
    fn count(&self, node: usize, pages: i64) {
        let Padded(CpuCounts(own)) = &self.counts[here::cpu() * self.lists.len() + node];
        let all = &self.totals[self.lists.len()];
        for ((own, Padded(total)), Padded(all)) in own.iter().zip(&self.totals[node]).zip(all) {
            let now = own.load(Ordering::Relaxed).wrapping_add_signed(pages);
            let is_much = (now as i64).abs() > THRESHOLD;
            if is_much {
                total.add(now, Ordering::Relaxed);
                all.add(now, Ordering::Relaxed);
            }
            own.store(if is_much { 0 } else { now }, Ordering::Relaxed);
        }
    }

    /// Does `work` with a node's lock held: alone, or shared with others that change the list.
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

impl LruList {
    /// Prefetches the lines that a core fetches at once.
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

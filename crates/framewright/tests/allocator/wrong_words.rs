//! One word that reads as another value: which invariant notices.
//!
//! Every word of an allocator at rest is made wrong in turn, and `validate` is asked. The tables say, for each kind of
//! word, what it answers: the invariants it finds violated, `-` where a wrong value of this word violates none, and `waits`
//! where a lock seems to be held. A word without `-` cannot be damaged unnoticed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use framewright::machine::{Busy, Machine, NoPerCpu, Ordering, Patience, Pinned, Word};
use framewright::request::{__GFP_HIGH, __GFP_MOVABLE, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT};
use framewright::watermark::{Marks, PcpSize};
use framewright::{
    Allocator, Config, CpuId, Geometry, Layout, Mechanisms, NodeId, Order, Pfn, Region, Request, Tuning, ZoneIdx,
    ZoneKind,
};
use framewright_rt::Storage;

thread_local! {
    static CPU: Cell<CpuId> = const { Cell::new(CpuId(0)) };
    /// Address of the word that is wrong, and by how much.
    static WRONG: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// The payload with which a wait unwinds: no other thread runs that could end it.
struct Waits;

/// A word that may read as another value than was stored.
struct Doubtful<T>(Cell<T>);

macro_rules! doubtful_words {
    ($($int:ty),+) => { $(
        impl Word<$int> for Doubtful<$int> {
            fn new(value: $int) -> Self {
                Doubtful(Cell::new(value))
            }

            fn load(&self, _: Ordering) -> $int {
                let (address, by) = WRONG.get();
                let is_wrong = address == std::ptr::from_ref(self).addr();
                self.0.get().wrapping_add(if is_wrong { by as $int } else { 0 })
            }

            fn store(&self, value: $int, _: Ordering) {
                self.0.set(value);
            }

            fn swap(&self, value: $int, order: Ordering) -> $int {
                let before = self.load(order);
                self.store(value, order);
                before
            }

            fn cas(&self, current: $int, new: $int, order: Ordering) -> Result<$int, $int> {
                match self.load(order) {
                    now if now == current => Ok(self.swap(new, order)),
                    now => Err(now),
                }
            }

            fn add(&self, value: $int, order: Ordering) -> $int {
                self.swap(self.load(order).wrapping_add(value), order)
            }

            fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
                let value = self.load(Ordering::Acquire);
                match patience {
                    _ if !waiting(value) => Ok(value),
                    Patience::Turn => resume_unwind(Box::new(Waits)),
                    Patience::Tries(_) => Err(Busy),
                }
            }
        }
    )+ };
}

doubtful_words!(u8, u16, u32, u64, usize);

struct Here;

impl Pinned for Here {
    fn cpu(&self) -> CpuId {
        CPU.get()
    }

    fn node(&self) -> NodeId {
        NodeId(0)
    }
}

/// One thread that plays all CPUs.
struct Doubt;

impl Machine for Doubt {
    type U8 = Doubtful<u8>;
    type U16 = Doubtful<u16>;
    type U32 = Doubtful<u32>;
    type U64 = Doubtful<u64>;
    type Usize = Doubtful<usize>;
    type Pin<'a> = Here;
    type Irq<'a> = ();
    type PerCpu<T> = NoPerCpu;

    fn pin(&self) -> Here {
        Here
    }

    fn irq_save(&self) {}

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn fence(&self) {}
}

type Pages = Allocator<'static, Doubt>;

const CPUS: [NodeId; 2] = [NodeId(0), NodeId(0)];
const GEOMETRY: Geometry = Geometry { page_shift: 12, max_order: Order(4), pageblock_order: Order(2) };

/// Zone DMA of 16 frames and Normal of 80, of which 4 are reserved.
fn boot(mechanisms: &str) -> &'static Pages {
    let map = [Region::usable(0, 0x5c, 0), Region::reserved(0x5c, 0x60, 0)];
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
    let marks = Some(Marks { min: 2, low: 3, high: 4 });
    let tuning = [Tuning { zone, marks, reserve: None, pcp: Some(PcpSize { batch: 2, high: 6 }) }];
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    let limits = Config { geometry: GEOMETRY, dma_end: Pfn(0x10), dma32_end: Pfn(0), ..Config::new(&map, &CPUS) };
    let counters = Config { zone_counters: &["pagecache"], node_counters: &["slab"], ..limits };
    let config = Config { tuning: &tuning, mechanisms, ..counters };
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    Box::leak(Box::new(Allocator::boot(Doubt, &config, storage.parts()).unwrap()))
}

/// Leaves blocks everywhere: allocated, on lists of both CPUs, free in both zones and of several types.
fn use_some(pages: &Pages) {
    let gfps = [GFP_KERNEL, GFP_NOWAIT | __GFP_MOVABLE, GFP_ATOMIC | __GFP_HIGH];
    let requests = (0..20).map(|turn| Request::new(gfps[turn % 3], [0, 1, 0, 2][turn % 4]));
    let mut taken = Vec::new();
    for (turn, request) in requests.enumerate() {
        CPU.set(CpuId((turn % 2) as u16));
        taken.extend(pages.alloc(&request).map(|pfn| (pfn, request.order)));
    }
    assert!(taken.len() > 15, "{} blocks", taken.len());
    for (turn, (pfn, order)) in taken.into_iter().enumerate().filter(|(turn, _)| turn % 3 != 0) {
        CPU.set(CpuId((turn / 3 % 2) as u16));
        pages.free(pfn, order).unwrap();
    }
    CPU.set(CpuId(0));
    pages.count_in_zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal), 0, 3);
    pages.validate().unwrap_or_else(|violation| panic!("{violation}"));
}

/// Returns for each kind of word what `validate` answers when it is wrong.
fn answers(mechanisms: &str) -> BTreeMap<String, BTreeSet<&'static str>> {
    let pages = boot(mechanisms);
    use_some(pages);
    let mut words = Vec::new();
    pages.fields(&mut |field| {
        let name = format!("{}: {}", field.part, field.name);
        words.extend((0..field.count).map(|at| (name.clone(), field.address + at * field.size)));
    });
    let mut answers: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (name, address) in words {
        for by in [1, u64::MAX, 1 << 5] {
            WRONG.set((address, by));
            let answer = catch_unwind(AssertUnwindSafe(|| pages.validate()));
            WRONG.set((0, 0));
            let answer = match answer {
                Ok(Ok(_)) => "-",
                Ok(Err(violation)) => violation.invariant,
                Err(payload) if payload.is::<Waits>() => "waits",
                Err(payload) => resume_unwind(payload),
            };
            answers.entry(name.clone()).or_default().insert(answer);
        }
    }
    answers
}

#[test]
fn a_wrong_word_is_noticed() {
    for mechanisms in ["baseline", "default", "owned-pageblocks", "no_merge+cluster_alloc"] {
        println!("== {mechanisms}");
        for (name, found) in answers(mechanisms) {
            println!("{name}: {}", found.into_iter().collect::<Vec<_>>().join(" "));
        }
    }
}

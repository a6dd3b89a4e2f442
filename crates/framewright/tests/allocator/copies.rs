//! Copies of an allocator, made at every point where a CPU has just written a word.
//!
//! A process that forks copies an allocator while other CPUs work in it. [`Allocator::freeze`] waits for most of them,
//! and in the copy [`framewright::Frozen::settle`] finishes the work of the others. Here a CPU makes one call after the
//! other, and after each of its stores another one freezes, copies and settles. If freezing would wait there, that is
//! right. If not, every invariant must hold in the copy, and nothing may be missing after any call.

use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::copied::{Copied, Waits, copy, put_back, run_on, running_cpu, unwatch, watch};
use framewright::mechanisms::PRESETS;
use framewright::report::Source;
use framewright::request::{__GFP_MOVABLE, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT, Gfp};
use framewright::watermark::{Marks, PcpSize};
use framewright::{
    Allocator, Config, CpuId, Geometry, Layout, Mechanisms, MigrateType, NodeId, Order, Pfn, PfnRange, Region, Request,
    Tuning, ZoneIdx, ZoneKind,
};
use framewright_rt::Storage;

type Pages = &'static Allocator<'static, Copied>;

/// The CPU at work, and the one that copies.
const WORKER: CpuId = CpuId(1);
const OTHER: CpuId = CpuId(0);
const CPUS: [NodeId; 2] = [NodeId(0); 2];
const FRAMES: u64 = 0x140;
const GEOMETRY: Geometry = Geometry { page_shift: 12, max_order: Order(5), pageblock_order: Order(4) };
const ZONE: ZoneIdx = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
const MOVABLE: Gfp = Gfp(GFP_NOWAIT.0 | __GFP_MOVABLE.0);

fn boot(mechanisms: Mechanisms) -> Pages {
    let map = [Region::usable(0, FRAMES, 0)];
    let pcp = Some(PcpSize { batch: 2, high: 6 });
    let tuning = [Tuning { zone: ZONE, marks: Some(Marks::default()), reserve: Some([0; ZoneKind::COUNT]), pcp }];
    let limits = Config { geometry: GEOMETRY, dma_end: Pfn(0), dma32_end: Pfn(0), ..Config::new(&map, &CPUS) };
    let config = Config { tuning: &tuning, mechanisms, ..limits };
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    Box::leak(Box::new(Allocator::boot(Copied, &config, storage.parts()).unwrap()))
}

/// The state of a copy.
enum Found {
    /// There would be none: the freezing CPU waits.
    Waits,
    Whole,
    Wrong(String),
}

/// Takes a few blocks of each kind and gives them back, as both CPUs.
fn use_lists(pages: Pages) {
    for cpu in [WORKER, OTHER] {
        run_on(cpu);
        for (order, gfp) in [0, 1, 3, 4].into_iter().flat_map(|order| [(order, MOVABLE), (order, GFP_NOWAIT)]) {
            let taken: Vec<_> = (0..3).map_while(|_| pages.alloc(&Request::new(gfp, order)).ok()).collect();
            taken.into_iter().for_each(|pfn| pages.free(pfn, Order(order)).unwrap());
        }
    }
}

/// Checks a copy of the allocator at this moment.
fn look(pages: Pages) -> Result<(), String> {
    let validate = |when: &str| pages.validate().map_err(|violation| format!("{when}: {violation}"));
    let first = validate("at first")?;
    let freed = pages.events().pgfree;
    if freed > u64::MAX / 2 {
        return Err(format!("{freed} frames are said to be freed"));
    }
    use_lists(pages);
    validate("used")?;
    pages.drain_all();
    let last = validate("drained")?;
    if first.allocated != last.allocated || last.pcp + last.isolated != 0 {
        return Err(format!("at first {first:?}, drained {last:?}"));
    }
    Ok(())
}

fn look_at_copy(pages: Pages) -> Found {
    let (original, cpu) = (copy(), running_cpu());
    let found = catch_unwind(AssertUnwindSafe(|| {
        run_on(OTHER);
        let Some(frozen) = pages.freeze() else { return Found::Waits };
        frozen.settle();
        drop(frozen);
        look(pages).map_or_else(Found::Wrong, |()| Found::Whole)
    }));
    put_back(&original);
    run_on(cpu);
    found.unwrap_or_else(|why| {
        if why.is::<Waits>() {
            return Found::Waits;
        }
        let text = why.downcast_ref::<String>().map(String::as_str);
        Found::Wrong(format!("panicked: {}", text.or(why.downcast_ref::<&str>().copied()).unwrap_or("")))
    })
}

/// The name of calls at which no copy is made.
const FILLING: &str = "filling lists";

/// The findings, by the call of the CPU at work.
#[derive(Default)]
struct Findings {
    doing: &'static str,
    whole: u32,
    waits: u32,
    wrong: String,
}

/// A CPU at work, one call after the other.
struct Work {
    pages: Pages,
    findings: Rc<RefCell<Findings>>,
}

impl Work {
    fn say(&self, doing: &'static str) {
        self.findings.borrow_mut().doing = doing;
    }

    fn alloc(&self, gfp: Gfp, order: u8, count: usize) -> Vec<Pfn> {
        (0..count).map_while(|_| self.pages.alloc(&Request::new(gfp, order)).ok()).collect()
    }

    fn free(&self, blocks: Vec<Pfn>, order: u8) {
        blocks.into_iter().for_each(|pfn| self.pages.free(pfn, Order(order)).unwrap());
    }

    fn alloc_and_free(&self, gfp: Gfp, order: u8, count: usize) {
        let blocks = self.alloc(gfp, order, count);
        self.free(blocks, order);
    }

    /// Leaves blocks on this CPU's lists and in the depot.
    fn fill(&self) {
        for (order, count) in [(0, 24), (1, 10), (3, 5), (4, 2)] {
            self.alloc_and_free(MOVABLE, order, count);
        }
    }

    fn blocks(&self) {
        for (doing, gfp, order, count) in [
            ("single pages", MOVABLE, 0, 30),
            ("pairs", MOVABLE, 1, 12),
            ("blocks of order 3", GFP_NOWAIT, 3, 6),
            ("pageblocks", MOVABLE, 4, 4),
            ("the largest blocks", MOVABLE, 5, 3),
            ("pages from a reserve", GFP_ATOMIC, 2, 4),
        ] {
            self.say(doing);
            self.alloc_and_free(gfp, order, count);
        }
        self.say("many at once");
        let mut many = [Pfn(0); 20];
        let count = self.pages.alloc_bulk(&Request::new(MOVABLE, 0), &mut many).unwrap();
        self.pages.free_bulk(&many[..count], Order(0));
        self.say("a caller that stays");
        let local = self.pages.local().unwrap();
        let blocks: Vec<_> = (0..12).map(|_| local.alloc(&Request::new(MOVABLE, 0)).unwrap()).collect();
        blocks.into_iter().for_each(|pfn| local.free(pfn, Order(0)).unwrap());
    }

    fn parts(&self) {
        self.say("a split");
        let pfn = self.alloc(MOVABLE, 3, 1)[0];
        self.pages.split(pfn, Order(3), Order(1)).unwrap();
        self.say("a part of a block");
        self.pages.free_range(PfnRange { start: pfn.add(1), end: pfn.add(4) }).unwrap();
        self.pages.free_range(PfnRange { start: pfn.add(4), end: pfn.add(8) }).unwrap();
        self.pages.free(pfn, Order(0)).unwrap();
    }

    fn ranges(&self) {
        self.say("a range");
        let range = PfnRange::new(0x55, 0x7d);
        for range in [range, PfnRange::new(0x3, 0x15)] {
            self.pages.alloc_range(range, MOVABLE).unwrap();
            self.pages.free_range(range).unwrap();
        }
        self.say("memory that goes and comes");
        self.pages.take_offline(range).unwrap();
        assert_eq!(self.pages.bring_online(range), range.frames());
        self.say("a block by its place");
        self.pages.alloc_at(Pfn(0x88), Order(3), MOVABLE).unwrap();
        self.pages.free(Pfn(0x88), Order(3)).unwrap();
        self.say("a long range");
        let long = self.pages.alloc_contig(70, Order(0), &Request::new(MOVABLE, 0)).unwrap();
        self.pages.free_range(long).unwrap();
        self.say("another type");
        self.pages.set_pageblock_type(Pfn(0x20), MigrateType::Reclaimable).unwrap();
        self.pages.set_pageblock_type(Pfn(0x20), MigrateType::Movable).unwrap();
    }

    fn drain(&self, doing: &'static str, drain: impl Fn() -> u64) {
        self.say(FILLING);
        self.fill();
        run_on(OTHER);
        self.fill();
        run_on(WORKER);
        self.say(doing);
        drain();
    }

    fn drains(&self) {
        self.drain("a drain of a depot", || self.pages.drain_depot(ZONE));
        self.drain("a drain of lists", || self.pages.drain_cpu(WORKER));
        self.drain("a drain of owned pageblocks", || self.pages.drain_owned(ZONE));
        self.drain("a drain of all", || self.pages.drain_all());
        self.drain("a CPU that goes", || self.pages.offline_cpu(OTHER));
        self.say(FILLING);
        self.fill();
        self.say("taking all there is");
        let all = self.alloc(GFP_KERNEL, 1, usize::MAX);
        self.say("giving all of it back");
        self.free(all, 1);
    }
}

/// Makes all kinds of calls as one CPU, and checks a copy after each store.
fn copy_all_along(mechanisms: Mechanisms) -> Findings {
    let pages = boot(mechanisms);
    let findings = Rc::new(RefCell::new(Findings::default()));
    let work = Work { pages, findings: Rc::clone(&findings) };
    run_on(WORKER);
    let noted = Rc::clone(&findings);
    let mut last = "";
    watch(move || {
        if noted.borrow().doing == FILLING {
            return;
        }
        let found = look_at_copy(pages);
        let mut findings = noted.borrow_mut();
        match found {
            Found::Waits => findings.waits += 1,
            Found::Whole => findings.whole += 1,
            // The first of each kind.
            Found::Wrong(_) if findings.doing == last => {}
            Found::Wrong(wrong) => {
                last = findings.doing;
                let _ = writeln!(findings.wrong, "{last}: {wrong}");
            }
        }
    });
    work.blocks();
    work.parts();
    work.ranges();
    work.drains();
    unwatch();
    pages.validate().unwrap();
    findings.take()
}

#[test]
fn a_copy_of_any_moment_is_whole() {
    let mut wrong = String::new();
    let more = ["default,refill=blocks", "default,hardened=poison", "default,zone-lock=rw,free-path=splice"];
    for name in PRESETS.iter().map(|(name, _)| *name).chain(more) {
        let found = copy_all_along(Mechanisms::parse(name).unwrap());
        println!("{name}: {} copies, {} waits", found.whole, found.waits);
        assert!(found.whole > 500 && found.waits > 5000, "{name}");
        found.wrong.lines().for_each(|line| writeln!(wrong, "{name}: {line}").unwrap());
    }
    assert!(wrong.is_empty(), "{wrong}");
}

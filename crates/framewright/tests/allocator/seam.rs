//! The core's calls of its machine besides accesses: locks and steps.

use std::collections::BTreeMap;
use std::sync::Mutex;

use framewright::machine::{LockEvent, LockKind, LockName, Machine, Step};
use framewright::mechanisms::PcpProtection;
use framewright::request::GFP_KERNEL;
use framewright::{
    Allocator, BootError, Config, CpuId, Layout, Mechanisms, NodeId, Order, Pfn, Region, Request, ZoneIdx, ZoneKind,
};
use framewright_rt::{Native, Storage};

use crate::threads::runs_on_threads;

const CPUS: [NodeId; 2] = [NodeId(0); 2];

/// Threads, with a record of the machine's calls.
struct Listening {
    threads: Native,
    keeps_interrupts_apart: bool,
    locks: Mutex<Vec<(LockName, LockEvent)>>,
    steps: Mutex<BTreeMap<Step, u64>>,
}

impl Machine for Listening {
    runs_on_threads!(threads);

    fn keeps_interrupts_apart(&self) -> bool {
        self.keeps_interrupts_apart
    }

    fn lock(&self, lock: LockName, event: LockEvent) {
        self.locks.lock().unwrap().push((lock, event));
    }

    fn step(&self, step: Step) {
        *self.steps.lock().unwrap().entry(step).or_default() += 1;
    }
}

fn listening(keeps_interrupts_apart: bool) -> Listening {
    let (threads, locks, steps) = (Native::new(&CPUS), Mutex::default(), Mutex::default());
    Listening { threads, keeps_interrupts_apart, locks, steps }
}

fn with_pages(test: impl FnOnce(&Allocator<'_, Listening>)) {
    with_mechanisms(Mechanisms::DEFAULT, test);
}

fn with_mechanisms(mechanisms: Mechanisms, test: impl FnOnce(&Allocator<'_, Listening>)) {
    let map = [Region::usable(0, 0x10000, 0)];
    let config = Config { mechanisms, dma_end: Pfn(0), dma32_end: Pfn(0), ..Config::new(&map, &CPUS) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    test(&Allocator::boot(listening(true), &config, storage.parts()).unwrap());
}

/// Where an interrupt may come to the lists of the CPU that it meets, something has to keep it off.
#[test]
fn lists_of_interrupts_own_ask_for_a_machine_that_has_them() {
    let map = [Region::usable(0, 0x10000, 0)];
    for &pcp_protection in PcpProtection::ALL {
        let mechanisms = Mechanisms { pcp_protection, ..Mechanisms::DEFAULT };
        let config = Config { mechanisms, ..Config::new(&map, &CPUS) };
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let booted = Allocator::boot(listening(false), &config, storage.parts()).map(drop);
        let refused = (pcp_protection == PcpProtection::OwnLists).then_some(BootError::Interrupts);
        assert_eq!(booted.err(), refused, "{}", pcp_protection.name());
    }
}

/// Allocates and frees so much that every kind of lock is taken.
fn use_all_locks(pages: &Allocator<'_, Listening>) {
    let request = Request::page(GFP_KERNEL);
    let taken: Vec<_> = (0..3000).map(|_| pages.alloc(&request).unwrap()).collect();
    taken.into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
    pages.drain_cpu(CpuId(0));
    pages.drain_all();
    drop(pages.freeze());
}

/// Notes a lock's event, which must follow the last one: it is wanted, taken, released.
pub(crate) fn assert_in_turn(last: &mut BTreeMap<LockName, LockEvent>, lock: LockName, event: LockEvent) {
    let before = last.insert(lock, event).unwrap_or(LockEvent::Released);
    let expected = match before {
        LockEvent::Released => LockEvent::Wanted,
        LockEvent::Wanted => LockEvent::Taken,
        LockEvent::Taken => LockEvent::Released,
    };
    assert_eq!(event, expected, "{lock}");
}

#[test]
fn a_lock_is_wanted_then_taken_then_released() {
    with_pages(|pages| {
        use_all_locks(pages);
        let events = pages.machine().locks.lock().unwrap();
        let mut last = BTreeMap::new();
        for &(lock, event) in events.iter() {
            assert_in_turn(&mut last, lock, event);
        }
        assert!(last.values().all(|&event| event == LockEvent::Released), "{last:?}");
        for kind in [LockKind::Zone, LockKind::Depot, LockKind::Pcp] {
            assert!(last.keys().any(|lock| lock.kind == kind), "no {kind:?} among {last:?}");
        }
    });
}

#[test]
fn locks_have_names() {
    let zone = ZoneIdx::of(NodeId(3), ZoneKind::Dma32);
    assert_eq!(LockName::zone(zone).to_string(), "zone lock, Node 3, zone DMA32");
    assert_eq!(LockName::depot(zone, 63).to_string(), "depot shard 63, Node 3, zone DMA32");
    assert_eq!(LockName::pcp(zone, CpuId(1023)).to_string(), "lists of CPU 1023, Node 3, zone DMA32");
}

#[test]
fn loops_step_once_for_each_turn() {
    with_pages(|pages| {
        let steps = || std::mem::take(&mut *pages.machine().steps.lock().unwrap());
        // The largest blocks come and go as they are.
        let whole = Request::new(GFP_KERNEL, 10);
        pages.free(pages.alloc(&whole).unwrap(), Order(10)).unwrap();
        steps();
        let block = pages.alloc(&Request::new(GFP_KERNEL, 4)).unwrap();
        let cut = steps();
        assert_eq!((cut[&Step::Split], cut[&Step::ListDel], cut[&Step::ListAdd]), (6, 1, 6), "{cut:?}");
        pages.free(block, Order(4)).unwrap();
        let merged = steps();
        assert_eq!((merged[&Step::Merge], merged[&Step::ListDel], merged[&Step::ListAdd]), (6, 6, 1), "{merged:?}");
        let refill = pages.alloc(&Request::page(GFP_KERNEL)).map(|_| steps()).unwrap();
        assert_eq!(refill[&Step::Take], refill[&Step::ListDel], "a refill takes whole blocks: {refill:?}");
        assert!(refill[&Step::RefillBlock] > refill[&Step::Take], "of several pages: {refill:?}");
        assert_eq!(refill[&Step::Alloc], 1, "{refill:?}");
    });
}

#[test]
fn a_request_that_misses_searches_lists_and_depot_once() {
    with_pages(|pages| {
        let steps = || std::mem::take(&mut *pages.machine().steps.lock().unwrap());
        let once = [Step::Behind, Step::AllocLong, Step::ZoneTry, Step::PcpEnter, Step::Refill];
        let refill = pages.alloc(&Request::page(GFP_KERNEL)).map(|_| steps()).unwrap();
        assert!(once.iter().all(|step| refill[step] == 1), "{refill:?}");
        // Before the refill and after it.
        assert_eq!(refill[&Step::PcpTake], 2, "{refill:?}");
        // One read of each shard, of which there is one a CPU.
        assert_eq!(refill[&Step::DepotShard], CPUS.len() as u64, "{refill:?}");
        // The same through a `Local`, for another ring.
        let local = pages.local().unwrap();
        let refill = local.alloc(&Request::new(GFP_KERNEL, 1)).map(|_| steps()).unwrap();
        assert!(once.iter().all(|step| refill[step] == 1) && refill[&Step::PcpTake] == 2, "{refill:?}");
    });
}

/// With a fast path once for a row of blocks, and for the block that fills a magazine; without, once for each block, as
/// single calls do.
#[test]
fn a_bulk_free_looks_up_no_more_than_single_calls_do() {
    let baseline = Mechanisms::preset("baseline").unwrap();
    for (mechanisms, lookups) in [(Mechanisms::DEFAULT, 1..=4), (baseline, 64..=64)] {
        with_mechanisms(mechanisms, |pages| {
            let mut taken = [Pfn(0); 64];
            assert_eq!(pages.alloc_bulk(&Request::page(GFP_KERNEL), &mut taken), Ok(64));
            // The second time, so that the lists have room.
            assert_eq!(pages.free_bulk(&taken, Order(0)).freed, 64);
            assert_eq!(pages.alloc_bulk(&Request::page(GFP_KERNEL), &mut taken), Ok(64));
            pages.machine().steps.lock().unwrap().clear();
            assert_eq!(pages.free_bulk(&taken, Order(0)).freed, 64);
            let steps = pages.machine().steps.lock().unwrap();
            assert!(lookups.contains(&steps[&Step::Lookup]), "{steps:?}");
        });
    }
}

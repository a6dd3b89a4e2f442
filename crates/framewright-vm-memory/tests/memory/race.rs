//! A guest with several CPUs allocates and writes while its reporter gives free memory to the host.
//!
//! A page that the device discarded although a CPU had it reads as zero. The guest's memory is small and nearly all in
//! use, so that reported blocks are soon allocated again. A planted reporter, which frees a block before it tells the
//! host, must be found.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use framewright::request::GFP_NOWAIT;
use framewright::{Allocator, Config, Layout, NodeId, Order, Pfn, Region, Request};
use framewright_rt::{Native, Storage};
use framewright_vm_memory::{BalloonDevice, Error, GuestMemoryArena, report_free};
use vm_memory::{Bytes, GuestAddress};

use crate::resident::{MIB, PAGE, guest_of};

const CPUS: usize = 4;
const ROUNDS: u64 = 3_000;
/// Blocks that a CPU holds: with their orders, more than there is.
const HELD: usize = 8;
/// Runs in which a planted mistake must show.
const TRIES: usize = 200;

type Guest<'a> = Allocator<'a, Native>;

/// A guest's memory as its CPUs use it, and the pages that they found lost.
struct Contents<'m> {
    memory: &'m GuestMemoryArena,
    lost: AtomicU64,
}

impl Contents<'_> {
    /// Writes to the first and last page of a block, or checks what was written.
    fn visit(&self, pfn: Pfn, order: Order, mark: u64, writes: bool) {
        for page in [pfn.0, pfn.0 + order.frames() - 1] {
            let address = GuestAddress(page * PAGE);
            if writes {
                self.memory.write_obj(mark ^ page, address).unwrap();
            } else if self.memory.read_obj::<u64>(address).unwrap() != mark ^ page {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// One CPU: blocks of orders 5 to 10, each checked before it is freed.
    fn work(&self, pages: &Guest<'_>, mark: u64) {
        let (mut held, mut random) = (Vec::new(), mark);
        for _ in 0..ROUNDS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let order = Order(5 + (random >> 32) as u8 % 6);
            let found = pages.alloc(&Request { order, ..Request::page(GFP_NOWAIT) });
            if let Ok(pfn) = found {
                self.visit(pfn, order, mark, true);
                held.push((pfn, order));
            }
            if held.len() == HELD || found.is_err() && !held.is_empty() {
                let (pfn, order) = held.swap_remove(random as usize % held.len());
                self.visit(pfn, order, mark, false);
                pages.free(pfn, order).unwrap();
            }
        }
        for (pfn, order) in held {
            self.visit(pfn, order, mark, false);
            pages.free(pfn, order).unwrap();
        }
    }
}

/// A reporter with a mistake: the blocks are free before the host is told.
fn report_too_late(
    pages: &Guest<'_>,
    least: Order,
    mut tell: impl FnMut(GuestAddress, u64) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut blocks = 0;
    for batch in pages.report_free(least).unwrap() {
        let told = batch.blocks().to_vec();
        batch.reported();
        for (pfn, order) in told {
            tell(GuestAddress(pfn.0 * PAGE), order.frames() * PAGE)?;
            blocks += 1;
        }
    }
    Ok(blocks)
}

/// Runs all CPUs and a reporter; returns the blocks that were reported and the pages that were lost.
fn run(is_planted: bool) -> (u64, u64) {
    let (_arena, memory) = guest_of(64 * MIB);
    let above = (4 << 30) / PAGE;
    let map = [Region::usable(0, 16 * MIB / PAGE, 0), Region::usable(above, above + 16 * MIB / PAGE, 0)];
    let cpus = [NodeId(0); CPUS + 2];
    let config = Config::new(&map, &cpus);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&cpus), &config, storage.parts()).unwrap();
    let device = Mutex::new(BalloonDevice::new(memory.clone()));
    let contents = Contents { memory: &memory, lost: AtomicU64::new(0) };
    let ended = AtomicBool::new(false);
    let reported = std::thread::scope(|scope| {
        let reporter = scope.spawn(|| {
            let mut blocks = 0;
            while !ended.load(Ordering::Relaxed) {
                let tell = |start, bytes| {
                    std::thread::yield_now();
                    device.lock().unwrap().report(start, bytes).map(|_| ())
                };
                blocks += match is_planted {
                    false => report_free(&pages, Order(9), tell).unwrap().blocks,
                    true => report_too_late(&pages, Order(9), tell).unwrap(),
                };
            }
            blocks
        });
        let (pages, contents) = (&pages, &contents);
        let start = |cpu: u64| scope.spawn(move || contents.work(pages, cpu.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let workers: Vec<_> = (1..=CPUS as u64).map(start).collect();
        // The reporter ends also where a worker has failed.
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        ended.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
        reporter.join().unwrap()
    });
    assert_eq!(pages.validate().unwrap().allocated, 0);
    (reported, contents.lost.into_inner())
}

#[test]
fn no_page_in_use_is_given_back() {
    let (mut reported, mut lost) = (0, 0);
    for _ in 0..5 {
        let (more, again) = run(false);
        (reported, lost) = (reported + more, lost + again);
    }
    assert!(reported > 0, "nothing was reported");
    assert_eq!(lost, 0);
}

#[test]
fn a_reporter_that_frees_first_is_found() {
    assert!((0..TRIES).any(|_| run(true).1 > 0), "no page was lost in {TRIES} runs");
}

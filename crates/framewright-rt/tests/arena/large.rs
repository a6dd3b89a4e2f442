//! An arena of 1 TiB: its address space and its descriptors are there, and take memory only where they are touched.
//!
//! Its memory is counted in a process of its own. Every frame of as much is allocated without an arena, because all
//! descriptors are touched then.

use framewright::report::BuddyInfo;
use framewright::request::{__GFP_MEMALLOC, GFP_USER};
use framewright::{Allocator, Config, Layout, NodeId, Order, Pfn, Region, Request};
use framewright_rt::{Arena, ArenaError, Backing, Native, Storage};

use crate::alone::is_alone;

const TIB: u64 = 1 << 40;
const MIB: u64 = 1 << 20;

/// A line of `/proc/self/status` in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn taken() -> u64 {
    status("VmRSS:") + status("VmPTE:")
}

#[test]
fn a_tebibyte_takes_memory_where_it_is_touched() {
    if !is_alone(module_path!(), "a_tebibyte_takes_memory_where_it_is_touched") {
        return;
    }
    for backing in [Backing::Private, Backing::Memfd] {
        match Arena::builder().without_background().size(TIB).backing(backing).build() {
            Ok(arena) => drop(arena),
            Err(ArenaError::Os(error)) if [libc::ENOMEM, libc::EFBIG].contains(&error.errno) => {
                println!("SKIPPED: there can be no {backing} memory of 1 TiB here: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        is_lazy(backing);
    }
}

fn is_lazy(backing: Backing) {
    let before = taken();
    let arena = Arena::builder().without_background().size(TIB).backing(backing).build().unwrap();
    let grown = taken().saturating_sub(before);
    println!("booted: {} KiB resident and page tables", grown >> 10);
    println!("{}", arena.report());
    assert!(grown < 64 * MIB, "{grown} bytes to boot");
    assert_eq!(arena.frames().frames(), TIB >> 12);
    assert!(arena.buddyinfo().to_string().ends_with(" 1024 \n"), "{}", arena.buddyinfo());

    // Blocks of every order at both ends, and their contents.
    let mut held = Vec::new();
    for order in [18, 9, 3, 0] {
        let mut block = arena.alloc(&Request::new(GFP_USER, order)).unwrap();
        let last = block.len() - 1;
        (block[0], block[last]) = (order, !order);
        assert!(block.address().as_ptr().addr().is_multiple_of(block.len()));
        held.push(block);
    }
    for block in &held {
        assert_eq!([block[0], *block.last().unwrap()], [block.order().0, !block.order().0]);
    }
    drop(held);
    let trimmed = arena.trim(Order(18)).unwrap();
    assert!(trimmed.blocks >= 1023, "{trimmed:?}");
    assert!(taken().saturating_sub(before) < 64 * MIB);
}

/// Allocates all pages of 1 TiB, each once, and frees them: 268 million.
#[test]
#[ignore = "takes 5 GiB of memory, and minutes without --release"]
fn a_tebibyte_is_allocated_page_by_page() {
    const FIRST: u64 = TIB >> 12;
    const FRAMES: u64 = TIB >> 12;
    let (map, cpus) = ([Region::usable(FIRST, FIRST + FRAMES, 0)], [NodeId(0); 3]);
    let config = Config::new(&map, &cpus);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let allocator = Allocator::boot(Native::new(&cpus), &config, storage.parts()).unwrap();
    let request = Request::new(GFP_USER | __GFP_MEMALLOC, 0);

    let mut seen = vec![0u64; (FRAMES / 64) as usize];
    let mut pages = [Pfn(0); 512];
    let mut allocated = 0;
    while let Ok(count @ 1..) = allocator.alloc_bulk(&request, &mut pages) {
        for pfn in &pages[..count] {
            let number = pfn.0 - FIRST;
            let (word, bit) = (&mut seen[(number / 64) as usize], 1 << (number % 64));
            assert_eq!(*word & bit, 0, "{pfn:?} has two owners");
            *word |= bit;
        }
        allocated += count as u64;
    }
    let left = allocator.validate().unwrap();
    println!("{allocated} pages allocated; {left:?}");
    assert_eq!(allocated, FRAMES);

    for first in (FIRST..FIRST + FRAMES).step_by(pages.len()) {
        for (pfn, number) in pages.iter_mut().zip(first..) {
            *pfn = Pfn(number);
        }
        assert_eq!(allocator.free_bulk(&pages, Order(0)).freed, pages.len());
    }
    allocator.drain_all();
    println!("{:?}", allocator.validate().unwrap());
    println!("{}", BuddyInfo(&allocator));
}

//! An arena of 1 TiB: its address space and its descriptors are there, and take memory only where they are touched.
//!
//! Its memory is counted in a process of its own.

use framewright::request::GFP_USER;
use framewright::{Order, Request};
use framewright_rt::{Arena, ArenaError, Backing};

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

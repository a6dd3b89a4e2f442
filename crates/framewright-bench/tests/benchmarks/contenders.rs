//! Contenders at every workload with next to no work, and what happens to those that are broken. No time is looked at.

use std::sync::atomic::{AtomicU64, Ordering};

use framewright::Mechanisms;
use framewright_bench::{Cells, Contender, Entry, Handle, Plan, Shape, Work, contenders, measure, smoke};

#[test]
fn everyone_does_every_workload_and_hands_out_no_frame_twice() {
    assert_eq!(smoke(&contenders(), 2), Vec::<String>::new());
}

#[test]
fn more_threads_than_cpus_are_served() {
    let chosen: Vec<Entry> = contenders().into_iter().filter(|entry| entry.name != "mmap+populate").collect();
    let plan = Plan { shapes: Shape::named("repeat"), threads: vec![4], ..tiny(&chosen) };
    let results = measure(&plan, &mut |_| ());
    assert_eq!(results.failures, []);
    assert!(results.rows.iter().all(|row| row.threads == 4));
}

fn tiny(entries: &[Entry]) -> Plan {
    Plan {
        shapes: Shape::all(),
        entries: entries.to_vec(),
        threads: vec![2],
        rounds: 1,
        cell_ns: 1e5,
        seed: 1,
        mechanisms: Mechanisms::BASELINE,
        frames: 1 << 17,
    }
}

/// An allocator that hands out numbers from 1 on and never the same again, with a flaw.
struct Flawed<const FLAW: u8>(AtomicU64);

/// Every third block is the one before it.
const TWICE: u8 = 0;
/// There are as many blocks as the check takes, and none comes back.
const LEAKS: u8 = 1;
/// No block is taken back but those of the check.
const REFUSES: u8 = 2;
/// Blocks of order 3 overlap.
const OVERLAPS: u8 = 3;

/// Blocks that two threads allocate in the check before: numbers from 1 on.
const CHECKED: u64 = 2 * 1024;

impl<const FLAW: u8> Handle for &Flawed<FLAW> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        match FLAW {
            TWICE => Some(n - u64::from(n.is_multiple_of(3))),
            LEAKS => (n <= CHECKED).then_some(n),
            OVERLAPS => Some(n << (ORDER / 2)),
            _ => Some(n),
        }
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        FLAW != REFUSES || block <= CHECKED
    }
}

impl<const FLAW: u8> Contender for Flawed<FLAW> {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut { self })
    }
}

fn flawed<const FLAW: u8>(name: &'static str) -> Entry {
    Entry::peer(name, "", |_| Ok(Box::new(Flawed::<FLAW>(AtomicU64::new(1))) as Box<dyn Cells>))
}

#[test]
fn flawed_allocators_are_named_and_the_others_go_on() {
    let sound = contenders().into_iter().find(|entry| entry.name == "bitmap-allocator").unwrap();
    let broken = Entry::peer("broken", "", |_| Err("needs a moon".to_owned()));
    let cases = [
        (flawed::<TWICE>("twice"), "batch-4", "twice at batch-4 on 2 threads: handed out block 0x2 twice"),
        (flawed::<OVERLAPS>("overlaps"), "order-3", "overlaps at order-3 on 2 threads: handed out block 0x4 twice"),
        (flawed::<LEAKS>("leaks"), "repeat", "leaks at repeat on 2 threads: ran out of memory"),
        (flawed::<LEAKS>("leaks"), "producer-consumer", "leaks at producer-consumer on 2 threads: ran out of memory"),
        (flawed::<LEAKS>("leaks"), "aged", "leaks at aged on 2 threads: ran out of memory"),
        (flawed::<REFUSES>("refuses"), "rand", "refuses at rand on 2 threads: refused to free block 0x8"),
        (
            flawed::<REFUSES>("refuses"),
            "producer-consumer",
            "refuses at producer-consumer on 2 threads: refused to free block 0x8",
        ),
        (broken, "repeat", "broken at repeat on 2 threads: could not be set up: needs a moon"),
    ];
    for (entry, workload, expected) in cases {
        let results = measure(&Plan { shapes: Shape::named(workload), ..tiny(&[entry, sound]) }, &mut |_| ());
        let failures: Vec<String> = results.failures.iter().map(ToString::to_string).collect();
        assert!(failures.len() == 1 && failures[0].starts_with(expected), "wanted {expected}: {failures:?}");
        let served: Vec<&str> = results.rows.iter().map(|row| row.allocator.as_str()).collect();
        assert_eq!(served, ["bitmap-allocator"], "{expected}");
    }
}

#[test]
fn who_cannot_hold_enough_is_left_out_with_a_note() {
    let small = Entry { capacity: |_| 100, ..flawed::<REFUSES>("small") };
    let plan = Plan { shapes: Shape::named("batch-256"), threads: vec![1], ..tiny(&[small]) };
    let results = measure(&plan, &mut |_| ());
    assert_eq!(
        results.notes,
        ["small is left out of batch-256 on 1 thread: it can hold 100 blocks a thread, 256 are needed"]
    );
    assert!(results.rows.is_empty() && results.failures.is_empty());
}

//! A kernel over OSTD, the framework of Asterinas, whose frames come from Framewright.
//!
//! Every CPU allocates, tags, checks and frees segments of 1 to 20 frames. Some are freed frame by frame, as OSTD does
//! when parts of a segment are dropped. Timer interrupts allocate and free meanwhile. At the end no CPU holds a frame,
//! and the allocator's invariants are checked.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use framewright::report;
use ostd::mm::heap::SlotInfo;
use ostd::mm::{FrameAllocOptions, HasPaddr, HasSize, PAGE_SIZE, Segment, VmIo};
use ostd::power::{ExitCode, poweroff};
use ostd::prelude::println;

framewright_ostd::frame_allocator! {
    /// All frames.
    struct FrameAllocator in ::ostd::mm::io_util;
}

#[ostd::global_frame_allocator]
static FRAME_ALLOCATOR: FrameAllocator = FrameAllocator;

#[ostd::global_heap_allocator]
static HEAP_ALLOCATOR: osdk_heap_allocator::HeapAllocator = osdk_heap_allocator::HeapAllocator;

#[ostd::global_heap_allocator_slot_map]
const fn slot_map(layout: core::alloc::Layout) -> Option<SlotInfo> {
    osdk_heap_allocator::type_from_layout(layout)
}

/// Segments that each CPU allocates.
const TURNS: usize = 30_000;
/// Segments that a CPU holds at most.
const MOST: usize = 200;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicUsize = AtomicUsize::new(0);
static CHECKED: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);
/// CPUs other than the first that are at rest.
static DONE: AtomicUsize = AtomicUsize::new(0);

#[ostd::main]
fn main() {
    println!("kernel: {} CPUs", ostd::cpu::num_cpus());
    print_free();
    ostd::timer::register_callback_on_cpu(in_interrupt);
    ostd::boot::smp::register_ap_entry(other_cpu);
    stress();
    // Only a machine at rest has invariants to check: no interrupt may allocate from here on, on any CPU.
    while DONE.load(Ordering::Acquire) < ostd::cpu::num_cpus() - 1 {
        core::hint::spin_loop();
    }
    let _interrupts_off = ostd::irq::disable_local();
    FrameAllocator::with_pages(|pages| pages.drain_all());
    print_free();
    let is_sound = FrameAllocator::with_pages(|pages| {
        match pages.validate() {
            Ok(counts) => println!("validate: every invariant holds: {} frames, {} free", counts.present, counts.free),
            Err(violation) => println!("validate: {}", violation),
        }
        println!("refused frees: {}", pages.counters().bad_frees);
        pages.validate().is_ok() && pages.counters().bad_frees == 0
    });
    let count = |counter: &AtomicUsize| counter.load(Ordering::Acquire);
    println!(
        "counts: cpus={} allocations={} failed={} interrupt-allocations={} pages-checked={} wrong-pages={}",
        ostd::cpu::num_cpus(),
        count(&ALLOCATIONS),
        count(&FAILED),
        count(&INTERRUPTS),
        count(&CHECKED),
        count(&WRONG)
    );
    let is_sound = is_sound == Some(true) && count(&WRONG) == 0;
    poweroff(if is_sound { ExitCode::Success } else { ExitCode::Failure });
}

fn print_free() {
    FrameAllocator::with_pages(|pages| ostd::prelude::print!("{}", report::BuddyInfo(pages)));
}

/// Allocates and frees a frame in each timer interrupt.
fn in_interrupt() {
    if FrameAllocOptions::new().zeroed(false).alloc_frame().is_ok() {
        INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs the other CPUs, which have no task to go to.
fn other_cpu() {
    ostd::timer::register_callback_on_cpu(in_interrupt);
    stress();
    let _interrupts_off = ostd::irq::disable_local();
    DONE.fetch_add(1, Ordering::Release);
    loop {
        core::hint::spin_loop();
    }
}

/// Allocates and frees on one CPU.
fn stress() {
    let mut state = ALLOCATIONS.fetch_add(1, Ordering::Relaxed) as u64 + 1;
    let mut below = move |limit: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % limit
    };
    let mut held = Vec::<Segment<()>>::new();
    for _ in 0..TURNS {
        if held.len() == MOST || !held.is_empty() && below(2) == 0 {
            give_back(held.swap_remove(below(held.len())), below(2) == 0);
        } else if let Ok(segment) = FrameAllocOptions::new().zeroed(false).alloc_segment(1 + below(20)) {
            frames(&segment).for_each(|offset| {
                let _ = segment.write_val(offset, &tag(&segment, offset));
            });
            held.push(segment);
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        } else {
            FAILED.fetch_add(1, Ordering::Relaxed);
        }
    }
    held.into_iter().for_each(|segment| give_back(segment, true));
}

/// Returns where each frame of a segment begins.
fn frames(segment: &Segment<()>) -> impl Iterator<Item = usize> + use<> {
    (0..segment.size()).step_by(PAGE_SIZE)
}

/// Returns what a frame says of the segment that it is part of.
fn tag(segment: &Segment<()>, offset: usize) -> u64 {
    (segment.paddr() as u64) ^ ((offset as u64) << 32) ^ segment.size() as u64
}

/// Checks the tags of a segment, and frees it as a whole or frame by frame.
fn give_back(segment: Segment<()>, is_whole: bool) {
    for offset in frames(&segment) {
        CHECKED.fetch_add(1, Ordering::Relaxed);
        if segment.read_val::<u64>(offset).ok() != Some(tag(&segment, offset)) {
            WRONG.fetch_add(1, Ordering::Relaxed);
            println!("kernel: wrong page: {:#x}", segment.paddr() + offset);
        }
        // Another segment's tag would be found here.
        let _ = segment.write_val(offset, &0_u64);
    }
    if is_whole {
        drop(segment);
    } else {
        segment.for_each(drop);
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("kernel: {}", info);
    ostd::panic::abort()
}

//! Instructions of a kernel's calls through C, beside those of the same calls in Rust.
//!
//! ```sh
//! cargo run --profile kernel -p framewright-kernel-capi --example kernel_calls
//! ```
//!
//! The program runs itself under callgrind, once for each caller and each call, and prints a table. Every call is one
//! that is not inlined, with flags and order that the compiler does not know. The hooks are calls too, and so is the
//! loop: for both callers alike.
//!
//! | caller | calls |
//! |---|---|
//! | `c` | the functions of `framewright_kernel.h` |
//! | `rust` | the allocator's own, on the same machine (`framewright_kernel_capi::pages`) |
//!
//! The limit for `c` against `rust` is 1.2: each test that the allocator is booted.
#![allow(unsafe_code, reason = "C functions are called, and the hooks defined; all blocks are the program's own")]

#[path = "../../framewright-capi/examples/counting/mod.rs"]
mod counting;

use std::ffi::c_uint;
use std::hint::black_box;
use std::process::ExitCode;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use framewright::request::GFP_KERNEL;
use framewright::{Gfp, Order, Pfn, Request};
use framewright_kernel_capi::{
    FW_OK, fw_kernel_alloc, fw_kernel_alloc_bulk, fw_kernel_alloc_nolock, fw_kernel_boot, fw_kernel_bytes,
    fw_kernel_free, fw_kernel_free_bulk, fw_kernel_free_nolock, fw_kernel_options, fw_region, pages,
};

use counting::Counting;

/// Frames of a batch, and batches: before any is counted, and while they are.
const FRAMES: usize = 64;
const WARM: usize = 50;
const BATCHES: usize = 8;

const CALLS: [&str; 3] = ["plain", "bulk", "nolock"];
const WHATS: [&str; 2] = ["alloc", "free"];
const CALLERS: [&str; 2] = ["c", "rust"];

static INTERRUPTS: AtomicUsize = AtomicUsize::new(1);
static CPU: AtomicUsize = AtomicUsize::new(0);

#[unsafe(no_mangle)]
extern "C" fn fw_hook_cpu() -> usize {
    CPU.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
extern "C" fn fw_hook_irq_save() -> usize {
    let saved = INTERRUPTS.load(Ordering::Relaxed);
    INTERRUPTS.store(0, Ordering::Relaxed);
    saved
}

#[unsafe(no_mangle)]
extern "C" fn fw_hook_irq_restore(saved: usize) {
    INTERRUPTS.store(saved, Ordering::Relaxed);
}

/// What a caller asks for, unknown to the compiler.
#[derive(Clone, Copy)]
struct Asked {
    flags: u32,
    order: c_uint,
}

impl Asked {
    fn request(self) -> Request {
        Request { order: Order(self.order as u8), ..Request::page(Gfp(self.flags)) }
    }
}

/// A way to call the allocator: a batch of blocks allocated, and freed.
trait Caller {
    fn alloc(asked: Asked, frames: &mut [u64; FRAMES]);
    fn free(asked: Asked, frames: &[u64; FRAMES]);
}

struct PlainC;

impl Caller for PlainC {
    fn alloc(asked: Asked, frames: &mut [u64; FRAMES]) {
        for frame in frames {
            let got = fw_kernel_alloc(asked.flags, asked.order);
            assert!(got >= 0);
            *frame = got as u64;
        }
    }

    fn free(asked: Asked, frames: &[u64; FRAMES]) {
        for &frame in frames {
            assert_eq!(fw_kernel_free(frame, asked.order), FW_OK);
        }
    }
}

struct PlainRust;

#[inline(never)]
fn rust_alloc(flags: u32, order: c_uint) -> Option<Pfn> {
    pages()?.alloc_pages(Gfp(flags), Order(order as u8)).ok()
}

#[inline(never)]
fn rust_free(frame: u64, order: c_uint) -> bool {
    pages().is_some_and(|pages| pages.free_pages(Pfn(frame), Order(order as u8)).is_ok())
}

impl Caller for PlainRust {
    fn alloc(asked: Asked, frames: &mut [u64; FRAMES]) {
        for frame in frames {
            *frame = rust_alloc(asked.flags, asked.order).expect("there is memory").0;
        }
    }

    fn free(asked: Asked, frames: &[u64; FRAMES]) {
        for &frame in frames {
            assert!(rust_free(frame, asked.order));
        }
    }
}

struct BulkC;

impl Caller for BulkC {
    fn alloc(asked: Asked, frames: &mut [u64; FRAMES]) {
        // SAFETY: the array has so many entries.
        let got = unsafe { fw_kernel_alloc_bulk(asked.flags, asked.order, FRAMES, frames.as_mut_ptr()) };
        assert_eq!(got, FRAMES as i64);
    }

    fn free(asked: Asked, frames: &[u64; FRAMES]) {
        // SAFETY: as above.
        assert_eq!(unsafe { fw_kernel_free_bulk(asked.order, FRAMES, frames.as_ptr(), null_mut(), null_mut()) }, FW_OK);
    }
}

struct BulkRust;

impl Caller for BulkRust {
    fn alloc(asked: Asked, frames: &mut [u64; FRAMES]) {
        let (mut entries, pages) = (frames.iter_mut(), pages().expect("it is booted"));
        let take = |pfn: Pfn| {
            if let Some(entry) = entries.next() {
                *entry = pfn.0;
            }
        };
        assert_eq!(pages.alloc_each(&asked.request(), FRAMES, take), Ok(FRAMES));
    }

    fn free(asked: Asked, frames: &[u64; FRAMES]) {
        let frames = frames.map(Pfn);
        let pages = pages().expect("it is booted");
        assert_eq!(pages.free_bulk(&frames, Order(asked.order as u8)).freed, FRAMES);
    }
}

struct NolockC;

impl Caller for NolockC {
    fn alloc(asked: Asked, frames: &mut [u64; FRAMES]) {
        for frame in frames {
            let got = fw_kernel_alloc_nolock(asked.flags, asked.order);
            assert!(got >= 0);
            *frame = got as u64;
        }
    }

    fn free(asked: Asked, frames: &[u64; FRAMES]) {
        for &frame in frames {
            assert_eq!(fw_kernel_free_nolock(frame, asked.order), FW_OK);
        }
    }
}

struct NolockRust;

#[inline(never)]
fn rust_alloc_nolock(flags: u32, order: c_uint) -> Option<Pfn> {
    let request = Request { order: Order(order as u8), ..Request::page(Gfp(flags)) };
    pages()?.any_context().alloc(&request).ok()
}

#[inline(never)]
fn rust_free_nolock(frame: u64, order: c_uint) -> bool {
    pages().is_some_and(|pages| pages.any_context().free(Pfn(frame), Order(order as u8)).is_ok())
}

impl Caller for NolockRust {
    fn alloc(asked: Asked, frames: &mut [u64; FRAMES]) {
        for frame in frames {
            *frame = rust_alloc_nolock(asked.flags, asked.order).expect("there is memory").0;
        }
    }

    fn free(asked: Asked, frames: &[u64; FRAMES]) {
        for &frame in frames {
            assert!(rust_free_nolock(frame, asked.order));
        }
    }
}

#[inline(never)]
fn counted_alloc<C: Caller>(asked: Asked, frames: &mut [u64; FRAMES]) {
    C::alloc(asked, frames);
}

#[inline(never)]
fn counted_free<C: Caller>(asked: Asked, frames: &[u64; FRAMES]) {
    C::free(asked, frames);
}

fn work<C: Caller>() {
    let asked = Asked { flags: black_box(GFP_KERNEL.0), order: black_box(0) };
    let mut frames = [0; FRAMES];
    for _ in 0..WARM {
        C::alloc(asked, &mut frames);
        C::free(asked, &frames);
    }
    for _ in 0..BATCHES {
        counted_alloc::<C>(asked, &mut frames);
        counted_free::<C>(asked, &frames);
    }
}

/// Boots the allocator over 1 GiB of frames that do not exist.
fn boot() {
    let regions = [fw_region { start: 0x100, end: 0x4_0000, node: 0, usable: 1, present: 1 }];
    let nodes = [0_u8];
    // SAFETY: all fields are numbers and pointers, which may be 0.
    let mut options: fw_kernel_options = unsafe { std::mem::zeroed() };
    options.size = size_of::<fw_kernel_options>();
    (options.regions, options.region_count) = (regions.as_ptr(), regions.len());
    (options.cpu_nodes, options.cpu_count) = (nodes.as_ptr(), nodes.len());
    // SAFETY: the options live.
    let bytes = usize::try_from(unsafe { fw_kernel_bytes(&raw const options) }).expect("the options are right");
    let block = Vec::leak(vec![0_u8; bytes]);
    // SAFETY: the options live, and so does the block, for good.
    assert_eq!(unsafe { fw_kernel_boot(&raw const options, u64::MAX, block.as_mut_ptr().cast(), bytes) }, FW_OK);
}

/// Does the work of one caller.
fn run(caller: &str, call: &str) -> Option<()> {
    boot();
    match (caller, call) {
        ("c", "plain") => work::<PlainC>(),
        ("rust", "plain") => work::<PlainRust>(),
        ("c", "bulk") => work::<BulkC>(),
        ("rust", "bulk") => work::<BulkRust>(),
        ("c", "nolock") => work::<NolockC>(),
        ("rust", "nolock") => work::<NolockRust>(),
        _ => return None,
    }
    Some(())
}

/// Prints the table.
fn table(counting: &Counting) -> Result<(), String> {
    println!("{:<14} {:>8} {:>8} {:>8}", "", "c", "rust", "c/rust");
    for (call, what) in CALLS.iter().flat_map(|call| WHATS.map(|what| (call, what))) {
        let [c, rust] = counting.counts(CALLERS, call, what)?;
        println!("{:<14} {c:>8.2} {rust:>8.2} {:>8.3}", format!("{call} {what}"), c / rust);
    }
    Ok(())
}

fn main() -> ExitCode {
    let counting = Counting { name: "kernel_calls", usage: "c|rust plain|bulk|nolock", blocks: FRAMES * BATCHES };
    counting.main(table, run)
}

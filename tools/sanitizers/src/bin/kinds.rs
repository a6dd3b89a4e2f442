//! Arenas of every kind, each used a little, for valgrind: it starts, sees no error, and its own limits do not stop it.
//!
//! Usage: `kinds [planted]`. With `planted`, the program decides by a byte that nothing initialised, which must be reported.
#![allow(unsafe_code, reason = "uninitialised memory is read, the planted fault")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use framewright::mechanisms::Mechanisms;
use framewright::request::{__GFP_ZERO, GFP_USER};
use framewright_rt::export::{ReportFile, fetch};
use framewright_rt::{Arena, ArenaBuilder, Backing, CpuMode, NodeId, Order, Request};

const MIB: u64 = 1 << 20;

/// Blocks from several threads, a range, movable pages, and everything that an arena does for a whole.
fn used(name: &str, builder: ArenaBuilder) -> Result<(), Box<dyn Error>> {
    let arena = Arc::new(builder.build().map_err(|error| format!("{name}: {error}"))?);
    let threads: Vec<_> = (0..2_u8)
        .map(|thread| {
            let arena = Arc::clone(&arena);
            std::thread::spawn(move || {
                let local = arena.local();
                for number in 0..100_u8 {
                    let request = Request::new(GFP_USER | __GFP_ZERO, number % 3);
                    let mut block = arena.alloc(&request).expect("there is memory");
                    assert!(block.iter().all(|&byte| byte == 0));
                    block.fill(thread);
                    match &local {
                        Some(local) if number % 2 == 0 => local.free(block),
                        _ => drop(block),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread that panicked"));
    let page = arena.alloc_movable(&Request::page(GFP_USER), 1, |bytes| bytes.fill(1))?;
    let layout = std::alloc::Layout::from_size_align(5 * 4096, 4096)?;
    let range = arena.alloc_range(&Request::page(GFP_USER), layout)?;
    arena.compact(NodeId(0));
    arena.drain();
    let given_back = arena.trim(Order(9))?;
    assert_eq!(page.read().map(|bytes| bytes[4095]), Some(1));
    drop((page, range));
    println!("{name}: {} of {} pages free, {given_back:?}", arena.validate()?.free, arena.present() / 4096);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|argument| argument == "planted") {
        let byte = Box::<u8>::new_uninit();
        // SAFETY: none, it is the planted fault.
        if unsafe { byte.as_ptr().read_volatile() } == 7 {
            println!("seven");
        }
        return Ok(());
    }
    let small = || Arena::builder().size(8 * MIB).cpus(4).without_background();
    used("private", small())?;
    used("populated", small().populate(true))?;
    used("memfd", small().backing(Backing::Memfd))?;
    used("hardened", small().mechanisms(Mechanisms::parse("default,hardened=poison").map_err(|(part, _)| part)?))?;
    used("interrupts", small().interrupts(true))?;
    used("processors", small().cpu_mode(CpuMode::PerCpu))?;
    used("recoverable", small().backing(Backing::Memfd).recoverable(true))?;
    used("limit of 16 GiB", Arena::builder().size(8 * MIB).limit(16 << 30).without_background())?;
    used("default", Arena::builder().size(64 * MIB).background(Duration::from_millis(10)).background_reclaim())?;
    let arena = small().build()?;
    let socket = std::env::temp_dir().join(format!("framewright-kinds-{}", std::process::id()));
    let export = arena.export(&socket)?;
    println!("exported: {}", fetch(export.path(), ReportFile::Online)?.trim());
    Ok(())
}

//! Tests of reclaim and migration by direct calls.

use framewright::error::Why;
use framewright::machine::{Busy, Need};
use framewright::request::{GFP_KERNEL, GFP_NOFS};
use framewright::{AllocError, Mechanisms, NodeId, Order, Pfn, Request};

use super::files::PAGES;
use super::kernel::GFP_CACHE;
use super::kernel::Kernel;
use super::lists::{LOCKED, WRITEBACK};
use super::machine_memory::{FIRST, FioMap};
use super::options::{Shrinkers, Thpfioscale};
use super::phases::kernel;
use super::roles::Cast;
use crate::engine::host::Host;
use crate::engine::run::{Options, Schedule, Simulation};
use crate::model::Ps;
use crate::stage::{Descriptors, arena_for, boot};

/// Runs `body` on the first CPU of a small machine with two files: one whose pages are clean, and one whose pages are
/// to be written. Both were closed.
fn with_files(shrinkers: Shrinkers, body: impl Fn(&Kernel<'_>)) {
    let model = crate::machine::named("skylake-desktop").unwrap().model();
    let options = Thpfioscale { mib: 64, shrinkers, ..Thpfioscale::default() };
    let (cast, map) = (Cast::of(&model).unwrap(), FioMap::of(&model, &options));
    let nodes = vec![NodeId(0); model.topology.cpus()];
    let config = map.config(&nodes, Mechanisms::preset("boost").unwrap());
    let arena = arena_for(&config, 1 << 20).unwrap();
    let pages = boot(&arena, &config, Descriptors::Compact).unwrap();
    let whole = Options { cpus: 8, seed: 1, schedule: Schedule::Time, warm_up: 0, window: Ps::MAX, trace: false };
    let mut simulation = Simulation::new(&model, &arena, &whole).unwrap();
    let kernel = kernel(pages, &model, (&cast, &map), &options);
    let both = |cpu| {
        if cpu != 0 {
            return;
        }
        for file in 0..2 {
            kernel.open(file, true).unwrap();
            for index in 0..PAGES {
                let frame = kernel.add_page(file, index, file == 1).unwrap();
                kernel.with(|memory| memory.lists.clear(frame, LOCKED));
            }
            kernel.close(file);
            kernel.with(|memory| memory.files.file(file).is_referenced = false);
        }
        kernel.with(|memory| memory.files.file(0).busy = 0);
        kernel.checkpoint();
        body(&kernel);
        for file in 0..2 {
            kernel.forget(file);
        }
        kernel.free_buffers();
        let slabs = kernel.with(|memory| memory.caches.empty());
        slabs.into_iter().for_each(|(pfn, order)| kernel.free(pfn, order));
    };
    simulation.run_hosted(both, &kernel).unwrap();
    assert_eq!(pages.validate().unwrap().allocated, 0);
}

fn need(gentle: bool) -> Need {
    Need { node: NodeId(0), order: Order(0), gfp: GFP_KERNEL, attempt: 0, frames: 256, priority: 0, gentle }
}

#[test]
fn a_gentle_round_frees_clean_pages_alone() {
    with_files(Shrinkers::Share, |kernel| {
        // What a shrinker would have to scan is far more than it scans at a time.
        kernel.with(|memory| memory.deferred[0] = 4096);
        assert_eq!(kernel.reclaim(&need(true)), PAGES as u64);
        kernel.with(|memory| {
            assert_eq!(memory.files.all[0].cached, 0);
            assert!(memory.files.all[0].inode.is_some(), "no shrinker was asked");
            assert_eq!((memory.files.all[1].cached, memory.dirty, memory.writeback), (16, 16, 0), "nothing is written");
            // They are the next that are met when they have been written.
            assert_eq!(memory.lists.sizes(0), [0, 16]);
        });
        assert_eq!(kernel.reclaim(&need(true)), 0);
        kernel.reclaim(&Need { gfp: GFP_NOFS, ..need(false) });
        assert!(kernel.with(|memory| memory.files.all[0].inode.is_some()), "the file system must not be called");
        kernel.reclaim(&need(false));
        kernel.with(|memory| {
            assert!(memory.files.all[0].inode.is_none());
            assert!(memory.files.all[1].inode.is_some(), "it has something to be written");
        });
    });
}

#[test]
fn what_cannot_move_stays_as_it_was() {
    with_files(Shrinkers::Batch, |kernel| {
        let place = || kernel.pages.alloc(&Request::page(GFP_CACHE)).unwrap();
        let (frame, pfn) = kernel.with(|memory| {
            let frame = memory.files.all[0].pages[3];
            (frame, Pfn(memory.lists.pfn(frame)))
        });
        let to = place();
        for flag in [LOCKED, WRITEBACK] {
            kernel.with(|memory| memory.lists.set(frame, flag));
            assert_eq!(kernel.migrate(pfn, to, Order(0)), Err(Busy));
            kernel.with(|memory| memory.lists.clear(frame, flag));
        }
        // Nobody knows the place itself, nor a page of a slab.
        assert_eq!(kernel.migrate(to, pfn, Order(0)), Err(Busy));
        assert_eq!(kernel.with(|memory| memory.files.all[0].pages[3]), frame);
        let listed = kernel.with(|memory| memory.lists.listed());
        kernel.migrate(pfn, to, Order(0)).unwrap();
        kernel.with(|memory| {
            assert_eq!(memory.lists.pfn(memory.files.all[0].pages[3]), to.0);
            assert_eq!(memory.lists.listed(), listed);
        });
        assert_eq!(kernel.migrate(pfn, place_and_free(kernel), Order(0)), Err(Busy), "it is somewhere else now");
    });
}

#[test]
fn a_batch_of_a_few_objects_is_all_of_them_and_their_share_is_none() {
    let gentle = Need { priority: 12, ..need(false) };
    with_files(Shrinkers::Share, |kernel| {
        (0..100).for_each(|_| _ = kernel.reclaim(&gentle));
        assert_eq!(kernel.with(|memory| (memory.buffers.len(), memory.tally.shrunk)), (1, 0));
        // An eighth of one buffer is none either, twice one is more than there is.
        kernel.reclaim(&Need { priority: 0, ..gentle });
        assert!(kernel.with(|memory| memory.files.all[0].inode.is_none()));
    });
    with_files(Shrinkers::Batch, |kernel| {
        // Both files are in one buffer: it is passed over twice. The file with pages in memory is let be, however often
        // it is met.
        for buffers in [1, 1, 0, 0] {
            kernel.reclaim(&Need { gfp: GFP_KERNEL, ..gentle });
            assert_eq!(kernel.with(|memory| memory.buffers.len()), buffers);
        }
        assert!(kernel.with(|memory| memory.files.all[1].inode.is_some()));
    });
}

#[test]
fn who_waits_for_a_file_gives_up_with_the_run() {
    with_files(Shrinkers::Share, |kernel| {
        kernel.with(|memory| memory.files.file(0).is_taken = true);
        kernel.trouble.set(Some((AllocError::no_memory(Why::Watermark), Request::page(GFP_CACHE))));
        assert_eq!(kernel.read_whole(0), None, "whoever has the file may have given up");
        kernel.trouble.set(None);
    });
}

/// A place that is free again.
fn place_and_free(kernel: &Kernel<'_>) -> Pfn {
    let pfn = kernel.pages.alloc(&Request::page(GFP_CACHE)).unwrap();
    kernel.free(pfn.0, 0);
    pfn
}

#[test]
fn zones_and_marks_are_those_of_a_node_of_64_gib_unless_said() {
    let model = crate::machine::named("skylake-desktop").unwrap().model();
    let of = |text: &str| {
        let map = FioMap::of(&model, &text.parse().unwrap());
        [map.dma_end - FIRST, map.dma32_end - FIRST, map.min_free_kbytes]
    };
    assert_eq!(of("mib=1024"), [512, 12 << 10, of("mib=16384")[2] / 16]);
    assert_eq!(of("mib=1024,low=224,min_free=44512"), [4096, 224 << 8, 44_512]);
    assert_eq!(of("mib=1024,low=223")[1], 224 << 8, "whole blocks");
}

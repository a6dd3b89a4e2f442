//! The macro and the adapter over a copy of OSTD's shape: its names, its trait, its order of boot.
//!
//! `ci/ostd.sh` compiles the macro against the real one.
#![deny(unsafe_code)]
#![allow(missing_docs, reason = "the shape of another crate, which documents it")]

extern crate self as ostd;

use std::alloc::Layout;
use std::collections::BTreeMap;

use framewright::report;

use crate::mm::frame::GlobalFrameAllocator;
use crate::mm::{CLAIMED, PAGE_SIZE};

pub mod cpu {
    //! OSTD's CPUs, of which each thread is one.

    use std::cell::Cell;

    pub const CPUS: usize = 3;

    thread_local! { pub(crate) static CPU: Cell<u32> = const { Cell::new(0) }; }

    pub struct CpuId(u32);

    impl CpuId {
        pub fn current_racy() -> CpuId {
            CpuId(CPU.get())
        }
    }

    impl From<CpuId> for u32 {
        fn from(cpu: CpuId) -> u32 {
            assert!(crate::irq::IS_OFF.get(), "with interrupts on, the number may be old");
            cpu.0
        }
    }

    pub fn num_cpus() -> usize {
        CPUS
    }
}

pub mod irq {
    //! OSTD's guard of interrupts.

    use std::cell::Cell;

    thread_local! { pub(crate) static IS_OFF: Cell<bool> = const { Cell::new(false) }; }

    pub struct DisabledLocalIrqGuard(bool);

    impl Drop for DisabledLocalIrqGuard {
        fn drop(&mut self) {
            IS_OFF.set(self.0);
        }
    }

    #[must_use]
    pub fn disable_local() -> DisabledLocalIrqGuard {
        DisabledLocalIrqGuard(IS_OFF.replace(true))
    }
}

pub mod mm {
    //! OSTD's frames and segments.

    use std::marker::PhantomData;
    use std::ops::Range;
    use std::sync::OnceLock;

    pub const PAGE_SIZE: usize = 4096;
    /// Where the descriptors lie.
    pub(crate) static CLAIMED: OnceLock<Range<usize>> = OnceLock::new();

    pub mod frame {
        use std::alloc::Layout;

        pub trait GlobalFrameAllocator: Sync {
            fn alloc(&self, layout: Layout) -> Option<usize>;
            fn dealloc(&self, addr: usize, size: usize);
            fn add_free_memory(&self, addr: usize, size: usize);
        }
    }

    pub mod io {
        pub mod util {
            pub trait HasVmReaderWriter {
                fn writer(&self) -> super::super::VmWriter;
            }
        }
    }

    pub struct VmWriter(*mut u8);

    impl VmWriter {
        pub fn cursor(&self) -> *mut u8 {
            self.0
        }
    }

    pub struct Segment<M>(Range<usize>, PhantomData<M>);

    impl<M> Segment<M> {
        pub fn from_unused(range: Range<usize>, metadata: impl FnMut(usize) -> M) -> Result<Self, &'static str> {
            range.clone().step_by(PAGE_SIZE).map(metadata).for_each(drop);
            CLAIMED.set(range.clone()).map_err(|_| "in use")?;
            Ok(Segment(range, PhantomData))
        }
    }

    impl<M> io::util::HasVmReaderWriter for Segment<M> {
        fn writer(&self) -> VmWriter {
            VmWriter(Vec::leak(vec![0xa5; self.0.len()]).as_mut_ptr())
        }
    }

    impl<M> Drop for Segment<M> {
        fn drop(&mut self) {
            panic!("the descriptors were given up");
        }
    }
}

/// Counts lines instead of printing them.
#[macro_export]
macro_rules! early_println {
    ($($part:tt)*) => {
        $crate::said(format!($($part)*))
    };
}

thread_local! { static SAID: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) }; }

pub fn said(line: String) {
    SAID.with_borrow_mut(|said| said.push(line));
}

framewright_ostd::frame_allocator! {
    /// The frames of this test, which is one program with one allocator.
    pub struct FrameAllocator;
}

static FRAMES: &dyn GlobalFrameAllocator = &FrameAllocator;

/// Memory as OSTD adds it: from 0x800000 to 0x940000 it was allocated early.
const ADDED: [(usize, usize); 3] = [(0, 0x9_f000), (0x94_0000, 0x0300_0000), (0x1_0000_0000, 0x1_0400_0000)];

fn layout(pages: usize, align: usize) -> Layout {
    Layout::from_size_align(pages * PAGE_SIZE, align * PAGE_SIZE).unwrap()
}

/// Allocates and frees in parts, as OSTD does, on one CPU of several; returns what it still holds, by address.
fn play(cpu: u32, turns: usize) -> BTreeMap<usize, usize> {
    cpu::CPU.set(cpu);
    let (mut held, mut state) = (BTreeMap::<usize, usize>::new(), u64::from(cpu) + 1);
    let mut below = move |limit: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % limit
    };
    for _ in 0..turns {
        if held.len() < 60 && below(2) == 0 {
            let (pages, align) = (if below(4) == 0 { 1 + below(40) } else { 1 }, 1 << below(4));
            if let Some(start) = FRAMES.alloc(layout(pages, align)) {
                assert_eq!(start % (align * PAGE_SIZE), 0);
                held.insert(start, pages);
            }
        } else if let Some((&start, &pages)) = held.iter().nth(below(held.len().max(1))) {
            held.remove(&start);
            let first = below(pages);
            let count = 1 + below(pages - first);
            FRAMES.dealloc(start + first * PAGE_SIZE, count * PAGE_SIZE);
            for (from, to) in [(0, first), (first + count, pages)] {
                if from < to {
                    held.insert(start + from * PAGE_SIZE, to - from);
                }
            }
        }
    }
    held
}

fn free_frames() -> u64 {
    FrameAllocator::with_pages(|pages| {
        pages.drain_all();
        pages.validate().unwrap().free
    })
    .unwrap()
}

/// One test, because all values of the type are one allocator.
#[test]
fn a_kernel_boots_and_runs() {
    FRAMES.dealloc(0, PAGE_SIZE);
    assert!(SAID.take()[0].contains("before any was allocated"));
    assert_eq!(FRAMES.alloc(layout(1, 1)), None, "no memory yet");
    assert!(SAID.take()[0].starts_with("framewright: no allocator: "));
    let added: usize = ADDED.iter().map(|(start, end)| (end - start) / PAGE_SIZE).sum();
    ADDED.into_iter().for_each(|(start, end)| FRAMES.add_free_memory(start, end - start));
    assert!(FrameAllocator::with_pages(|_| ()).is_none());

    let first = FRAMES.alloc(layout(1, 1)).expect("memory");
    let own = CLAIMED.get().unwrap();
    assert!(own.end == 0x1_0400_0000, "the descriptors are at the end of memory");
    FRAMES.dealloc(first, PAGE_SIZE);
    let usable = added - own.len() / PAGE_SIZE;
    assert_eq!(free_frames(), usable as u64, "what was added, less the descriptors");

    // Memory that OSTD took early comes back page by page.
    (0..16).rev().for_each(|page| FRAMES.dealloc(0x93_0000 + page * PAGE_SIZE, PAGE_SIZE));
    assert_eq!(free_frames(), usable as u64 + 16);

    // Larger than the largest block, and every page that there is.
    let large = FRAMES.alloc(layout(0x1234, 1)).expect("a range");
    FRAMES.dealloc(large, 0x1234 * PAGE_SIZE);
    let all: Vec<usize> = std::iter::from_fn(|| FRAMES.alloc(layout(1, 1))).collect();
    assert_eq!(all.len(), usable + 16, "no reserve is kept");
    all.into_iter().for_each(|page| FRAMES.dealloc(page, PAGE_SIZE));
    assert_eq!(free_frames(), usable as u64 + 16);

    let held: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cpu::CPUS as u32).map(|cpu| scope.spawn(move || play(cpu, 5_000))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut sorted = held.clone();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0].0 + pair[0].1 * PAGE_SIZE <= pair[1].0), "no two overlap");
    held.into_iter().for_each(|(start, pages)| FRAMES.dealloc(start, pages * PAGE_SIZE));
    assert_eq!(free_frames(), usable as u64 + 16);
    assert_eq!(FrameAllocator::with_pages(|pages| pages.counters().bad_frees), Some(0), "no call was refused");
    assert_eq!(SAID.take(), Vec::<String>::new());

    FRAMES.dealloc(0x94_0000, PAGE_SIZE);
    assert!(SAID.take()[0].contains("is free already"));
    FRAMES.add_free_memory(0x2_0000_0000, PAGE_SIZE);
    assert!(SAID.take()[0].contains("after the first allocation"));
    let buddyinfo = FrameAllocator::with_pages(|pages| report::BuddyInfo(pages).to_string()).unwrap();
    assert!(buddyinfo.starts_with("Node 0, zone   Normal"), "{buddyinfo}");
}

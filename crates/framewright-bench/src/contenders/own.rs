//! The project's own allocator.
//!
//! Each row is this allocator over one region of simulated frames (descriptors without memory), run or called in a
//! different way: threads that have a CPU of the allocator to themselves, or share those of the processors. The request
//! is a constant, as it is in a program that embeds it, so the compiler may specialise the call for it, but not inline
//! it: [`crate::contender`].
#![allow(unsafe_code, reason = "a block that was released gets its owner back by an unsafe call")]

use framewright::config::SectionInit;
use framewright::mechanisms::Hardened;
use framewright::request::GFP_KERNEL;
use framewright::units::{NodeId, Order, Pfn};
use framewright::{Allocator, Config, Layout, Local, Mechanisms, Region, Request};
use framewright_rt::{Arena, Native, Pages, Storage};
use self_cell::{MutBorrow, self_cell};

use crate::cell::Cells;
use crate::contender::{Contender, FRAME_BYTES, Handle, Setup, Work};
use crate::entry::{Entry, Role};

/// The ways to run and to call it.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "framewright",
        about: "this allocator, through `Allocator::local`, each thread with a CPU of its own",
        make: |setup| Ok(Box::new(ThroughLocal(boot(setup, leased(setup))?)) as Box<dyn Cells>),
        ..OWN
    },
    Entry {
        name: "framewright-plain",
        about: "this allocator, plain calls, each thread with a CPU of its own",
        make: |setup| Ok(Box::new(Plain(boot(setup, leased(setup))?)) as Box<dyn Cells>),
        ..OWN
    },
    Entry {
        name: "framewright-arena",
        about: "this allocator over memory, blocks that free themselves, each thread with a CPU of its own",
        make: |setup| Ok(Box::new(ByArena(arena(setup)?)) as Box<dyn Cells>),
        ..OWN
    },
    Entry {
        name: "framewright-rseq",
        about: "this allocator, plain calls, threads on the CPU of their processor",
        available: || Native::per_cpu(1).map(|_| ()).map_err(|error| error.to_string()),
        make: |setup| Ok(Box::new(Plain(boot(setup, per_cpu()?)?)) as Box<dyn Cells>),
        ..OWN
    },
    Entry {
        name: "framewright-hardened",
        about: "this allocator with costlier checks of frees, plain calls, each thread with a CPU of its own",
        role: Role::Variant,
        make: |setup| {
            let mechanisms = Mechanisms { hardened: Hardened::Poison, ..setup.mechanisms };
            Ok(Box::new(Plain(boot(&Setup { mechanisms, ..*setup }, leased(setup))?)) as Box<dyn Cells>)
        },
        ..OWN
    },
];

/// The common part of the rows.
const OWN: Entry = Entry { role: Role::Own, ..Entry::peer("", "", |_| Err(String::new())) };

/// One CPU for each thread, one for the thread that sets up, and the shared one for threads that find no other.
fn leased(setup: &Setup) -> Native {
    Native::new(&vec![NodeId(0); setup.cpus.max(setup.threads) + 2])
}

fn per_cpu() -> Result<Native, String> {
    Native::per_cpu(1).map_err(|error| error.to_string())
}

/// The first frame: 4 GiB, where zone Normal begins.
const START: u64 = 0x10_0000;

pub(crate) type Booted<'a> = Allocator<'a, Native>;

self_cell!(
    /// An allocator together with the memory of its descriptors.
    pub(crate) struct Owned {
        owner: MutBorrow<Storage<Native>>,
        #[not_covariant]
        dependent: Booted,
    }
);

pub(crate) fn boot(setup: &Setup, machine: Native) -> Result<Owned, String> {
    let regions = [Region::usable(START, START + setup.frames as u64, 0)];
    let cpus = machine.nodes().to_vec();
    let section_init = SectionInit::AtBoot;
    let config = Config { mechanisms: setup.mechanisms, section_init, ..Config::new(&regions, &cpus) };
    let layout = Layout::of(&config).map_err(|error| error.to_string())?;
    Owned::try_new(MutBorrow::new(Storage::new(&layout)), |storage| {
        Allocator::boot(machine, &config, storage.borrow_mut().parts()).map_err(|error| error.to_string())
    })
}

/// `Allocator::alloc` and `Allocator::free`.
struct Plain(Owned);

pub(crate) struct PlainHandle<'h, 'a>(pub(crate) &'h Booted<'a>);

impl Handle for PlainHandle<'_, '_> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        self.0.alloc(const { &Request::new(GFP_KERNEL, ORDER) }).ok().map(|pfn| pfn.0)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        self.0.free(Pfn(block), Order(ORDER)).is_ok()
    }
}

impl Contender for Plain {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        self.0.with_dependent(|_, allocator| work.run(&mut PlainHandle(allocator)))
    }
}

/// `Arena::alloc`, and the drop of the block.
struct ByArena(Arena);

fn arena(setup: &Setup) -> Result<Arena, String> {
    let builder = Arena::builder().size((setup.frames * FRAME_BYTES) as u64).mechanisms(setup.mechanisms);
    builder.cpus(setup.cpus.max(setup.threads) + 2).build().map_err(|error| error.to_string())
}

struct ArenaHandle<'h>(&'h Arena);

impl Handle for ArenaHandle<'_> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        self.0.alloc(const { &Request::new(GFP_KERNEL, ORDER) }).ok().map(|pages| pages.into_raw().0.0)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        // SAFETY: a workload frees each block once, and `alloc` released it. The arena refuses what is not allocated.
        drop(unsafe { Pages::from_raw_unchecked(self.0, Pfn(block), Order(ORDER)) });
        true
    }
}

impl Contender for ByArena {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut ArenaHandle(&self.0))
    }
}

/// `Local::alloc` and `Local::free`.
struct ThroughLocal(Owned);

struct LocalHandle<'h, 'a>(Local<'h, 'a, Native>);

impl Handle for LocalHandle<'_, '_> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        self.0.alloc(const { &Request::new(GFP_KERNEL, ORDER) }).ok().map(|pfn| pfn.0)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        self.0.free(Pfn(block), Order(ORDER)).is_ok()
    }
}

impl Contender for ThroughLocal {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        self.0.with_dependent(|_, allocator| {
            let local = allocator.local().expect("the machine names a CPU of its own");
            work.run(&mut LocalHandle(local))
        })
    }
}

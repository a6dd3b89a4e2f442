//! A child that allocates and frees until it is killed, and notes what it does.

use std::alloc::Layout;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use framewright::request::{GFP_ATOMIC, GFP_USER};
use framewright::{Mechanisms, Order, PfnRange};
use framewright_rt::interrupts::{self, Signal};
use framewright_rt::{Arena, PageRange, Pages, Request};

use crate::log::{LANES, Log, PLACES, WORDS, stamp_of};

/// Bytes of the arena at first, and at most.
pub(crate) const BYTES: u64 = 8 << 20;
pub(crate) const LIMIT: u64 = 16 << 20;
/// Threads that work.
const THREADS: usize = 4;
/// Lane of the first thread's signal handler.
const HANDLER: usize = THREADS;
const JOB: &str = "FRAMEWRIGHT_RECOVER_CHILD";

/// What the child does, and what it does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// Threads allocate and free at random.
    Random,
    /// An entry of the table is written after its block was returned and noted.
    EntryLate,
    /// The journal's word is gone before the block was returned.
    WordEarly,
    /// An entry of the table is cleared after the block was freed.
    ClearLate,
    /// One thread makes each kind of call, and is stepped.
    Steps,
    /// As [`Job::Steps`]; the journal's word is gone before a block was returned.
    StepsWordEarly,
    /// Movable pages move, and the thread that moves them is stepped.
    Moves,
}

const JOBS: [Job; 7] =
    [Job::Random, Job::EntryLate, Job::WordEarly, Job::ClearLate, Job::Steps, Job::StepsWordEarly, Job::Moves];

/// The files that a child and its parent share.
pub(crate) struct Files {
    pub(crate) arena: File,
    pub(crate) log: File,
}

impl Files {
    pub(crate) fn new() -> Files {
        let file = |name: &str| File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        let (arena, log) = (file("arena"), file("log"));
        log.set_len(WORDS as u64 * 8).unwrap();
        Files { arena, log }
    }

    /// Starts a child of this test program.
    pub(crate) fn spawn(&self, job: Job, seed: u64) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child::child", "--exact", "--nocapture", "--test-threads=1"]);
        let number = JOBS.iter().position(|&one| one == job).unwrap();
        let (pid, arena, log) = (std::process::id(), self.arena.as_raw_fd(), self.log.as_raw_fd());
        command.env(JOB, format!("{number} {seed} {pid} {arena} {log}"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// The child's work, if this process is one.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let [number, seed, pid, arena, log] =
        <[u64; 5]>::try_from(job.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<_>>()).unwrap();
    let open = |fd| File::options().read(true).write(true).open(format!("/proc/{pid}/fd/{fd}")).unwrap();
    let (file, log) = (open(arena), Log::map(&open(log)));
    let builder =
        Arena::builder().size(BYTES).limit(LIMIT).recoverable(true).file(file.try_clone().unwrap()).interrupts(true);
    let builder = builder.mechanisms(Mechanisms::parse("default,compaction=emptiest").unwrap());
    let arena: &Arc<Arena> = Box::leak(Box::new(Arc::new(builder.build().unwrap())));
    let job = JOBS[number as usize];
    let world: &World = Box::leak(Box::new(World {
        arena,
        log,
        fault: Fault { job, file },
        places: std::array::from_fn(|_| Mutex::default()),
    }));
    match job {
        Job::Steps | Job::StepsWordEarly => return crate::steps::work(world),
        Job::Moves => return crate::steps::move_pages(world),
        _ => {}
    }
    let _ = HANDLED.set(world);
    // SAFETY: the handler allocates and frees, and takes locks that only it takes.
    let _handling = unsafe { interrupts::handle(libc::SIGUSR1, handler) }.unwrap();
    world.log.begin(1);
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        for lane in 0..THREADS {
            let (sender, seed) = (sender.clone(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ lane as u64);
            scope.spawn(move || {
                if lane == 0 {
                    // SAFETY: the call takes nothing and returns a number.
                    sender.send(unsafe { libc::pthread_self() }).unwrap();
                }
                world.work(lane, seed | 1);
            });
        }
        let first = receiver.recv().unwrap();
        loop {
            // SAFETY: the thread never ends.
            unsafe { libc::pthread_kill(first, libc::SIGUSR1) };
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    });
}

static HANDLED: OnceLock<&'static World> = OnceLock::new();

/// Allocates a page, or frees the one that it has, in the middle of anything that the first thread does.
fn handler(_: &Signal) {
    let Some(world) = HANDLED.get() else { return };
    match world.frames_at(HANDLER, 0) {
        None => world.alloc(HANDLER, 0, 1, || world.arena.alloc(&Request::page(GFP_ATOMIC)).ok().map(Own::Block)),
        Some(_) => world.free(HANDLER, HANDLER, 0),
    }
}

/// A block or range that the child holds.
pub(crate) enum Own {
    Block(Pages<'static>),
    Range(PageRange<&'static Arena>),
}

impl Own {
    pub(crate) fn frames(&self) -> PfnRange {
        match self {
            Own::Block(block) => block.frames(),
            Own::Range(range) => range.frames(),
        }
    }

    pub(crate) fn stamp(&mut self) {
        let stamp = stamp_of(self.frames());
        match self {
            Own::Block(block) => block[..8].copy_from_slice(&stamp),
            Own::Range(range) => range[..8].copy_from_slice(&stamp),
        }
    }
}

/// The arena, its log, and what is held.
pub(crate) struct World {
    pub(crate) arena: &'static Arc<Arena>,
    pub(crate) log: Log,
    fault: Fault,
    places: [Mutex<Option<Own>>; LANES * PLACES],
}

impl World {
    /// One thread's work, for ever.
    fn work(&self, lane: usize, mut seed: u64) {
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 16) % below
        };
        let local = if lane.is_multiple_of(2) { self.arena.local() } else { None };
        loop {
            let (place, own) = (random(PLACES as u64) as usize, random(4) != 0);
            match random(10) {
                0..4 => self.free(lane, if own { lane } else { random(THREADS as u64) as usize }, place),
                4..7 => {
                    let request = Request::new(GFP_USER, [0, 0, 0, 1, 2, 4][random(6) as usize]);
                    self.alloc(lane, place, request.order.frames(), || match &local {
                        Some(local) => local.alloc(&request).ok().map(Own::Block),
                        None => self.arena.alloc(&request).ok().map(Own::Block),
                    });
                }
                7 => {
                    let layout = Layout::from_size_align((3 + random(60) as usize) << 12, 1).unwrap();
                    let range = || self.arena.alloc_range(&Request::page(GFP_USER), layout).ok();
                    self.alloc(lane, place, layout.size() as u64 >> 12, || range().map(Own::Range));
                }
                8 => self.bulk(lane, 1 + random(8) as usize),
                _ => self.split(lane, place),
            }
        }
    }

    fn place(&self, lane: usize, place: usize) -> std::sync::MutexGuard<'_, Option<Own>> {
        self.places[lane * PLACES + place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frames of what is at a place.
    pub(crate) fn frames_at(&self, lane: usize, place: usize) -> Option<PfnRange> {
        self.place(lane, place).as_ref().map(Own::frames)
    }

    /// Allocates by `alloc` into an empty place.
    pub(crate) fn alloc(&self, lane: usize, place: usize, frames: u64, alloc: impl FnOnce() -> Option<Own>) {
        let mut here = self.place(lane, place);
        if here.is_some() {
            return;
        }
        let note = self.log.lane(lane);
        note.alloc_begins(frames, 1);
        let Some(mut own) = alloc() else { return note.alloc_fails() };
        own.stamp();
        self.fault.returned(self.arena, own.frames(), || note.alloc_ends(&[(place, own.frames())]));
        *here = Some(own);
    }

    /// Frees what is at a place of some lane.
    pub(crate) fn free(&self, lane: usize, of: usize, place: usize) {
        let mut here = self.place(of, place);
        let Some(own) = here.take() else { return };
        let note = self.log.lane(of);
        note.free_begins(place);
        let frames = own.frames();
        self.fault.freed(self.arena, frames, || {
            match own {
                Own::Block(block) => drop(block),
                Own::Range(range) => drop(range),
            }
            note.free_ends(place);
        });
        self.log.lane(lane).forget_last();
    }

    /// Allocates several blocks in one call.
    pub(crate) fn bulk(&self, lane: usize, count: usize) {
        let mut empty: Vec<_> = (0..PLACES).map(|place| (place, self.place(lane, place))).collect();
        empty.retain(|(_, here)| here.is_none());
        let note = self.log.lane(lane);
        let mut blocks = Vec::with_capacity(count);
        let count = count.min(empty.len());
        if count == 0 {
            return;
        }
        note.alloc_begins(1, count as u64);
        let _ = self.arena.alloc_bulk(&Request::page(GFP_USER), count, &mut blocks);
        let mut owned: Vec<_> = blocks.into_iter().map(Own::Block).collect();
        owned.iter_mut().for_each(Own::stamp);
        let places: Vec<_> = empty.iter().zip(&owned).map(|((place, _), own)| (*place, own.frames())).collect();
        note.alloc_ends(&places);
        for ((_, here), own) in empty.iter_mut().zip(owned) {
            **here = Some(own);
        }
    }

    /// Splits the block at a place into pages, if they have places.
    pub(crate) fn split(&self, lane: usize, place: usize) {
        let mut all: Vec<_> = (0..PLACES).map(|place| (place, self.place(lane, place))).collect();
        let empty = all.iter().filter(|(_, here)| here.is_none()).count();
        let Some(Own::Block(block)) = all[place].1.take_if(
            |own| matches!(own, Own::Block(block) if block.order() > Order(0) && block.order().frames() <= empty as u64),
        ) else {
            return;
        };
        let note = self.log.lane(lane);
        note.split_begins(place, block.order().frames());
        let mut pieces: Vec<_> =
            block.split(Order(0)).map(|pieces| pieces.map(Own::Block).collect()).unwrap_or_default();
        pieces.iter_mut().for_each(Own::stamp);
        all.retain(|(_, here)| here.is_none());
        let places: Vec<_> = all.iter().zip(&pieces).map(|((place, _), own)| (*place, own.frames())).collect();
        note.split_ends(&places);
        for ((_, here), own) in all.iter_mut().zip(pieces) {
            **here = Some(own);
        }
        note.forget_last();
    }
}

/// A mistake that the child plants: it changes the ledger in the file, past the arena.
struct Fault {
    job: Job,
    file: File,
}

impl Fault {
    fn entry(&self, arena: &Arena, frames: PfnRange) -> u64 {
        let journal = 64 * 4096;
        LIMIT + journal + 4 * (frames.start.0 - arena.frames().start.0)
    }

    /// Time in which a kill finds the mistake.
    fn dawdle() {
        (0..20_000).for_each(|turn| {
            std::hint::black_box(turn);
        });
    }

    /// A block was returned by the arena, and is to be noted.
    fn returned(&self, arena: &Arena, frames: PfnRange, note: impl FnOnce()) {
        match self.job {
            Job::EntryLate => {
                let (at, mut entry) = (self.entry(arena, frames), [0; 4]);
                self.file.read_exact_at(&mut entry, at).unwrap();
                self.file.write_all_at(&[0; 4], at).unwrap();
                note();
                Self::dawdle();
                self.file.write_all_at(&entry, at).unwrap();
            }
            Job::WordEarly | Job::StepsWordEarly => {
                self.file.write_all_at(&vec![0; 64 * 4096], LIMIT).unwrap();
                Self::dawdle();
                note();
            }
            _ => note(),
        }
    }

    /// A block is to be freed by `free`.
    fn freed(&self, arena: &Arena, frames: PfnRange, free: impl FnOnce()) {
        let (at, mut entry) = (self.entry(arena, frames), [0; 4]);
        if self.job != Job::ClearLate {
            return free();
        }
        self.file.read_exact_at(&mut entry, at).unwrap();
        free();
        self.file.write_all_at(&entry, at).unwrap();
        Self::dawdle();
        self.file.write_all_at(&[0; 4], at).unwrap();
    }
}

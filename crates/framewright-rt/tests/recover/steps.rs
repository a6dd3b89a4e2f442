//! A child that is stopped after each instruction of each kind of call: at every one, a kill would lose nothing.
//!
//! The parent steps the child's thread by `ptrace`. What a kill leaves is what the files hold at that moment. So the
//! parent copies them whenever ledger or log have changed since the last step, and recovers the copy. A few children are
//! killed at a step as well.

use std::alloc::Layout;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use framewright::Order;
use framewright::request::GFP_USER;
use framewright_rt::{Pages, Request};
use libc::{SIGTRAP, SIGURG, c_int, pid_t};

use crate::blocks::recover;
use crate::child::{BYTES, Files, Job, LIMIT, Own, World};
use crate::kills::kills;
use crate::log::{Log, compare};

/// Words of the journal and the table of the child's arena.
const JOURNAL: usize = 8 * 4096;
const TABLE: usize = (LIMIT >> 12) as usize / 2;

/// The calls, each with what comes before it.
type Call = fn(&World);
const CALLS: [(&str, Call); 9] = [
    ("alloc", |world| page(world, 1)),
    ("free", |world| world.free(0, 0, 1)),
    ("alloc of order 3", |world| block(world, 2, 3)),
    ("split", |world| world.split(0, 2)),
    ("range", |world| range(world, 20, 7)),
    ("free of a range", |world| world.free(0, 0, 20)),
    ("bulk", |world| world.bulk(0, 3)),
    ("local", local),
    ("refused", refused),
];

fn page(world: &World, place: usize) {
    block(world, place, 0);
}

fn block(world: &World, place: usize, order: u8) {
    let request = Request::new(GFP_USER, order);
    world.alloc(0, place, request.order.frames(), || world.arena.alloc(&request).ok().map(Own::Block));
}

fn range(world: &World, place: usize, pages: usize) {
    let layout = Layout::from_size_align(pages << 12, 1).unwrap();
    let range = || world.arena.alloc_range(&Request::page(GFP_USER), layout).ok();
    world.alloc(0, place, pages as u64, || range().map(Own::Range));
}

fn local(world: &World) {
    let local = world.arena.local().unwrap();
    world.alloc(0, 40, 1, || local.alloc(&Request::page(GFP_USER)).ok().map(Own::Block));
}

/// A free of the wrong order, which changes nothing.
fn refused(world: &World) {
    block(world, 41, 2);
    let pfn = world.frames_at(0, 41).unwrap().start;
    // SAFETY: it is owned by this thread. Its order is wrong, so the free is refused.
    drop(unsafe { Pages::from_raw_unchecked(world.arena, pfn, Order(1)) });
}

/// The child's work: it makes each call twice, and is stepped the second time.
pub(crate) fn work(world: &World) {
    for (_, call) in CALLS {
        call(world);
    }
    for lane_place in 0..crate::log::PLACES {
        world.free(0, 0, lane_place);
    }
    // It stays, and the journal's word names it: so the parent finds the thread's line.
    page(world, 63);
    // SAFETY: the parent traces this thread from here on. Signals to itself stop it. The process ends here.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0);
        world.log.begin(libc::gettid() as u64);
        libc::raise(SIGURG);
        for (_, call) in CALLS {
            libc::raise(SIGURG);
            call(world);
            libc::raise(SIGURG);
        }
        libc::_exit(0);
    }
}

/// Pages that move, each with its number as contents.
const KEYS: std::ops::Range<u64> = 0..4;

/// The child's work: a page in each of a few pageblocks, which compaction brings together.
pub(crate) fn move_pages(world: &World) {
    let page = |key: u64| {
        let fill = |bytes: &mut [u8]| bytes[..8].copy_from_slice(&key.to_le_bytes());
        world.arena.alloc_movable(&Request::page(GFP_USER), key, fill).unwrap()
    };
    let all: Vec<_> = (0..BYTES >> 12).map(|number| page(number / 512)).collect();
    // One page of each pageblock stays.
    let mut missing: Vec<u64> = KEYS.collect();
    for page in all {
        match missing.iter().position(|&key| key == page.key()) {
            Some(at) => {
                missing.remove(at);
                std::mem::forget(page);
            }
            None => drop(page),
        }
    }
    world.arena.drain();
    // The journal's word names it: so the parent finds the thread's line. It moves as well.
    std::mem::forget(page(KEYS.end));
    // SAFETY: as in `work`.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0);
        world.log.begin(libc::gettid() as u64);
        libc::raise(SIGURG);
        libc::raise(SIGURG);
        world.arena.compact(framewright::NodeId(0));
        libc::raise(SIGURG);
        libc::_exit(0);
    }
}

/// A child whose thread is stepped.
struct Stepped {
    files: Files,
    log: Log,
    child: std::process::Child,
    thread: pid_t,
}

impl Stepped {
    /// Starts a child, and lets it run to the first call.
    fn start(job: Job) -> Stepped {
        let files = Files::new();
        let log = Log::map(&files.log);
        let child = files.spawn(job, 1);
        let thread = loop {
            match log.has_begun() {
                Some(thread) => break thread as pid_t,
                None => std::thread::sleep(std::time::Duration::from_micros(200)),
            }
        };
        let stepped = Stepped { files, log, child, thread };
        assert!(matches!(stepped.wait(), Some(SIGURG)));
        stepped
    }

    /// Waits until the thread stops; none if it has ended.
    fn wait(&self) -> Option<c_int> {
        let mut status = 0;
        // SAFETY: the status is written to a variable of its type.
        let waited = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL) };
        assert_eq!(waited, self.thread, "{}", std::io::Error::last_os_error());
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    /// Lets the thread go on, by one instruction or to its next signal.
    fn go(&self, by_one: bool) -> Option<c_int> {
        let request = if by_one { libc::PTRACE_SINGLESTEP } else { libc::PTRACE_CONT };
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request reads and writes no memory of this process.
        assert_eq!(unsafe { libc::ptrace(request, self.thread, nothing, nothing) }, 0);
        self.wait()
    }

    /// Steps the next call; `look` is called after each instruction. Returns their number.
    fn step(&self, mut look: impl FnMut(u64)) -> u64 {
        assert_eq!(self.go(false), Some(SIGURG));
        let mut steps = 0;
        while self.go(true) == Some(SIGTRAP) {
            steps += 1;
            look(steps);
        }
        steps
    }

    fn kill(mut self) -> Files {
        self.child.kill().unwrap();
        // The traced thread first: the process is not gone before its tracer knows.
        while self.wait().is_some() {}
        let _ = self.child.wait();
        self.files
    }
}

/// Parent and child stay on one processor. On two, each step would wait for the other to wake up.
fn stay_on_one_processor() {
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    let _ = rustix::thread::sched_setaffinity(None, &one);
}

/// The ledger of a file, mapped for good.
fn ledger(file: &File) -> (&'static [AtomicU64], &'static [AtomicU64]) {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    // SAFETY: a new mapping inside the file. It is never unmapped, and all bits are valid words.
    let words = unsafe {
        let len = (JOURNAL + TABLE) * 8;
        let start = mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, LIMIT).unwrap();
        std::slice::from_raw_parts(start.cast(), JOURNAL + TABLE)
    };
    words.split_at(JOURNAL)
}

/// A copy of the arena's file as it is at this moment.
fn copy(files: &Files) -> File {
    let mut copy = File::from(rustix::fs::memfd_create("copy", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    let mut source = File::open(format!("/proc/self/fd/{}", files.arena.as_raw_fd())).unwrap();
    std::io::copy(&mut source, &mut copy).unwrap();
    copy
}

/// Recovers a copy of the child's files, and compares.
fn compare_copy(files: &Files, log: &Log) -> Result<(), String> {
    let recovered = recover(&copy(files));
    compare(&log.snapshot(), &recovered.arena, &recovered.held)?;
    Ok(())
}

/// Steps all calls. Returns the instructions and the states that differed of each, or the first difference found.
fn step_all(job: Job) -> Result<Vec<(&'static str, u64, u64)>, String> {
    stay_on_one_processor();
    let stepped = Stepped::start(job);
    let (journal, table) = ledger(&stepped.files.arena);
    let mut all = Vec::new();
    let word = journal.iter().position(|word| word.load(Relaxed) != 0);
    assert!(word.is_some() || job != Job::Steps);
    let line = word.unwrap_or(0) / 8 * 8;
    for (name, _) in CALLS {
        let state = || {
            let words = journal[line..line + 8].iter().chain(table).map(|word| word.load(Relaxed));
            words.chain(stepped.log.snapshot()).collect::<Vec<u64>>()
        };
        let (mut last, mut states, mut difference) = (state(), 1, compare_copy(&stepped.files, &stepped.log).err());
        let steps = stepped.step(|step| {
            let now = state();
            if now != last {
                last = now;
                states += 1;
                let found = compare_copy(&stepped.files, &stepped.log).err();
                difference = difference.take().or(found.map(|found| format!("{name}, instruction {step}: {found}")));
            }
        });
        all.push((name, steps, states));
        if let Some(difference) = difference {
            stepped.kill();
            return Err(difference);
        }
    }
    stepped.kill();
    Ok(all)
}

#[test]
fn no_instruction_of_a_call_is_one_to_lose_a_block_at() {
    let all = step_all(Job::Steps).unwrap();
    for (name, steps, states) in all {
        println!("{name}: {steps} instructions, {states} states of the ledger and the log");
        // A call that was not made changes nothing.
        assert!(steps > 100 && states > 2, "{name}");
    }
}

#[test]
fn a_planted_mistake_is_found_by_steps() {
    let difference = step_all(Job::StepsWordEarly).unwrap_err();
    println!("{difference}");
}

/// Each page is held once at every instruction of a move, where its contents are.
#[test]
fn a_page_that_moves_is_held_once() {
    stay_on_one_processor();
    let stepped = Stepped::start(Job::Moves);
    let (journal, table) = ledger(&stepped.files.arena);
    let line = journal.iter().position(|word| word.load(Relaxed) != 0).unwrap() / 8 * 8;
    let state = || journal[line..line + 8].iter().chain(table).map(|word| word.load(Relaxed)).collect::<Vec<_>>();
    let mut places = std::collections::BTreeSet::new();
    let (mut last, mut states) = (Vec::new(), 0);
    let steps = stepped.step(|step| {
        let now = state();
        if now == last {
            return;
        }
        last = now;
        states += 1;
        let recovered = recover(&copy(&stepped.files));
        let key = |held: &framewright_rt::HeldFrames| {
            let at = recovered.arena.address(held.frames().start).unwrap();
            // SAFETY: the frames are memory of the arena, and no code uses them now.
            u64::from_le_bytes(unsafe { at.cast::<[u8; 8]>().read() })
        };
        let mut keys: Vec<u64> = recovered.held.iter().map(key).collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..=KEYS.end).collect::<Vec<_>>(), "instruction {step}: {:?}", recovered.held);
        places.insert(recovered.held.iter().map(|held| held.frames().start).collect::<Vec<_>>());
    });
    println!("{steps} instructions, {states} states, pages at {} places", places.len());
    assert!(places.len() > 2, "no page has moved: {places:?}");
    stepped.kill();
}

/// Kills after so many instructions of so many calls.
#[test]
fn a_kill_at_a_step_loses_nothing() {
    stay_on_one_processor();
    for seed in 0..kills().div_ceil(5) {
        let stepped = Stepped::start(Job::Steps);
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        for _ in 0..random % CALLS.len() as u64 {
            stepped.go(false);
            stepped.go(false);
        }
        assert_eq!(stepped.go(false), Some(SIGURG));
        let mut left = random / 16 % 4000;
        while left != 0 && stepped.go(true) == Some(SIGTRAP) {
            left -= 1;
        }
        let log = Log::map(&stepped.files.log);
        let files = stepped.kill();
        let recovered = recover(&files.arena);
        if let Err(difference) = compare(&log.snapshot(), &recovered.arena, &recovered.held) {
            panic!("seed {seed}: {difference}");
        }
    }
}

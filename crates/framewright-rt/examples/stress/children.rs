//! Children, forked while all threads run or while all threads rest.
//!
//! A child has copies from the moment of the fork. If the arena's memory was copied too, and its allocator was at rest,
//! the child goes on as if all other threads had died. It allocates and frees, and gets only blocks that had no owner.
//! A child of threads at rest knows all blocks with an owner, and frees them. Otherwise the child is *refused*: every
//! call says so, and changes nothing.
//!
//! A child has one thread, and some locks may be locked for ever. So it touches no lock of the stage, prints by system
//! call alone, and ends without running any code of its parent's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use framewright::request::GFP_KERNEL;
use framewright::{AllocError, FreeError, Order, PfnRange, Request, Why};

use crate::rest;
use crate::stage::{Block, Checked, Did, Stage, lock};
use crate::watchdog;
use crate::worker::Worker;

/// How children end.
const WORKED: i32 = 0;
const WRONG: i32 = 1;
const REFUSED: i32 = 3;
/// Seconds until a child that hangs is killed, before the watchdog's patience is over.
const HANGS: u32 = 40;
/// Turns of a child.
const TURNS: usize = 300;

const PAGE: Request = Request::page(GFP_KERNEL);

/// Forks a child for `work` and says how it ended.
fn fork(work: impl FnOnce() -> Checked<Did>) -> Checked<Did> {
    // SAFETY: the child does no more than `work`, which keeps off the locks of others, and ends without running
    // anything of the parent's.
    match unsafe { libc::fork() } {
        -1 => Err(format!("fork: {}", std::io::Error::last_os_error())),
        0 => {
            // SAFETY: a child that hangs is ended by the alarm.
            unsafe { libc::alarm(HANGS) };
            let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("panicked".into()));
            let status = match result {
                Ok(Did::Refused) => REFUSED,
                Ok(_) => WORKED,
                Err(wrong) => {
                    let message = format!("in a child: {wrong}\n");
                    // SAFETY: the message is there.
                    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
                    WRONG
                }
            };
            // SAFETY: the process ends here.
            unsafe { libc::_exit(status) }
        }
        child => await_child(child),
    }
}

fn await_child(child: i32) -> Checked<Did> {
    let mut status = 0;
    loop {
        // SAFETY: the call writes a number to where it is told to.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(format!("waiting for a child: {error}"));
        }
    }
    watchdog::beat(None);
    match status {
        _ if libc::WIFSIGNALED(status) => Err(format!("a child ended by signal {}", libc::WTERMSIG(status))),
        _ if libc::WEXITSTATUS(status) == WORKED => Ok(Did::Children),
        _ if libc::WEXITSTATUS(status) == REFUSED => Ok(Did::Refused),
        _ => Err("a child found something wrong".into()),
    }
}

/// Forks while other threads run.
///
/// The caller may be pinned; then the child may be refused. `own` is a block of the caller's, if it has one.
pub(crate) fn while_others_run(stage: &Arc<Stage>, seed: u64, own: Option<&Block>, pinned: bool) -> Checked<Did> {
    let ended = fork(|| {
        if stage.pages().machine().refuses() {
            return is_refused(stage, own);
        }
        let before = stage.pages().validate().map_err(|violation| format!("at first: {violation}"))?;
        let (owned, withheld) = stage.shadow.count();
        // A block on its way to or from its owner is marked as without owner.
        if owned > before.allocated || withheld > before.offline {
            return Err(format!("{owned} frames are owned and {withheld} withheld, of {before:?}"));
        }
        work_alone(&mut Worker::new(stage, None))?;
        if seed.is_multiple_of(4) {
            use_up(stage)?;
        }
        let after = stage.pages().validate().map_err(|violation| format!("at last: {violation}"))?;
        match after.allocated == before.allocated {
            true => Ok(Did::Children),
            false => Err(format!("at first {before:?}, at last {after:?}")),
        }
    })?;
    as_promised(stage, ended, pinned)
}

/// Forks while all threads are at rest.
pub(crate) fn at_rest(stage: &Arc<Stage>) -> Checked<Did> {
    let ended = fork(|| {
        if stage.pages().machine().refuses() {
            let shelf = lock(&stage.shelves[0]);
            return is_refused(stage, shelf.last());
        }
        rest::look(stage)?;
        rest::free_all(stage)?;
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let stage = Arc::clone(stage);
                std::thread::spawn(move || work_alone(&mut Worker::new(&stage, None)))
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a child's thread panicked")??;
        }
        rest::look_empty(stage)?;
        Ok(Did::Children)
    })?;
    as_promised(stage, ended, false)
}

/// Whether a child may be refused: none that is not pinned, once one was not.
fn as_promised(stage: &Stage, ended: Did, pinned: bool) -> Checked<Did> {
    match ended {
        Did::Refused if stage.children_work.load(SeqCst) && !pinned => {
            Err("a child was refused though others were not".into())
        }
        Did::Refused => Ok(ended),
        _ => {
            stage.children_work.store(true, SeqCst);
            Ok(ended)
        }
    }
}

/// Checks a child that is refused.
fn is_refused(stage: &Stage, own: Option<&Block>) -> Checked<Did> {
    let pages = stage.pages();
    let no_cpu = AllocError::no_memory(Why::NoCpu);
    let allocated = pages.alloc(&PAGE);
    if allocated != Err(no_cpu) {
        return Err(format!("refused, but an allocation gave {allocated:?}"));
    }
    if pages.local().is_some() {
        return Err("refused, but there is a CPU to stay on".into());
    }
    if let Some((block, order)) = own.and_then(|block| Some((block, block.order?))) {
        let freed = pages.free(block.range.start, order);
        if freed != Err(FreeError::NoCpu) {
            return Err(format!("refused, but a free gave {freed:?}"));
        }
    }
    match pages.drain_all() {
        0 => Ok(Did::Refused),
        drained => Err(format!("refused, but {drained} frames were drained")),
    }
}

/// Does a worker's turns that need no other worker, and frees everything at the end.
fn work_alone(worker: &mut Worker) -> Checked {
    for _ in 0..TURNS {
        match worker.rng.below(16) {
            0..=5 => worker.alloc_one()?,
            6..=9 => worker.free_one()?,
            10 => worker.burst()?,
            11 => worker.alloc_bulk()?,
            12 => worker.free_bulk()?,
            13 => worker.split()?,
            14 => worker.alloc_range()?,
            _ => worker.free_wrongly()?,
        }
    }
    while !worker.held.is_empty() {
        worker.free_one()?;
    }
    Ok(())
}

/// Allocates all that is free: none of it was anybody's.
fn use_up(stage: &Stage) -> Checked {
    let mut taken = Vec::new();
    while let Ok(pfn) = stage.pages().alloc(&PAGE) {
        stage.shadow.pass(PfnRange::block(pfn, Order(0)), 0, u64::MAX - 1)?;
        taken.push(pfn);
    }
    for pfn in taken {
        stage.shadow.pass(PfnRange::block(pfn, Order(0)), u64::MAX - 1, 0)?;
        stage.pages().free(pfn, Order(0)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

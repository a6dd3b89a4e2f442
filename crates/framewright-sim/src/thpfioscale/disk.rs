//! Writeback: which pages are written, when, and which writers wait.
//!
//! One thread writes for all. It begins when a tenth of the memory that could be dirty is, and goes file by file, in
//! the order in which files became dirty. For every file it makes a request to the disk and a transaction; when the
//! disk is done it frees the requests. A writer waits as soon as three twentieths are dirty, as long as the disk takes
//! for the writer's share, and twice that above a fifth. (Linux: `dirty_background_ratio` 10, `dirty_ratio` 20, and
//! `balance_dirty_pages`, but not its control loop.)
//!
//! The thread also stands for everything else that runs on a machine: network packets in atomic pages, and small
//! processes that come and go.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use framewright::request::{__GFP_COMP, __GFP_NOMEMALLOC, __GFP_NORETRY, __GFP_NOWARN, GFP_ATOMIC};
use framewright::{Order, Pfn, Request};

use super::chain::NIL;
use super::costs::{SUBMIT, to_write};
use super::files::PAGES;
use super::kernel::{Kernel, KernelMemory};
use super::lists::{ACTIVE, DIRTY, RECLAIM, WRITEBACK};
use super::slab::{Object, ObjectKind};
use crate::engine::here;
use crate::model::{MS, Ps, S};

/// Pages that are written at a time: 1 MiB.
const BATCH: u64 = 256;
/// Longest time between two writes of the log (`xfs_log_worker`), which is also written when it is full.
///
/// Neither grows with memory ([`super::Thpfioscale::log`]).
const CHECKPOINT: Ps = 30 * S;
/// Time between two other events on the machine. Assumed:
///
/// - 8,000 packets a second, of which one in eight has eight pages; each waits for a millisecond;
/// - a hundred processes a second, with 20 page tables and a stack of four pages; each lives for 50 ms.
const TICK: Ps = MS;
const PACKETS: usize = 8;
const PROCESS_EVERY: u64 = 10;
const PROCESSES: usize = 5;

/// A file's pages on their way to the disk.
struct Writing {
    file: u32,
    frames: Vec<u32>,
    request: Object,
}

/// The state of the writing thread.
#[derive(Default)]
pub(super) struct Flusher {
    ticks: Cell<u64>,
    next_tick: Cell<Ps>,
    last_checkpoint: Cell<Ps>,
    packets: RefCell<Vec<(Pfn, Order)>>,
    processes: RefCell<VecDeque<Vec<(Pfn, Order)>>>,
}

impl KernelMemory {
    /// Returns the pages that could be dirty: free ones, and those of files.
    pub(super) fn dirtyable(&self, free: u64) -> u64 {
        free + self.lists.listed()
    }

    /// Takes the dirty pages of the next file.
    fn next_to_write(&mut self) -> Option<(u32, Vec<u32>)> {
        let file = self.files.dirty.pop_front()?;
        let of = self.files.file(file);
        let pages: [u32; PAGES] = of.pages;
        of.is_queued = false;
        let dirty: Vec<u32> = pages.into_iter().filter(|&frame| frame != NIL && self.lists.has(frame, DIRTY)).collect();
        for &frame in &dirty {
            self.lists.clear(frame, DIRTY);
            self.lists.set(frame, WRITEBACK);
        }
        let of = self.files.file(file);
        of.dirty -= dirty.len() as u8;
        of.busy += dirty.len() as u8;
        self.dirty -= dirty.len() as u64;
        self.writeback += dirty.len() as u64;
        Some((file, dirty))
    }

    /// Notes that pages were written. Reclaim will next see those that it saw meanwhile.
    fn written(&mut self, file: u32, frames: &[u32]) {
        for &frame in frames {
            self.lists.clear(frame, WRITEBACK);
            if self.lists.has(frame, RECLAIM) {
                self.lists.clear(frame, RECLAIM);
                if self.lists.has(frame, ACTIVE) {
                    self.lists.move_to(frame, false);
                }
                self.lists.rotate(frame);
            }
        }
        self.files.file(file).busy -= frames.len() as u8;
        self.writeback -= frames.len() as u64;
        self.tally.written += frames.len() as u64;
    }
}

impl Kernel<'_> {
    fn dirty_and_limit(&self) -> (u64, u64) {
        let free = self.free_frames();
        self.with(|memory| (memory.dirty + memory.writeback, memory.dirtyable(free)))
    }

    /// Lets a writer of `pages` pages wait, if too much is dirty. `writers` write at once.
    pub(super) fn throttle(&self, pages: u64, writers: u64) {
        let (dirty, dirtyable) = self.dirty_and_limit();
        if dirty > dirtyable * 3 / 20 {
            let factor = if dirty > dirtyable / 5 { 2 } else { 1 };
            here::sleep_until(here::clock() + to_write(pages * writers) * factor);
        }
    }

    /// Runs the thread until `ends` and nothing is to be written.
    ///
    /// `is_last` says when all dirty pages are to be written.
    pub(super) fn flush(&self, flusher: &Flusher, is_last: &dyn Fn() -> bool, ends: &dyn Fn() -> bool) -> Option<()> {
        while self.is_well() {
            here::turn();
            let (dirty, dirtyable) = self.dirty_and_limit();
            let is_due = dirty > dirtyable / 10 || (is_last() && dirty != 0);
            if is_due {
                self.write_some(flusher)?;
            } else if ends() {
                break;
            } else {
                self.wait(flusher, here::clock() + TICK);
            }
            let logged = self.with(|memory| memory.files.log.len()) as u64;
            let is_old = here::clock() >= flusher.last_checkpoint.get() + self.scaled(CHECKPOINT);
            if logged > self.log || is_old {
                flusher.last_checkpoint.set(here::clock());
                for file in self.checkpoint() {
                    self.cluster(file)?;
                }
            }
        }
        flusher.end(self);
        Some(())
    }

    fn write_some(&self, flusher: &Flusher) -> Option<()> {
        let (mut all, mut pages) = (Vec::new(), 0);
        while pages < BATCH {
            let Some((file, frames)) = self.with(KernelMemory::next_to_write) else { break };
            here::work(SUBMIT);
            pages += frames.len() as u64;
            let request = self.object(ObjectKind::Bio)?;
            self.log(file)?;
            all.push(Writing { file, frames, request });
        }
        self.wait(flusher, here::clock() + to_write(pages));
        for Writing { file, frames, request } in all {
            self.with(|memory| memory.written(file, &frames));
            self.give(request);
        }
        Some(())
    }

    /// Waits, while other events happen.
    fn wait(&self, flusher: &Flusher, until: Ps) {
        loop {
            let next = flusher.next_tick.get().max(here::clock());
            here::sleep_until(until.min(next));
            if here::clock() >= until {
                return;
            }
            flusher.next_tick.set(next + TICK);
            flusher.tick(self);
        }
    }
}

impl Flusher {
    fn tick(&self, kernel: &Kernel<'_>) {
        self.ticks.set(self.ticks.get() + 1);
        kernel.sample(self.ticks.get());
        kernel.free_blocks(self.packets.take());
        let mut packets = Vec::with_capacity(PACKETS);
        for packet in 0..PACKETS {
            let order = if packet == 0 { 3 } else { 0 };
            let flags = GFP_ATOMIC
                | __GFP_NOWARN
                | if order == 0 { GFP_ATOMIC } else { __GFP_COMP | __GFP_NOMEMALLOC | __GFP_NORETRY };
            packets.extend(kernel.pages.alloc(&Request::new(flags, order)).ok().map(|pfn| (pfn, Order(order))));
        }
        self.packets.replace(packets);
        if self.ticks.get().is_multiple_of(PROCESS_EVERY) {
            let process = kernel.fork();
            self.processes.borrow_mut().push_back(process);
            if self.processes.borrow().len() > PROCESSES {
                self.end_process(kernel);
            }
        }
    }

    fn end_process(&self, kernel: &Kernel<'_>) {
        let process = self.processes.borrow_mut().pop_front();
        process.into_iter().for_each(|blocks| kernel.free_blocks(blocks));
    }

    /// Frees the memory of packets and processes.
    fn end(&self, kernel: &Kernel<'_>) {
        kernel.free_blocks(self.packets.take());
        while !self.processes.borrow().is_empty() {
            self.end_process(kernel);
        }
    }
}

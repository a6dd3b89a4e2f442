//! A worker thread's life.
//!
//! A life is some thousand turns, each an operation drawn at random. At its end the thread starts its successor, which
//! takes over its blocks. It goes on for a few turns beside the successor, so that there are more threads for a while.
//! The destructor of a thread-local frees its last blocks, when little of the thread is left.
//!
//! Requests are of orders 0 to 7 and 9; ranges are of at most 128 frames or of whole pageblocks. So no thread ever owns
//! a block of order 8, and freeing one is wrong wherever it is.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use framewright::{Order, PfnRange};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};

use crate::children;
use crate::stage::{Block, Checked, Did, Rng, Stage, Tally, lock};
use crate::watchdog;

/// Turns of the shortest and the longest life.
const LIFE: (usize, usize) = (500, 6_000);
/// Turns that a thread goes on beside its successor.
const OVERLAP: usize = 200;
/// Blocks that a thread holds at most, and that lie on the exchange.
const MOST_HELD: usize = 4_000;
const MOST_EXCHANGED: usize = 400;
/// Turns between additions to the common tally.
const TALLIED: u64 = 64;
/// Turns between two children of a thread, on average.
const CHILDLESS: usize = 4_000;

/// One thread at work.
pub(crate) struct Worker {
    pub(crate) stage: Arc<Stage>,
    pub(crate) rng: Rng,
    pub(crate) held: Vec<Block>,
    pub(crate) tally: Tally,
    life: u64,
    marks: u64,
    /// Number of its shelf; none while its successor is at work.
    index: Option<usize>,
    /// Frames held, and at which number they become fewer again.
    pub(crate) frames: u64,
    appetite: u64,
    pub(crate) growing: bool,
}

/// The rest of a thread while its thread-locals are destroyed.
struct LastWill {
    stage: Arc<Stage>,
    blocks: Vec<Block>,
}

impl Drop for LastWill {
    fn drop(&mut self) {
        let mut tally = Tally::default();
        for block in self.blocks.drain(..) {
            tally.did(Did::LastWills);
            self.stage.note(self.stage.free(&block));
        }
        self.stage.add(&mut tally);
        self.stage.gate.leave();
    }
}

thread_local! {
    static LAST_WILL: RefCell<Option<LastWill>> = const { RefCell::new(None) };
}

/// Starts a thread, which is inside the gate from here on until after its last destructor.
pub(crate) fn start(stage: &Arc<Stage>, work: impl FnOnce(&Arc<Stage>) -> Checked + Send + 'static) {
    stage.gate.enter();
    let inside = Arc::clone(stage);
    let run = move || {
        LAST_WILL.set(Some(LastWill { stage: Arc::clone(&inside), blocks: Vec::new() }));
        let checked = catch_unwind(AssertUnwindSafe(|| work(&inside)));
        inside.note(checked.unwrap_or_else(|_| Err("a thread panicked".into())));
    };
    if let Err(error) = std::thread::Builder::new().spawn(run) {
        stage.note(Err(format!("no thread: {error}")));
        stage.gate.leave();
    }
}

/// Starts the worker `index`, or its next thread.
pub(crate) fn start_worker(stage: &Arc<Stage>, index: usize) {
    start(stage, move |stage| Worker::new(stage, Some(index)).live(index));
}

impl Worker {
    pub(crate) fn new(stage: &Arc<Stage>, index: Option<usize>) -> Worker {
        let life = stage.next_life();
        let mut rng = Rng::new(stage.plan.seed.wrapping_add(life << 20));
        let share = stage.arena.frames().frames() / stage.plan.threads as u64;
        let appetite = [share / 8, share / 2, share, share * 4][rng.below(4)];
        Worker {
            stage: Arc::clone(stage),
            rng,
            held: Vec::new(),
            tally: Tally::default(),
            life,
            marks: 0,
            index,
            frames: 0,
            appetite,
            growing: true,
        }
    }

    fn live(&mut self, index: usize) -> Checked {
        self.stage.thread_ids[index].store(gettid().as_raw_nonzero().get(), SeqCst);
        self.tally.did(Did::Threads);
        self.unshelve();
        let turns = LIFE.0 + self.rng.below(LIFE.1 - LIFE.0);
        let result = self.turns(turns);
        self.shelve();
        self.index = None;
        if result.is_ok() && !self.stage.is_over() {
            start_worker(&self.stage, index);
            let overlap = self.rng.below(OVERLAP);
            self.turns(overlap)?;
        }
        let last: Vec<Block> = (0..self.rng.below(20)).filter_map(|_| self.pick()).collect();
        self.shelve();
        LAST_WILL.with_borrow_mut(|will| will.as_mut().map(|will| will.blocks = last));
        result
    }

    fn turns(&mut self, turns: usize) -> Checked {
        for turn in 0..turns as u64 {
            if self.stage.is_over() {
                break;
            }
            if self.stage.gate.is_closed() {
                self.shelve();
                self.stage.gate.wait();
                self.unshelve();
            }
            self.turn()?;
            watchdog::beat(self.index);
            self.tally.did(Did::Operations);
            if turn % TALLIED == 0 {
                self.stage.add(&mut self.tally);
            }
        }
        Ok(())
    }

    /// Lays everything down where others find it.
    fn shelve(&mut self) {
        let shelf = self.index.map_or(&self.stage.exchange, |index| &self.stage.shelves[index]);
        lock(shelf).append(&mut self.held);
        self.frames = 0;
        self.stage.add(&mut self.tally);
    }

    fn unshelve(&mut self) {
        if let Some(index) = self.index {
            let taken = std::mem::take(&mut *lock(&self.stage.shelves[index]));
            taken.into_iter().for_each(|block| self.hold(block));
        }
    }

    /// A mark that no block had.
    pub(crate) fn mark(&mut self) -> u64 {
        self.marks += 1;
        (self.life << 32) | self.marks
    }

    pub(crate) fn hold(&mut self, block: Block) {
        self.frames += block.range.frames();
        self.held.push(block);
    }

    /// Takes any block out of those held.
    pub(crate) fn pick(&mut self) -> Option<Block> {
        if self.held.is_empty() {
            return None;
        }
        let block = self.held.swap_remove(self.rng.below(self.held.len()));
        self.frames -= block.range.frames();
        Some(block)
    }

    /// Takes a block, not a range, out of those held, if the first one looked at is one.
    pub(crate) fn pick_block(&mut self) -> Option<(Block, Order)> {
        let block = self.pick()?;
        match block.order {
            Some(order) => Some((block, order)),
            None => {
                self.hold(block);
                None
            }
        }
    }

    /// Tells the tally of a block that is about to be freed.
    pub(crate) fn count_free(&mut self, block: &Block) {
        self.tally.did(Did::Freed);
        if block.mark >> 32 != self.life {
            self.tally.did(Did::FreedRemotely);
        }
    }

    pub(crate) fn free(&mut self, block: &Block) -> Checked {
        self.count_free(block);
        self.stage.free(block)
    }

    pub(crate) fn free_one(&mut self) -> Checked {
        self.pick().map_or(Ok(()), |block| self.free(&block))
    }

    fn turn(&mut self) -> Checked {
        if self.frames > self.appetite || self.held.len() > MOST_HELD {
            self.growing = false;
        } else if self.frames < self.appetite / 8 {
            self.growing = true;
        }
        match self.rng.below(200) {
            0..=79 if self.growing => self.alloc_one(),
            0..=79 => self.free_one(),
            80..=99 => self.alloc_one(),
            100..=119 => self.free_one(),
            120..=139 => self.burst(),
            140..=147 if self.growing => self.alloc_bulk(),
            140..=147 => self.free_bulk(),
            148..=155 => self.own(),
            156..=161 => self.split(),
            162..=171 => self.give(),
            172..=183 => self.take_over(),
            184..=185 => self.alloc_range(),
            186..=188 => self.free_part(),
            189..=190 => self.alloc_at(),
            191..=195 => self.free_wrongly(),
            196 if self.stage.plan.forks && self.rng.one_in(CHILDLESS / 200) => self.fork(false),
            _ => {
                self.move_about();
                Ok(())
            }
        }
    }

    /// Passes a block to any thread.
    fn give(&mut self) -> Checked {
        let Some(block) = self.pick() else { return Ok(()) };
        let mut exchange = lock(&self.stage.exchange);
        exchange.push(block);
        let excess = exchange.len().saturating_sub(MOST_EXCHANGED);
        let excess: Vec<Block> = exchange.drain(..excess).collect();
        drop(exchange);
        excess.iter().try_for_each(|block| self.free(block))
    }

    /// Takes blocks of others, to free them or to keep them.
    fn take_over(&mut self) -> Checked {
        let count = 1 + self.rng.below(3);
        let mut exchange = lock(&self.stage.exchange);
        let kept = exchange.len().saturating_sub(count);
        let taken = exchange.split_off(kept);
        drop(exchange);
        for block in taken {
            if self.rng.one_in(8) {
                self.stage.check(&block)?;
                self.hold(block);
            } else {
                self.free(&block)?;
            }
        }
        Ok(())
    }

    /// Takes frames that have another mark, or were cut, as its own.
    pub(crate) fn renew(&mut self, range: PfnRange, order: Option<Order>, from: u64) -> Checked {
        let mark = self.mark();
        self.stage.shadow.pass(range, from, mark)?;
        crate::shadow::stamp(&self.stage.arena, range, mark);
        self.hold(Block { range, order, mark });
        Ok(())
    }

    /// Lets a child prove itself, with or without this thread being pinned.
    pub(crate) fn fork(&mut self, pinned: bool) -> Checked {
        let seed = self.rng.below(1 << 30) as u64;
        let child = children::while_others_run(&self.stage, seed, self.held.last(), pinned)?;
        self.tally.did(child);
        Ok(())
    }

    /// Changes the thread's affinity, which is no call of the allocator but affects it.
    fn move_about(&mut self) {
        match self.rng.below(64) {
            0..=3 => {
                let allowed: Vec<usize> =
                    (0..CpuSet::MAX_CPU).filter(|&cpu| self.stage.processors.is_set(cpu)).collect();
                let mut set = CpuSet::new();
                match self.rng.below(2) {
                    0 if !allowed.is_empty() => set.set(self.rng.of(&allowed)),
                    _ => set = self.stage.processors,
                }
                // A sandbox may deny it: then there is less to endure.
                let moved = sched_setaffinity(None, &set).is_ok();
                self.tally.add(Did::Moved, moved.into());
            }
            4..=6 => {
                // SAFETY: this thread has no pin here: bursts end before their turn does.
                let had_one = unsafe { self.stage.pages().machine().give_up_lease() };
                self.tally.add(Did::LeasesGivenUp, had_one.into());
            }
            7 => std::thread::sleep(Duration::from_micros(self.rng.below(500) as u64)),
            8..=15 => std::thread::yield_now(),
            _ => {}
        }
    }
}

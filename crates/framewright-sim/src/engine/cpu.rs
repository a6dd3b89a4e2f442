//! One virtual CPU's own state.

use std::ptr;

use corosensei::Yielder;
use framewright::machine::Waiter;

use crate::engine::context::Context;
use crate::engine::locks::Taking;
use crate::memory::directory::{Fills, NONE};
use crate::model::Ps;

/// State of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Running,
    Ready,
    Parked,
    Asleep,
    Done,
}

/// Use of a CPU's time; the rest was hits in its own caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spent {
    Instructions,
    Near,
    Far,
    Memory,
    Queued,
    Spinning,
    Stores,
    Zeroing,
    Asleep,
    Interrupts,
}

/// Time by what it was spent on.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct TimeSpent([Ps; Spent::Interrupts as usize + 1]);

impl TimeSpent {
    pub(crate) fn add(&mut self, what: Spent, time: Ps) {
        self.0[what as usize] += time;
    }

    pub(crate) fn get(&self, what: Spent) -> Ps {
        self.0[what as usize]
    }

    pub(crate) fn sum(&self) -> Ps {
        self.0.iter().sum()
    }

    pub(crate) fn since(&self, before: &TimeSpent) -> TimeSpent {
        TimeSpent(std::array::from_fn(|i| self.0[i] - before.0[i]))
    }
}

/// Most stores that may be under way in any model.
pub(crate) const MOST_STORES: usize = 64;

/// Stores that are not visible yet. They become visible in the order in which they were made.
#[derive(Clone, Debug)]
pub(crate) struct StoreBuffer {
    /// Of those that missed: when it becomes visible, and how many stores of any kind had been made before it.
    under_way: [(Ps, u64); MOST_STORES],
    first: usize,
    count: usize,
    last: Ps,
}

impl StoreBuffer {
    /// When the last store becomes visible.
    pub(crate) fn last(&self) -> Ps {
        self.last
    }

    /// Returns how long the CPU waits before it makes its next store.
    ///
    /// It waits until fewer than `most` stores are under way and the first of them is one of the last `buffer` stores.
    /// `made` stores have been made so far.
    pub(crate) fn make_room(&mut self, now: Ps, made: u64, (most, buffer): (u8, u64)) -> Ps {
        let mut until = now;
        while self.count != 0 {
            let (visible, before) = self.under_way[self.first];
            let has_room = self.count < usize::from(most).clamp(1, MOST_STORES) && made - before < buffer;
            if visible > until && has_room {
                break;
            }
            until = until.max(visible);
            self.first = (self.first + 1) % MOST_STORES;
            self.count -= 1;
        }
        until - now
    }

    /// Returns how many stores the CPU may have made before it must check again for room.
    pub(crate) fn enough_for(&self, buffer: u64) -> u64 {
        if self.count == 0 { u64::MAX } else { self.under_way[self.first].1.saturating_add(buffer) }
    }

    /// Makes a store that is done at `done`; `made` stores were made before it.
    ///
    /// There must be room.
    pub(crate) fn post(&mut self, done: Ps, made: u64) {
        self.last = self.last.max(done);
        self.under_way[(self.first + self.count) % MOST_STORES] = (self.last, made);
        self.count += 1;
    }
}

/// The running CPU, as far as every access needs it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Now {
    pub(crate) clock: Ps,
    /// Time up to which it may go on without looking at other CPUs.
    pub(super) limit: Ps,
    /// Accesses so far.
    pub(crate) accesses: u64,
    /// Stores so far, and the number that it may reach without checking those under way.
    pub(super) stores: u64,
    pub(super) enough: u64,
    pub(crate) fills: Fills,
    pub(crate) core: u16,
    pub(crate) cpu: u16,
}

impl Now {
    pub(crate) fn of(cpu: u16, core: u16) -> Now {
        Now { cpu, core, enough: u64::MAX, ..Now::default() }
    }
}

/// How far a CPU was at some moment.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Mark {
    pub(crate) clock: Ps,
    pub(crate) times: TimeSpent,
    pub(crate) accesses: u64,
}

/// A virtual CPU.
pub(crate) struct Cpu {
    pub(crate) now: Now,
    pub(crate) node: u16,
    pub(crate) state: State,
    /// The coroutine's way back to the host loop.
    pub(crate) yielder: *const Yielder<(), ()>,
    pub(crate) stores: StoreBuffer,
    /// Time that other CPUs have cost it; it is charged at its next turn.
    pub(crate) debt: Ps,
    /// Line that the CPU spins on, and the next CPU that spins on it.
    pub(crate) parked_at: usize,
    pub(crate) next_parked: u16,
    /// The CPU waits with a deadline, which is queued.
    pub(crate) is_timed: bool,
    pub(crate) waiter: Option<Waiter>,
    pub(crate) context: Context,
    /// NMIs that have begun and not ended.
    pub(crate) nmis: u32,
    /// Times of the next interrupt and the next NMI.
    pub(crate) next_interrupt: Ps,
    pub(crate) next_nmi: Ps,
    pub(crate) times: TimeSpent,
    /// Operations that ended in the window.
    pub(crate) operations: u64,
    /// The window's beginning and end, once the clock has passed them.
    pub(crate) marks: [Option<Mark>; 2],
    /// The next bound of the window that the CPU has not passed.
    pub(crate) next_mark: Ps,
    /// Locks that it waits for or holds.
    pub(crate) taking: Vec<Taking>,
    /// The CPU had to spin since it wanted the last lock.
    pub(crate) spun: bool,
}

impl Cpu {
    /// Ends a wait at `at`, or now if that is later.
    pub(super) fn end_wait(&mut self, at: Ps, window: (Ps, Ps)) {
        let spent = if self.state == State::Asleep { Spent::Asleep } else { Spent::Spinning };
        let time = at.saturating_sub(self.now.clock);
        self.mark_within(spent, time, window);
        self.now.clock += time;
        self.times.add(spent, time);
    }

    /// Marks the CPU at each bound of the window that lies within the `time` that it is about to spend.
    ///
    /// A wait, or the zeroing of a block, may last longer than a window. So its time is divided at the bounds.
    pub(super) fn mark_within(&mut self, what: Spent, time: Ps, (begin, end): (Ps, Ps)) {
        let now = self.now.clock;
        for (mark, bound) in self.marks.iter_mut().zip([begin, end]) {
            if mark.is_none() && (now..now + time).contains(&bound) {
                let mut times = self.times;
                times.add(what, bound - now);
                *mark = Some(Mark { clock: bound, times, accesses: self.now.accesses });
            }
        }
    }

    pub(crate) fn new(number: u16, core: u16, node: u16) -> Cpu {
        Cpu {
            now: Now::of(number, core),
            node,
            state: State::Done,
            yielder: ptr::null(),
            stores: StoreBuffer { under_way: [(0, 0); MOST_STORES], first: 0, count: 0, last: 0 },
            debt: 0,
            parked_at: 0,
            next_parked: NONE,
            is_timed: false,
            waiter: None,
            context: Context::default(),
            nmis: 0,
            next_interrupt: Ps::MAX,
            next_nmi: Ps::MAX,
            times: TimeSpent::default(),
            operations: 0,
            marks: [None; 2],
            next_mark: 0,
            taking: Vec::new(),
            spun: false,
        }
    }
}

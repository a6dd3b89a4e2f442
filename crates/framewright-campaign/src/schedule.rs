//! Schedules: which thread goes on, and for how many accesses.
//!
//! | schedule | turn | next thread |
//! |---|---|---|
//! | `calls` | a whole call; a thread stopped in one goes on between others' calls | that of the next operation |
//! | `random:N` | N accesses on average | any |
//! | `pct:D` | until it waits, or at one of D - 1 random places of a segment | the one of highest priority |
//! | `robin:N` | N accesses; now and then a thread is stopped for thousands | the next in order |
//!
//! PCT (Burckhardt et al., ASPLOS 2010) gives each thread a random priority and lowers that of the running thread at
//! the random places. It finds a bug that needs D events in one order with a probability that is known; a random
//! schedule of many threads practically never lets one thread stand still while another makes a thousand accesses.
//! `calls` is for volume: it reaches deep states of memory at a tenth of the cost of switching.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::str::FromStr;

use crate::engine::Engine;
use crate::kind::Kind;
use crate::thread::{Blocked, Power, Thread};
use crate::words::stores_to;

/// How the next thread is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// One call after the other.
    Calls,
    /// Any thread, for this number of accesses on average.
    Random(u64),
    /// By priorities that change at this number of places, less one.
    Pct(u64),
    /// In order, for this number of accesses each.
    Robin(u64),
}

impl Schedule {
    /// Names of the schedules.
    pub const NAMES: [&str; 4] = ["calls", "random", "pct", "robin"];

    /// Returns the position of the schedule's name in [`Schedule::NAMES`].
    pub const fn index(self) -> usize {
        match self {
            Schedule::Calls => 0,
            Schedule::Random(_) => 1,
            Schedule::Pct(_) => 2,
            Schedule::Robin(_) => 3,
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Schedule::NAMES[self.index()])?;
        match self {
            Schedule::Calls => Ok(()),
            Schedule::Random(number) | Schedule::Pct(number) | Schedule::Robin(number) => write!(f, ":{number}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let (name, number) = text.split_once(':').unwrap_or((text, ""));
        let number = || match number.parse() {
            Ok(number @ 1..=1_000_000) => Ok(number),
            _ => Err(format!("{text:?} needs a number from 1 to 1000000 after the colon")),
        };
        match name {
            "calls" if text == name => Ok(Schedule::Calls),
            "random" => Ok(Schedule::Random(number()?)),
            "pct" => Ok(Schedule::Pct(number()?)),
            "robin" => Ok(Schedule::Robin(number()?)),
            _ => Err(format!("{text:?} is no schedule: calls, random:N, pct:D or robin:N")),
        }
    }
}

/// Longest time for which `robin` stops a thread, in accesses of others.
const STOPPED: u64 = 20_000;
/// Turns of `robin` after which, on average, a thread is stopped.
const STOPS_IN: u64 = 64;
/// Turn of a PCT thread while one of higher priority waits for a store.
const SHORT_TURN: u64 = 64;

/// State of a schedule.
pub(crate) struct Turns {
    pub(crate) schedule: Schedule,
    /// Threads with something to do.
    active: RefCell<Vec<usize>>,
    cursor: Cell<usize>,
    /// PCT: accesses at which priorities change, the next one last.
    changes: RefCell<Vec<u64>>,
    /// PCT: the lowest priority so far.
    lowest: Cell<i64>,
    /// Accesses when the segment began, and how many the last one took.
    began: Cell<u64>,
    length: Cell<u64>,
}

impl Turns {
    pub(crate) fn new(schedule: Schedule) -> Turns {
        Turns {
            schedule,
            active: RefCell::default(),
            cursor: Cell::new(0),
            changes: RefCell::default(),
            lowest: Cell::new(0),
            began: Cell::new(0),
            length: Cell::new(20_000),
        }
    }

    /// Prepares a segment: threads that get work later are made active by [`Turns::activate`].
    pub(crate) fn begin(&self, engine: &Engine) {
        let now = engine.accesses.get();
        self.length.set((now - self.began.get()).max(1_000));
        self.began.set(now);
        if let Schedule::Pct(depth) = self.schedule {
            for thread in &engine.threads {
                thread.priority.set(1 + engine.below(1 << 40) as i64);
            }
            self.lowest.set(0);
            let mut changes: Vec<u64> = (1..depth).map(|_| now + engine.below(self.length.get())).collect();
            changes.sort_unstable_by(|one, other| other.cmp(one));
            self.changes.replace(changes);
        }
    }

    pub(crate) fn activate(&self, number: usize) {
        let mut active = self.active.borrow_mut();
        if !active.contains(&number) {
            active.push(number);
        }
    }

    /// Removes a thread that has nothing to do.
    pub(crate) fn retire(&self, number: usize) {
        let mut active = self.active.borrow_mut();
        active.retain(|&other| other != number);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.active.borrow().is_empty()
    }

    /// PCT: a thread that polls goes behind all others.
    pub(crate) fn yields(&self, thread: &Thread) {
        self.lowest.set(self.lowest.get() - 1);
        thread.priority.set(self.lowest.get());
    }

    /// Chooses the next thread and sets the length of its turn; `None` if every active thread waits in vain.
    pub(crate) fn next(&self, engine: &Engine) -> Option<usize> {
        let active = self.active.borrow();
        let number = match self.schedule {
            Schedule::Calls | Schedule::Random(_) => self.any(engine, &active),
            Schedule::Pct(_) => self.highest(engine, &active),
            Schedule::Robin(_) => self.following(engine, &active),
        };
        let number = number.or_else(|| rescued(engine, &active))?;
        engine.turn.set(self.length_of_turn(engine, &active, number));
        Some(number)
    }

    fn any(&self, engine: &Engine, active: &[usize]) -> Option<usize> {
        let first = engine.below(active.len() as u64) as usize;
        let (before, after) = active.split_at(first.min(active.len()));
        after.iter().chain(before).copied().find(|&number| may_run(engine, number))
    }

    fn highest(&self, engine: &Engine, active: &[usize]) -> Option<usize> {
        let runs = active.iter().copied().filter(|&number| may_run(engine, number));
        runs.max_by_key(|&number| engine.threads[number].priority.get())
    }

    fn following(&self, engine: &Engine, active: &[usize]) -> Option<usize> {
        for _ in 0..active.len() {
            self.cursor.set((self.cursor.get() + 1) % active.len());
            let number = active[self.cursor.get()];
            if !may_run(engine, number) {
                continue;
            }
            let thread = &engine.threads[number];
            if thread.inside.get() && engine.enabled.has(Kind::ThreadStopped) && engine.below(STOPS_IN) == 0 {
                thread.stopped_until.set(engine.accesses.get() + 1 + engine.below(STOPPED));
                engine.hit(Kind::ThreadStopped);
                continue;
            }
            return Some(number);
        }
        None
    }

    fn length_of_turn(&self, engine: &Engine, active: &[usize], number: usize) -> u64 {
        match self.schedule {
            Schedule::Calls => u64::MAX,
            Schedule::Random(mean) => 1 + engine.below(2 * mean),
            Schedule::Robin(accesses) => accesses,
            Schedule::Pct(_) => {
                let now = engine.accesses.get();
                let mut changes = self.changes.borrow_mut();
                while changes.pop_if(|at| *at <= now).is_some() {
                    self.yields(&engine.threads[number]);
                }
                let waits =
                    active.iter().any(|&other| matches!(engine.threads[other].blocked.get(), Blocked::Store { .. }));
                let until = changes.last().map_or(u64::MAX, |at| at - now);
                if waits { until.min(SHORT_TURN) } else { until }
            }
        }
    }
}

/// Returns whether a thread waits for a store that was not made yet.
fn waits(thread: &Thread) -> bool {
    matches!(thread.blocked.get(), Blocked::Store { address, since, .. } if since == stores_to(address))
}

/// Returns whether a thread may go on.
fn may_run(engine: &Engine, number: usize) -> bool {
    let thread = &engine.threads[number];
    !waits(thread) && thread.power.get() != Power::Going && thread.stopped_until.get() <= engine.accesses.get()
}

/// Returns a thread that goes on because no other may: one that was stopped, or one that gives up its wait.
fn rescued(engine: &Engine, active: &[usize]) -> Option<usize> {
    let threads = || active.iter().copied().filter(|&number| engine.threads[number].power.get() != Power::Going);
    let is_stopped = |&number: &usize| engine.threads[number].stopped_until.get() > engine.accesses.get();
    if let Some(number) = threads().filter(is_stopped).min_by_key(|&number| engine.threads[number].stopped_until.get())
    {
        engine.threads[number].stopped_until.set(0);
        if !waits(&engine.threads[number]) {
            return Some(number);
        }
        return rescued(engine, active);
    }
    threads().find(|&number| matches!(engine.threads[number].blocked.get(), Blocked::Store { may_give_up: true, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_parse_back() {
        for schedule in [Schedule::Calls, Schedule::Random(7), Schedule::Pct(3), Schedule::Robin(19)] {
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        for text in ["", "calls:3", "random", "pct:0", "robin:x", "fair"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}

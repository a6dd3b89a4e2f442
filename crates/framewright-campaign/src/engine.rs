//! The engine: threads as coroutines, each access a point where another may go on.
//!
//! A thread gets a budget of accesses and runs until it is used up (`words.rs`). Then the engine looks which of these
//! is due: an interrupt on this CPU, the end of the thread's turn, or the end of what a call may take. Nothing else
//! costs anything at an access. The schedule (`schedule.rs`) says how long a turn is and which thread comes next.
//!
//! *Progress* is a property that is checked: a call that makes more accesses of its own than its limit, waits that no
//! thread will end, and a wait for a turn in an NMI are findings like any other.
//!
//! Rejected: the engine of `framewright-sim`. It charges each access to a cache line and orders CPUs by their clocks,
//! which costs ten times what the allocator itself does.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::rc::Rc;

use corosensei::Yielder;
use framewright::machine::Patience;

use crate::kind::{Counters, Kind, Kinds};
use crate::plant::Plant;
use crate::schedule::{Schedule, Turns};
use crate::thread::{Blocked, Context, Level, Thread};
use crate::words::{BUDGET, PLANTED, begin_wait, end_wait, forget_waits, stores_to};
use crate::wrong::{Symptom, Wrong};

thread_local! {
    static RUNNING: RefCell<Option<Rc<Engine>>> = const { RefCell::new(None) };
}

/// Payload of the unwinding that ends a call after a finding.
pub(crate) struct Stop;

/// Payload of a panic that a callback makes on purpose.
pub(crate) struct OnPurpose;

/// Answer to a thread whose wait has not ended yet.
pub(crate) enum Wait {
    /// Others ran: look again.
    Look,
    /// Patience is over.
    GiveUp,
    /// There was a finding: whatever the word says.
    Dead,
}

/// What an interrupt of a thread does.
pub(crate) type Handler = Rc<dyn Fn(&Engine, usize)>;

/// Number of `current` while no thread runs.
const NONE: usize = usize::MAX;
/// Accesses after which a held-off interrupt tries again.
const HELD_OFF: u64 = 5;

/// The threads, and the state of their schedule.
pub(crate) struct Engine {
    pub(crate) threads: Vec<Thread>,
    pub(crate) current: Cell<usize>,
    /// Accesses of all threads so far.
    pub(crate) accesses: Cell<u64>,
    /// Turns that ended in the middle of a call.
    pub(crate) switches: Cell<u64>,
    /// Budget that the running thread had when it was last accounted.
    granted: Cell<u64>,
    /// Accesses left of the turn.
    pub(crate) turn: Cell<u64>,
    pub(crate) turns: Turns,
    random: Cell<u64>,
    pub(crate) enabled: Kinds,
    pub(crate) counters: Counters,
    /// What an interrupt does.
    handler: RefCell<Option<Handler>>,
    pub(crate) finding: RefCell<Option<Wrong>>,
    pub(crate) dead: Cell<bool>,
    pub(crate) plant: Option<Plant>,
    planted_stores: Cell<u64>,
    /// Most own accesses of a call, in ten-thousandths of its limit, by its effort.
    pub(crate) longest: Cell<[u64; 3]>,
}

impl Engine {
    pub(crate) fn new(cpus: usize, schedule: Schedule, (seed, enabled): (u64, Kinds), plant: Option<Plant>) -> Engine {
        Engine {
            threads: (0..cpus).map(|cpu| Thread::new(cpu as u16)).collect(),
            current: Cell::new(NONE),
            accesses: Cell::new(0),
            switches: Cell::new(0),
            granted: Cell::new(u64::MAX),
            turn: Cell::new(0),
            turns: Turns::new(schedule),
            random: Cell::new(seed),
            enabled,
            counters: Counters::default(),
            handler: RefCell::new(None),
            finding: RefCell::new(None),
            dead: Cell::new(false),
            plant,
            planted_stores: Cell::new(0),
            longest: Cell::default(),
        }
    }

    /// Draws a number below `limit`; 0 if that is 0.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        let mut rng = framewright_ops::rng::Rng::new(self.random.get());
        let drawn = rng.draw();
        self.random.set(self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        drawn.checked_rem(limit).unwrap_or(0)
    }

    pub(crate) fn set_handler(&self, handler: Option<Handler>) {
        self.handler.replace(handler);
    }

    /// Makes this the engine of the calling thread's words until the guard is dropped.
    pub(crate) fn enter(self: &Rc<Engine>) -> Entered {
        RUNNING.set(Some(self.clone()));
        BUDGET.set(u64::MAX);
        PLANTED.set(0);
        forget_waits();
        Entered
    }

    /// Returns the running thread.
    #[inline]
    pub(crate) fn thread(&self) -> Option<&Thread> {
        self.threads.get(self.current.get())
    }

    /// Notes a finding, if it is the first, and lets everything end.
    pub(crate) fn found(&self, wrong: Wrong) {
        if self.finding.borrow().is_none() {
            self.finding.replace(Some(wrong));
        }
        self.dead.set(true);
        BUDGET.set(u64::MAX);
        self.granted.set(u64::MAX);
    }

    pub(crate) fn hit(&self, kind: Kind) {
        self.counters.count(kind);
    }

    /// Returns whether the armed fault of the running context is `kind` and takes effect now.
    pub(crate) fn fires(&self, kind: Kind) -> bool {
        let Some(thread) = self.thread().filter(|_| !self.dead.get()) else { return false };
        match thread.context.get().armed {
            Some((armed, left)) if armed == kind => {
                let rest = left.saturating_sub(1);
                thread.with(|context| context.armed = (rest != 0).then_some((kind, rest)));
                if rest == 0 {
                    self.hit(kind);
                }
                rest == 0
            }
            _ => false,
        }
    }

    /// Returns whether a fault takes effect that needs not be armed: once in `n` times, if it is enabled.
    pub(crate) fn happens(&self, kind: Kind, n: u64) -> bool {
        let happens = self.thread().is_some() && !self.dead.get() && self.enabled.has(kind) && self.below(n) == 0;
        if happens {
            self.hit(kind);
        }
        happens
    }

    /// Returns whether another thread is in the middle of a call.
    pub(crate) fn others_are_inside(&self) -> bool {
        let current = self.current.get();
        self.threads.iter().enumerate().any(|(number, thread)| number != current && thread.inside.get())
    }

    /// Accounts for the accesses since the last time.
    pub(crate) fn settle(&self) {
        let left = BUDGET.get();
        let used = self.granted.get() - left;
        self.granted.set(left);
        if used == 0 {
            return;
        }
        self.accesses.set(self.accesses.get() + used);
        self.turn.set(self.turn.get().saturating_sub(used));
        if let Some(thread) = self.thread() {
            thread.interrupt_in.set(match thread.interrupt_in.get() {
                u64::MAX => u64::MAX,
                until => until.saturating_sub(used),
            });
            thread.with(|context| context.steps += used);
        }
    }

    /// Gives the running thread its next budget.
    pub(crate) fn grant(&self) {
        let budget = match self.thread().filter(|_| !self.dead.get()) {
            Some(thread) => {
                let Context { steps, limit, .. } = thread.context.get();
                self.turn.get().min(thread.interrupt_in.get()).min(limit.saturating_sub(steps)).max(1)
            }
            None => u64::MAX,
        };
        BUDGET.set(budget);
        self.granted.set(budget);
    }

    /// Handles a budget that is used up, before an access.
    fn refill(&self) {
        self.settle();
        let Some(thread) = self.thread().filter(|_| !self.dead.get()) else { return self.grant() };
        if thread.interrupt_in.get() == 0 {
            self.interrupt(thread);
        }
        let Context { steps, limit, .. } = thread.context.get();
        if steps >= limit && !self.dead.get() {
            let text = format!("a call made {steps} accesses, with {} interruptions", thread.interruptions.get());
            self.found(Wrong::new(Symptom::Progress, text));
            self.unwind();
        }
        if self.turn.get() == 0 && !self.dead.get() {
            thread.interruptions.set(thread.interruptions.get() + 1);
            self.switches.set(self.switches.get() + 1);
            self.suspend();
        }
        self.grant();
    }

    /// Ends the running call after a finding.
    fn unwind(&self) {
        if !std::thread::panicking() {
            resume_unwind(Box::new(Stop));
        }
    }

    /// Lets an interrupt come to the running thread, if it may.
    fn interrupt(&self, thread: &Thread) {
        let context = thread.context.get();
        let is_nmi = thread.is_nmi_next.get();
        if !is_nmi && (context.irq_off != 0 || context.level != Level::Task) {
            return thread.interrupt_in.set(HELD_OFF);
        }
        thread.interrupt_in.set(u64::MAX);
        let Some(handler) = self.handler.borrow().clone() else { return };
        if thread.zone_locks.get() != 0 {
            self.hit(Kind::NmiInLock);
        }
        if thread.depth.get() != 0 {
            self.hit(Kind::NmiNested);
        }
        let level = if is_nmi { Level::Nmi } else { Level::Interrupt };
        thread.context.set(Context { level, ..Context::IDLE });
        thread.depth.set(thread.depth.get() + 1);
        self.grant();
        handler(self, self.current.get());
        self.settle();
        thread.depth.set(thread.depth.get() - 1);
        thread.context.set(context);
    }

    /// Lets other threads run until the schedule comes back to this one.
    pub(crate) fn suspend(&self) {
        let Some(thread) = self.thread() else { return };
        let yielder = thread.yielder.get();
        if yielder.is_null() {
            return;
        }
        // SAFETY: the pointer was noted by this thread's coroutine when it began (`coroutines.rs`), and its target
        // lives on this coroutine's own stack until that ends. `current` is the thread whose coroutine runs.
        let yielder: &Yielder<(), ()> = unsafe { &*yielder };
        yielder.suspend(());
    }

    /// Stops the running thread while others make that many accesses.
    pub(crate) fn stop(&self, accesses: u64) {
        let Some(thread) = self.thread().filter(|_| !self.dead.get()) else { return };
        self.settle();
        thread.stopped_until.set(self.accesses.get() + accesses);
        thread.interruptions.set(thread.interruptions.get() + 1);
        self.switches.set(self.switches.get() + 1);
        self.suspend();
        self.grant();
    }

    /// Lets others run while a loop of the core polls.
    pub(crate) fn relax(&self) {
        let Some(thread) = self.thread().filter(|_| !self.dead.get()) else { return };
        if thread.context.get().level == Level::Nmi {
            return;
        }
        self.settle();
        self.turns.yields(thread);
        self.suspend();
        self.grant();
    }

    fn wait(&self, patience: Patience, looks: u32, address: usize) -> Wait {
        let Some(thread) = self.thread() else {
            // Between segments nothing runs that could end a wait.
            if patience == Patience::Turn && !self.dead.get() {
                self.found(Wrong::new(Symptom::Deadlock, "all threads rest, and a lock is held".to_owned()));
            }
            return if patience == Patience::Turn { Wait::Dead } else { Wait::GiveUp };
        };
        if self.dead.get() {
            return Wait::Dead;
        }
        let tries = match patience {
            Patience::Turn => None,
            Patience::Tries(tries) => Some(tries),
        };
        if tries.is_some_and(|tries| looks >= tries) || tries.is_some() && self.fires(Kind::PatienceOver) {
            return Wait::GiveUp;
        }
        if thread.context.get().level == Level::Nmi {
            // What it would wait for may be what it interrupted.
            if tries.is_none() {
                self.found(Wrong::new(Symptom::NmiWaits, "an NMI waits for a turn".to_owned()));
                self.unwind();
                return Wait::Dead;
            }
            return Wait::GiveUp;
        }
        self.settle();
        let since = begin_wait(address);
        thread.blocked.set(Blocked::Store { address, since, may_give_up: tries.is_some() });
        self.suspend();
        let is_in_vain = stores_to(address) == since;
        end_wait(address);
        self.grant();
        match self.dead.get() {
            true => Wait::Dead,
            // It was resumed although nobody stored, because nobody will.
            false if is_in_vain && tries.is_some() => Wait::GiveUp,
            false => Wait::Look,
        }
    }

    /// Returns whether the store to the planted word goes wrong.
    fn is_planted_store(&self, is_cas: bool) -> bool {
        if self.current.get() == NONE || self.dead.get() {
            return false;
        }
        let count = self.planted_stores.get() + 1;
        self.planted_stores.set(count);
        self.plant.as_ref().is_some_and(|plant| plant.spoils(count, is_cas))
    }
}

/// The engine is the calling thread's until this is dropped.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        RUNNING.take();
        BUDGET.set(u64::MAX);
        PLANTED.set(0);
    }
}

fn running() -> Option<Rc<Engine>> {
    RUNNING.with_borrow(Clone::clone)
}

/// Asks the engine what is next, before an access.
#[cold]
#[inline(never)]
pub(crate) fn out_of_budget() {
    match running() {
        Some(engine) => engine.refill(),
        None => BUDGET.set(u64::MAX),
    }
    BUDGET.set(BUDGET.get() - 1);
}

/// Lets the running thread wait after its n-th look at a word.
#[cold]
pub(crate) fn wait(patience: Patience, looks: u32, address: usize) -> Wait {
    running().map_or(Wait::GiveUp, |engine| engine.wait(patience, looks, address))
}

/// Returns whether the store to the planted word goes wrong.
#[cold]
pub(crate) fn is_planted_store(is_cas: bool) -> bool {
    running().is_some_and(|engine| engine.is_planted_store(is_cas))
}

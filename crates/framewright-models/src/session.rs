//! What one exploration knows beside loom: which words are shared, what is planted, what was reached.
//!
//! loom runs all threads of a model as coroutines of the one thread that explores it. So a plain thread local is seen by all
//! of them, and two explorations in two test threads do not meet.
//!
//! # Which words loom has to know
//!
//! An allocator has about two thousand words; a model's threads meet in a few dozen. Telling loom of all would cost a
//! millisecond for each execution and most of the search. A word that a single thread touches, or that nobody writes, behaves
//! like a plain cell under every schedule. So exploration starts with plain words; a word that two threads touch, one of them
//! writing, is noted, and exploration starts over with that word made of loom's atomics. It ends when a *complete*
//! search met no plain word that two threads shared: that search is the result, the ones before it are thrown away.
//! A search with one preemption comes before those with more: it is short, and meets most of the words.
//! Words are told apart by the order in which they are made, which is the same in every execution.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;

use framewright::machine::Ordering;

/// Part of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// One thread sets things up or looks at what came of it; words are plain.
    #[default]
    Alone,
    /// The model's threads run.
    Together,
}

/// A call in the core: file and line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Place {
    /// Seen from the core's sources, such as `pcp.rs` or `report/counters.rs`.
    pub file: &'static str,
    /// Counted from 1.
    pub line: u32,
}

/// A bug put into the core from below, at one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// The call orders nothing: its ordering is relaxed, or its fence is gone.
    Relax(Place),
    /// The call does nothing: a store is lost, a load finds zero, a wait is over at once, an exchange claims to have succeeded.
    Skip(Place),
    /// The call, an addition, is a load and a store.
    Tear(Place),
}

/// What becomes of an execution.
pub(crate) enum Verdict {
    /// Its outcome is checked.
    Counts,
    /// Its search will start over, and goes on to learn more words.
    Learns,
    /// Its search starts over.
    StartOver,
}

/// Part of a stage, which the set-up makes once for a whole search.
pub(crate) trait Restore {
    /// The set-up is over: every execution starts with what is there now.
    fn keep(&self);
    /// The threads of an execution are about to start.
    fn restore(&self);
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Session {
    plant: Cell<Option<Plant>>,
    spins: Cell<bool>,
    /// Waits that only damage could make endless give up nevertheless.
    pub(crate) impatient: Cell<bool>,
    /// Times the planted call was met.
    pub(crate) met: Cell<u64>,
    next: Cell<u32>,
    shared: RefCell<Vec<bool>>,
    /// Parts that this execution changed.
    changed: RefCell<Vec<Rc<dyn Restore>>>,
    /// Parts that are restored before each execution.
    always: RefCell<Vec<Rc<dyn Restore>>>,
    /// The execution that first met a plain word that threads share, if any did.
    learned_at: Cell<Option<u64>>,
    pub(crate) executions: Cell<u64>,
}

/// Files of the core whose waits sleep. With an ordering of theirs relaxed they spin.
const WAITS: [&str; 5] = ["ticket_lock.rs", "queued_lock.rs", "smp_list.rs", "concurrent_free.rs", "cluster.rs"];

thread_local! {
    static SESSION: Session = Session::default();
    // Every access to a word asks for these.
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Alone) };
    static IS_PLANTED: Cell<bool> = const { Cell::new(false) };
}

/// Which part of its execution the exploration is in.
pub(crate) fn phase() -> Phase {
    PHASE.get()
}

/// Whether a bug is planted.
pub(crate) fn is_planted() -> bool {
    IS_PLANTED.get()
}

/// The exploration that this thread runs.
pub(crate) fn with<T>(look: impl FnOnce(&Session) -> T) -> T {
    SESSION.with(look)
}

impl Session {
    /// A new exploration of so many threads, with nothing known of its words. With three threads that spin it would not end:
    /// what is planted there in a lock must be one that waking does not hide.
    pub(crate) fn start(&self, plant: Option<Plant>, (spins, threads): (bool, usize)) {
        self.plant.set(plant);
        IS_PLANTED.set(plant.is_some());
        let relaxes_wait = matches!(plant, Some(Plant::Relax(place)) if waits(place.file));
        self.spins.set(spins || (relaxes_wait && threads < 3));
        self.impatient.set(false);
        self.met.set(0);
        self.shared.borrow_mut().clear();
        self.restart();
    }

    /// The same exploration from its beginning, with what was learned of its words.
    pub(crate) fn restart(&self) {
        self.learned_at.set(None);
        self.executions.set(0);
        self.next.set(0);
        self.changed.borrow_mut().clear();
        self.always.borrow_mut().clear();
    }

    /// Whether a wait for a turn may sleep until something is stored, rather than look again and again. That is the same
    /// as long as the lock's own orderings are there: waking somebody orders memory as they do.
    pub(crate) fn sleeps(&self) -> bool {
        !self.spins.get()
    }

    /// An execution begins.
    pub(crate) fn execute(&self) {
        PHASE.set(Phase::Alone);
        self.executions.set(self.executions.get() + 1);
    }

    /// Number of the word that is being made, and whether it must be loom's.
    pub(crate) fn number(&self) -> (u32, bool) {
        let number = self.next.get();
        self.next.set(number + 1);
        (number, self.shared.borrow().get(number as usize) == Some(&true))
    }

    /// `part` has changed, and is restored before the next execution.
    pub(crate) fn restore_later(&self, part: Rc<dyn Restore>) {
        self.changed.borrow_mut().push(part);
    }

    /// `part` is restored before each execution.
    pub(crate) fn restore_always(&self, part: Rc<dyn Restore>) {
        self.always.borrow_mut().push(part);
    }

    /// The set-up is over.
    pub(crate) fn keep(&self) {
        self.changed.borrow_mut().drain(..).for_each(|part| part.keep());
        self.always.borrow().iter().for_each(|part| part.keep());
    }

    /// The model's threads start, from what the set-up left.
    pub(crate) fn together(&self) {
        self.changed.borrow_mut().drain(..).for_each(|part| part.restore());
        self.always.borrow().iter().for_each(|part| part.restore());
        PHASE.set(Phase::Together);
    }

    /// The model's threads are done.
    pub(crate) fn finish(&self) {
        PHASE.set(Phase::Alone);
    }

    /// A plain word turned out to be shared.
    pub(crate) fn learn(&self, number: u32) {
        let (mut shared, number) = (self.shared.borrow_mut(), number as usize);
        let words = shared.len().max(number + 1);
        shared.resize(words, false);
        shared[number] = true;
        if self.learned_at.get().is_none() {
            self.learned_at.set(Some(self.executions.get()));
        }
    }

    /// Whether this search met a plain word that threads share.
    pub(crate) fn has_learned(&self) -> bool {
        self.learned_at.get().is_some()
    }

    /// What becomes of the execution that has ended.
    ///
    /// A search that has to start over goes on for as many executions as it took to learn that: what else it learns
    /// throws no other search away.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.learned_at.get() {
            None => Verdict::Counts,
            Some(at) if self.executions.get() < 2 * at => Verdict::Learns,
            Some(_) => Verdict::StartOver,
        }
    }

    /// Number of words that are loom's.
    pub(crate) fn words(&self) -> usize {
        self.shared.borrow().iter().filter(|&&is_shared| is_shared).count()
    }

    /// The ordering that an operation called at `place` gets.
    pub(crate) fn ordering(&self, place: &Location<'_>, ordering: Ordering) -> Ordering {
        let relax = matches!(self.plant.get(), Some(Plant::Relax(planted)) if self.is_met(planted, place));
        if relax { Ordering::Relaxed } else { ordering }
    }

    /// Whether a fence called at `place` is there.
    pub(crate) fn fences(&self, place: &Location<'_>) -> bool {
        !matches!(self.plant.get(), Some(Plant::Relax(planted) | Plant::Skip(planted)) if self.is_met(planted, place))
    }

    /// Whether an addition called at `place` is none in one.
    pub(crate) fn tears(&self, place: &Location<'_>) -> bool {
        matches!(self.plant.get(), Some(Plant::Tear(planted)) if self.is_met(planted, place))
    }

    /// Whether an operation called at `place` does nothing.
    pub(crate) fn skips(&self, place: &Location<'_>) -> bool {
        matches!(self.plant.get(), Some(Plant::Skip(planted)) if self.is_met(planted, place))
    }

    fn is_met(&self, planted: Place, place: &Location<'_>) -> bool {
        let met =
            place.line() == planted.line && PHASE.get() == Phase::Together && is_in_core(place.file(), planted.file);
        self.met.set(self.met.get() + u64::from(met));
        met
    }
}

/// Whether the path that the compiler knows a source by is that of this file of the core.
fn is_in_core(path: &str, file: &str) -> bool {
    path.replace('\\', "/").strip_suffix(file).is_some_and(|folder| folder.ends_with("/framewright/src/"))
}

/// Whether the waits in a file of the core sleep.
fn waits(file: &str) -> bool {
    file.rsplit('/').next().is_some_and(|name| WAITS.contains(&name))
}

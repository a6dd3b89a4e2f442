//! The state of one exploration beside loom's: the shared words, the planted bug, and the words to restore.
//!
//! loom runs all threads of a model as coroutines of the one thread that explores it. So all of them see one plain
//! thread local, and two explorations in two test threads do not meet.
//!
//! # Which words are loom's
//!
//! An allocator has about two thousand words; a model's threads share a few dozen. With all of them as atomics of loom,
//! an execution would take a millisecond longer, and most of the search would be spent on them. A word that a single
//! thread touches, or that no thread writes, behaves like a plain cell under every schedule. So exploration starts with
//! plain words. It notes each word that two threads touch and one of them writes, and starts over with these words as
//! loom's. It ends when a *complete* search meets no plain word that threads share. That search is the result; the ones
//! before it are thrown away. A search with one preemption comes before those with more: it is short, and meets most of
//! the words. Words are told apart by the order in which they are made, which is the same in every search.
//!
//! # What executions start with
//!
//! The first execution of a search runs the set-up; each execution after it restores the parts that the one before
//! changed. The set-up is a single thread that makes no choice, so a search takes the same course as if it ran every
//! time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;

use framewright::machine::Ordering;

/// Part of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// One thread runs the set-up or the check, in which words are plain.
    #[default]
    Alone,
    /// The model's threads run.
    Together,
    /// One thread works in a copy of all words, as after a fork. Words are plain, and changes are undone.
    Copied,
}

/// A call in the core: file, line and column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Place {
    /// Seen from the core's sources, such as `pcp.rs` or `report/counters.rs`.
    pub file: &'static str,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, where the name of the called method begins; 0 for every call in the line.
    pub column: u32,
}

/// A bug planted in the core's words, at one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// The call orders less: it has this ordering. A fence is gone.
    Weaken(Place, Ordering),
    /// The call does nothing: a store is lost, a load returns zero, a wait ends at once, an exchange claims success.
    Skip(Place),
    /// The call, an addition, is a load and then a store.
    Tear(Place),
}

/// Any call of the machine or of a word: its file as the compiler names it, line and column.
pub type Call = (&'static str, u32, u32);

/// What becomes of an execution.
pub(crate) enum Verdict {
    /// Its outcome is checked.
    Counts,
    /// Its search must start over, and goes on meanwhile to learn more words.
    Learns,
    /// Its search starts over.
    StartOver,
}

/// Part of a stage, which the set-up makes once for a whole search.
pub(crate) trait Restore {
    /// Makes the present state the one that every execution starts with.
    fn keep(&self);
    /// Returns to that state, right before the threads of an execution start.
    fn restore(&self);
}

/// The state of one exploration.
#[derive(Default)]
pub(crate) struct Session {
    plant: Cell<Option<Plant>>,
    spins: Cell<bool>,
    /// A call that no thread may make.
    never: Cell<Option<Place>>,
    /// An exchange that fails may return an old value.
    pub(crate) stale: Cell<bool>,
    /// Waits that only damage could make endless also give up.
    pub(crate) impatient: Cell<bool>,
    /// Number of times that the planted call was met.
    pub(crate) met: Cell<u64>,
    /// Calls that an exploration without a plant met, if it notes them.
    pub(crate) noted: RefCell<Option<BTreeSet<Call>>>,
    next: Cell<u32>,
    shared: RefCell<Vec<bool>>,
    /// Parts that this execution changed.
    changed: RefCell<Vec<Rc<dyn Restore>>>,
    /// What undoes the changes in a copy.
    undo: RefCell<Vec<Box<dyn FnOnce()>>>,
    /// Parts that are restored before each execution.
    always: RefCell<Vec<Rc<dyn Restore>>>,
    /// The execution that first met a plain word that threads share, if any did.
    learned_at: Cell<Option<u64>>,
    pub(crate) executions: Cell<u64>,
}

/// Files of the core whose waits sleep. They spin if one of their own orderings is relaxed.
const WAITS: [&str; 5] = ["ticket_lock.rs", "queued_lock.rs", "smp_list.rs", "concurrent_free.rs", "cluster.rs"];

thread_local! {
    static SESSION: Session = Session::default();
    // Separate, because every access to a word reads them.
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Alone) };
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the part of the running execution.
pub(crate) fn phase() -> Phase {
    PHASE.get()
}

/// Returns whether a bug is planted, or calls are noted.
pub(crate) fn is_watched() -> bool {
    IS_WATCHED.get()
}

/// Runs `act` in a copy of all words, each with the value that was stored last, and forgets the copy.
///
/// No other thread runs meanwhile.
///
/// # Errors
/// The payload with which `act` unwound.
pub(crate) fn in_copy<R>(act: impl FnOnce() -> R) -> std::thread::Result<R> {
    let phase = PHASE.replace(Phase::Copied);
    let result = catch_unwind(AssertUnwindSafe(act));
    PHASE.set(phase);
    with(|session| session.undo.take()).into_iter().rev().for_each(|undo| undo());
    result
}

/// Gives `look` the exploration that this thread runs.
pub(crate) fn with<T>(look: impl FnOnce(&Session) -> T) -> T {
    SESSION.with(look)
}

impl Session {
    /// Starts an exploration of `threads` threads, which knows no shared word yet.
    ///
    /// Three threads that spin would not end. So they sleep there, which may hide that an ordering is too weak.
    pub(crate) fn start(&self, plant: Option<Plant>, (spins, threads): (bool, usize), never: Option<Place>) {
        self.plant.set(plant);
        self.never.set(never);
        IS_WATCHED.set(plant.is_some() || never.is_some() || self.noted.borrow().is_some());
        let relaxes_wait = matches!(plant, Some(Plant::Weaken(place, _)) if waits(place.file));
        self.spins.set(spins || (relaxes_wait && threads < 3));
        self.impatient.set(false);
        self.met.set(0);
        self.shared.borrow_mut().clear();
        self.restart();
    }

    /// Starts the search over, with the shared words known so far.
    pub(crate) fn restart(&self) {
        self.learned_at.set(None);
        self.executions.set(0);
        self.next.set(0);
        self.changed.borrow_mut().clear();
        self.always.borrow_mut().clear();
    }

    /// Returns whether a wait for a turn may sleep until something is stored, instead of spinning.
    ///
    /// Both come to the same while the lock's own orderings are in place, because waking a thread orders memory as they
    /// do.
    pub(crate) fn sleeps(&self) -> bool {
        !self.spins.get()
    }

    /// Begins an execution.
    pub(crate) fn execute(&self) {
        PHASE.set(Phase::Alone);
        self.executions.set(self.executions.get() + 1);
    }

    /// Has a change in the copy undone at its end.
    pub(crate) fn undo_later(&self, undo: impl FnOnce() + 'static) {
        self.undo.borrow_mut().push(Box::new(undo));
    }

    /// Returns the number of the word that is being made, and whether it is shared.
    pub(crate) fn number(&self) -> (u32, bool) {
        let number = self.next.get();
        self.next.set(number + 1);
        (number, self.shared.borrow().get(number as usize) == Some(&true))
    }

    /// Has `part`, which changed, restored before the next execution.
    pub(crate) fn restore_later(&self, part: Rc<dyn Restore>) {
        self.changed.borrow_mut().push(part);
    }

    /// Has `part` restored before each execution.
    pub(crate) fn restore_always(&self, part: Rc<dyn Restore>) {
        self.always.borrow_mut().push(part);
    }

    /// Ends the set-up.
    pub(crate) fn keep(&self) {
        self.changed.borrow_mut().drain(..).for_each(|part| part.keep());
        self.always.borrow().iter().for_each(|part| part.keep());
    }

    /// Restores what the set-up left; the model's threads start.
    pub(crate) fn together(&self) {
        self.changed.borrow_mut().drain(..).for_each(|part| part.restore());
        self.always.borrow().iter().for_each(|part| part.restore());
        PHASE.set(Phase::Together);
    }

    /// Notes that the model's threads have finished.
    pub(crate) fn finish(&self) {
        PHASE.set(Phase::Alone);
    }

    /// Notes that threads share a plain word.
    pub(crate) fn learn(&self, number: u32) {
        let (mut shared, number) = (self.shared.borrow_mut(), number as usize);
        let words = shared.len().max(number + 1);
        shared.resize(words, false);
        shared[number] = true;
        if self.learned_at.get().is_none() {
            self.learned_at.set(Some(self.executions.get()));
        }
    }

    /// Returns whether this search met a plain word that threads share.
    pub(crate) fn has_learned(&self) -> bool {
        self.learned_at.get().is_some()
    }

    /// Returns what becomes of the execution that has ended.
    ///
    /// A search that must start over first goes on for an eighth of the executions that it has made. A word that it
    /// learns meanwhile does not throw a further search away; often it learns none.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.learned_at.get() {
            None => Verdict::Counts,
            Some(at) if self.executions.get() < at + at / 8 => Verdict::Learns,
            Some(_) => Verdict::StartOver,
        }
    }

    /// Returns the number of shared words.
    pub(crate) fn words(&self) -> usize {
        self.shared.borrow().iter().filter(|&&is_shared| is_shared).count()
    }

    /// Notes a call of the threads of a model, if calls are noted.
    ///
    /// # Panics
    /// The model says that no thread makes this call.
    fn note(&self, place: &'static Location<'static>) {
        if let Some(noted) = &mut *self.noted.borrow_mut()
            && PHASE.get() == Phase::Together
        {
            noted.insert((place.file(), place.line(), place.column()));
        }
        if self.never.get().is_some_and(|never| is_at(never, place)) && !std::thread::panicking() {
            panic!("a thread came to {place}");
        }
    }

    /// Returns the ordering of an operation called at `place`.
    pub(crate) fn ordering(&self, place: &Location<'_>, ordering: Ordering) -> Ordering {
        match self.plant.get() {
            Some(Plant::Weaken(planted, weak)) if self.is_met(planted, place) => weak,
            _ => ordering,
        }
    }

    /// Returns whether a fence called at `place` takes effect.
    pub(crate) fn fences(&self, place: &'static Location<'static>) -> bool {
        self.note(place);
        !matches!(self.plant.get(), Some(Plant::Weaken(planted, _) | Plant::Skip(planted)) if self.is_met(planted, place))
    }

    /// Returns whether an addition called at `place` is a load and a store.
    pub(crate) fn tears(&self, place: &Location<'_>) -> bool {
        matches!(self.plant.get(), Some(Plant::Tear(planted)) if self.is_met(planted, place))
    }

    /// Returns whether an operation called at `place` does nothing.
    pub(crate) fn skips(&self, place: &'static Location<'static>) -> bool {
        self.note(place);
        matches!(self.plant.get(), Some(Plant::Skip(planted)) if self.is_met(planted, place))
    }

    fn is_met(&self, planted: Place, place: &Location<'_>) -> bool {
        let met = PHASE.get() == Phase::Together && is_at(planted, place);
        self.met.set(self.met.get() + u64::from(met));
        met
    }
}

/// Returns whether a call is the one at `place`.
fn is_at(place: Place, call: &Location<'_>) -> bool {
    let is_there = call.line() == place.line && [0, call.column()].contains(&place.column);
    is_there && is_in_core(call.file(), place.file)
}

/// Returns whether `path`, as the compiler names it, is this file of the core or of the runtime.
pub fn is_in_core(path: &str, file: &str) -> bool {
    let folders = ["/framewright/src/", "/framewright-rt/src/"];
    path.replace('\\', "/").strip_suffix(file).is_some_and(|path| folders.iter().any(|folder| path.ends_with(folder)))
}

/// Returns whether the waits in a file of the core sleep.
fn waits(file: &str) -> bool {
    file.rsplit('/').next().is_some_and(|name| WAITS.contains(&name))
}

//! The parts of a stage that are not words of the core: notes of the model, and memory that loom watches.
//!
//! The set-up runs once for a whole search. Every execution of the search finds both as the set-up left them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use loom::cell::UnsafeCell;

use crate::session::{self, Restore};

/// A note of the model: a cell that is not one of the core's words.
pub struct Note<T>(Rc<Kept<T>>);

struct Kept<T> {
    now: Cell<T>,
    start: Cell<T>,
}

impl<T: Copy> Restore for Kept<T> {
    fn keep(&self) {
        self.start.set(self.now.get());
    }

    fn restore(&self) {
        self.now.set(self.start.get());
    }
}

impl<T: Copy + 'static> Note<T> {
    /// Creates a note that holds `value`.
    pub fn new(value: T) -> Note<T> {
        let kept = Rc::new(Kept { now: Cell::new(value), start: Cell::new(value) });
        session::with(|session| session.restore_always(kept.clone()));
        Note(kept)
    }

    /// Returns the value.
    pub fn get(&self) -> T {
        self.0.now.get()
    }

    /// Changes the value.
    pub fn set(&self, value: T) {
        self.0.now.set(value);
    }

    /// Changes the value; returns the one before.
    pub fn replace(&self, value: T) -> T {
        self.0.now.replace(value)
    }
}

/// Memory that loom watches: two accesses of which neither is ordered before the other are a race.
///
/// A clone is the same memory.
#[derive(Clone)]
pub struct Payload(Rc<Memory>);

struct Memory(RefCell<UnsafeCell<()>>);

impl Restore for Memory {
    fn keep(&self) {}

    // Loom knows a cell for one execution.
    fn restore(&self) {
        *self.0.borrow_mut() = UnsafeCell::new(());
    }
}

/// Memory that no thread has accessed.
impl Default for Payload {
    fn default() -> Payload {
        let memory = Rc::new(Memory(RefCell::new(UnsafeCell::new(()))));
        session::with(|session| session.restore_always(memory.clone()));
        Payload(memory)
    }
}

impl Payload {
    /// Writes the memory.
    pub fn write(&self) {
        self.0.0.borrow().with_mut(|_| ());
    }

    /// Reads the memory.
    pub fn read(&self) {
        self.0.0.borrow().with(|_| ());
    }
}

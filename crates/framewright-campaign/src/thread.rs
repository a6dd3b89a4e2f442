//! A thread of the campaign: the coroutine that plays calls on one CPU, and what the engine knows of it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use corosensei::Yielder;

use crate::kind::Kind;

/// The kind of context that a thread is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Task,
    /// An interrupt of a task that does not hold interrupts off.
    Interrupt,
    /// An NMI, which nothing holds off.
    Nmi,
}

/// What a thread that does not run waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocked {
    /// Nothing: it was interrupted by the schedule.
    No,
    /// A store by another thread to the word at this address; without one it may give up.
    Store { address: usize, since: u64, may_give_up: bool },
}

/// Whether a thread's CPU is online.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    On,
    /// Another thread takes it offline.
    Going,
    Off,
}

/// What a context holds: an interrupt has a context of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) level: Level,
    pub(crate) pins: u32,
    pub(crate) irq_off: u32,
    /// Accesses of the call that is in progress, without those of interrupts.
    pub(crate) steps: u64,
    /// Accesses that the call may make.
    pub(crate) limit: u64,
    /// A fault that is to take effect at its n-th point.
    pub(crate) armed: Option<(Kind, u32)>,
}

impl Context {
    pub(crate) const IDLE: Context =
        Context { level: Level::Task, pins: 0, irq_off: 0, steps: 0, limit: u64::MAX, armed: None };
}

/// A thread.
pub(crate) struct Thread {
    /// Number of the CPU that it is on; threads may exchange theirs between calls of `pin`.
    pub(crate) cpu: Cell<u16>,
    pub(crate) context: Cell<Context>,
    pub(crate) blocked: Cell<Blocked>,
    /// Accesses of all threads after which it may go on.
    pub(crate) stopped_until: Cell<u64>,
    /// Accesses until an interrupt comes.
    pub(crate) interrupt_in: Cell<u64>,
    /// Whether that interrupt is an NMI.
    pub(crate) is_nmi_next: Cell<bool>,
    /// Interrupts in each other.
    pub(crate) depth: Cell<u32>,
    /// Whether it is in the middle of a call.
    pub(crate) inside: Cell<bool>,
    /// Times that others ran in the middle of the call.
    pub(crate) interruptions: Cell<u64>,
    pub(crate) power: Cell<Power>,
    /// Zone locks that it holds.
    pub(crate) zone_locks: Cell<u32>,
    /// Numbers of the operations that it has to carry out.
    pub(crate) queue: RefCell<VecDeque<u64>>,
    /// Under PCT: the thread with the highest number runs.
    pub(crate) priority: Cell<i64>,
    pub(crate) yielder: Cell<*const Yielder<(), ()>>,
}

impl Thread {
    pub(crate) fn new(cpu: u16) -> Thread {
        Thread {
            cpu: Cell::new(cpu),
            context: Cell::new(Context::IDLE),
            blocked: Cell::new(Blocked::No),
            stopped_until: Cell::new(0),
            interrupt_in: Cell::new(u64::MAX),
            is_nmi_next: Cell::new(false),
            depth: Cell::new(0),
            inside: Cell::new(false),
            interruptions: Cell::new(0),
            power: Cell::new(Power::On),
            zone_locks: Cell::new(0),
            queue: RefCell::default(),
            priority: Cell::new(0),
            yielder: Cell::new(std::ptr::null()),
        }
    }

    /// Returns whether it has anything to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.inside.get() || !self.queue.borrow().is_empty()
    }

    /// Returns whether it may begin a call.
    pub(crate) fn may_begin(&self) -> bool {
        !self.inside.get() && self.power.get() != Power::Going
    }

    /// Changes a part of the context.
    #[inline]
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Context) -> T) -> T {
        let mut context = self.context.get();
        let result = change(&mut context);
        self.context.set(context);
        result
    }
}

//! A device: an interrupt that does something.
//!
//! It strikes one CPU once, before any of its accesses to words while interrupts are on, or as they come on again; what it does has
//! ended before the CPU goes on. One that cannot be masked strikes while interrupts are off as well: it has no CPU to pin to. When it strikes is for loom to choose: the device is a thread that writes one word, and the CPU
//! reads it before each access, and may or may not see the write yet.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use loom::sync::atomic::{AtomicBool, Ordering};

use crate::loom_machine::{run_on, running_cpu};

/// What strikes whom.
pub struct Device<S: 'static> {
    /// The CPU that is struck.
    pub strikes: u16,
    /// The CPU that the interrupt plays: the same, or one of its own. Of one that cannot be masked, the same.
    pub plays: u16,
    /// Nothing holds it off.
    pub unmaskable: bool,
    /// What the interrupt does.
    pub handler: fn(&S),
}

// Not derived: that would ask for `S: Copy`.
impl<S> Clone for Device<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Device<S> {}

/// A device of the running execution, until it has struck.
struct Armed {
    strikes: u16,
    plays: u16,
    unmaskable: bool,
    handler: Box<dyn Fn()>,
    raised: Rc<AtomicBool>,
}

thread_local! {
    static ARMED: RefCell<Option<Armed>> = const { RefCell::new(None) };
    /// What the device's thread writes, even if nobody reads it any more: loom looks for schedules in which somebody does.
    static RAISED: RefCell<Option<Rc<AtomicBool>>> = const { RefCell::new(None) };
}

loom::thread_local! {
    /// Guards of the running CPU that hold interrupts off.
    static OFF: Cell<u32> = Cell::new(0);
    static INSIDE: Cell<bool> = Cell::new(false);
    /// Inside of one that cannot be masked.
    static NOWHERE: Cell<bool> = Cell::new(false);
}

/// A device for this execution. Its thread is to call [`raise`].
pub(crate) fn arm((strikes, plays, unmaskable): (u16, u16, bool), handler: impl Fn() + 'static) {
    let raised = Rc::new(AtomicBool::new(false));
    RAISED.with_borrow_mut(|slot| *slot = Some(raised.clone()));
    ARMED
        .with_borrow_mut(|slot| *slot = Some(Armed { strikes, plays, unmaskable, handler: Box::new(handler), raised }));
}

/// The device wants to strike.
pub(crate) fn raise() {
    if let Some(raised) = RAISED.with_borrow_mut(Option::take) {
        raised.store(true, Ordering::Relaxed);
    }
}

/// No device strikes any more.
pub(crate) fn disarm() {
    ARMED.with_borrow_mut(Option::take);
}

/// To be called where an interrupt may strike the running CPU.
pub(crate) fn may_strike() {
    if ARMED.with_borrow(Option::is_none) || std::thread::panicking() || is_inside() {
        return;
    }
    let (cpu, is_masked) = (running_cpu(), OFF.with(Cell::get) != 0);
    let may = |armed: &&Armed| armed.strikes == cpu && (armed.unmaskable || !is_masked);
    let armed =
        ARMED.with_borrow(|armed| armed.as_ref().filter(may).map(|armed| (armed.raised.clone(), armed.unmaskable)));
    let is_raised = armed.is_some_and(|(raised, unmaskable)| match unmaskable {
        // There are many accesses to strike at: when it is raised is choice enough, without when that is seen.
        true => raised.fetch_or(false, Ordering::Relaxed),
        false => raised.load(Ordering::Relaxed),
    });
    if !is_raised {
        return;
    }
    let Some(armed) = ARMED.with_borrow_mut(Option::take) else { return };
    INSIDE.with(|inside| inside.set(true));
    NOWHERE.with(|nowhere| nowhere.set(armed.unmaskable));
    run_on(armed.plays);
    (armed.handler)();
    run_on(armed.strikes);
    NOWHERE.with(|nowhere| nowhere.set(false));
    INSIDE.with(|inside| inside.set(false));
}

/// Whether the running CPU is in an interrupt that has no CPU to pin to.
pub(crate) fn is_nowhere() -> bool {
    NOWHERE.with(Cell::get)
}

/// Whether the running CPU is in an interrupt.
pub(crate) fn is_inside() -> bool {
    INSIDE.with(Cell::get)
}

/// Interrupts of the running CPU are off while this lives.
pub struct Held(());

impl Held {
    pub(crate) fn new() -> Held {
        OFF.with(|off| off.set(off.get() + 1));
        Held(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        OFF.with(|off| off.set(off.get() - 1));
        may_strike();
    }
}

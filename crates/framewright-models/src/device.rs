//! A device: an interrupt that does something.
//!
//! It strikes one CPU once, before any of its accesses to words while interrupts are on, or as they come on again; what it does has
//! ended before the CPU goes on. One that cannot be masked strikes while interrupts are off as well: it has no CPU to pin to. When it strikes is for loom to choose: the device is a thread that writes one word, and the CPU
//! reads it before each access, and may or may not see the write yet.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use loom::sync::atomic::{AtomicBool, Ordering};

use crate::running::{is_inside, is_masked, mask, run_on, running_cpu, set_inside, switching, unmask};

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
    /// Whether there is one: most models have none, and every access asks.
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
    /// What the device's thread writes, even if nobody reads it any more: loom looks for schedules in which somebody does.
    static RAISED: RefCell<Option<Rc<AtomicBool>>> = const { RefCell::new(None) };
}

/// A device for this execution. Its thread is to call [`raise`].
pub(crate) fn arm((strikes, plays, unmaskable): (u16, u16, bool), handler: impl Fn() + 'static) {
    let raised = Rc::new(AtomicBool::new(false));
    RAISED.with_borrow_mut(|slot| *slot = Some(raised.clone()));
    ARMED
        .with_borrow_mut(|slot| *slot = Some(Armed { strikes, plays, unmaskable, handler: Box::new(handler), raised }));
    IS_ARMED.set(true);
}

/// The device wants to strike.
pub(crate) fn raise() {
    if let Some(raised) = RAISED.with_borrow_mut(Option::take) {
        switching(|| raised.store(true, Ordering::Relaxed));
    }
}

/// No device strikes any more.
pub(crate) fn disarm() {
    IS_ARMED.set(false);
    ARMED.with_borrow_mut(Option::take);
}

/// To be called where an interrupt may strike the running CPU.
pub(crate) fn may_strike() {
    if IS_ARMED.get() && !std::thread::panicking() && !is_inside() {
        strike();
    }
}

fn strike() {
    let (cpu, is_masked) = (running_cpu(), is_masked());
    let may = |armed: &&Armed| armed.strikes == cpu && (armed.unmaskable || !is_masked);
    let armed =
        ARMED.with_borrow(|armed| armed.as_ref().filter(may).map(|armed| (armed.raised.clone(), armed.unmaskable)));
    let is_raised = armed.is_some_and(|(raised, unmaskable)| match unmaskable {
        // There are many accesses to strike at: when it is raised is choice enough, without when that is seen.
        true => switching(|| raised.fetch_or(false, Ordering::Relaxed)),
        false => switching(|| raised.load(Ordering::Relaxed)),
    });
    if !is_raised {
        return;
    }
    let Some(armed) = ARMED.with_borrow_mut(Option::take) else { return };
    IS_ARMED.set(false);
    set_inside(true, armed.unmaskable);
    run_on(armed.plays);
    (armed.handler)();
    run_on(armed.strikes);
    set_inside(false, false);
}

/// Interrupts of the running CPU are off while this lives.
pub struct Held(());

impl Held {
    pub(crate) fn new() -> Held {
        mask();
        Held(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        unmask();
        may_strike();
    }
}

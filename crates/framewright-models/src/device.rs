//! A device: an interrupt that runs a handler.
//!
//! The interrupt strikes one CPU once. It strikes before any access to a word while interrupts are on, or when they
//! come on again, and its handler ends before the CPU goes on. One that cannot be masked also strikes while interrupts
//! are off; it has no CPU to pin to.
//!
//! loom chooses the moment: the device is a thread that writes one word. The CPU reads the word before each access, and
//! may or may not see the write yet.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use loom::sync::atomic::{AtomicBool, Ordering};

use crate::running::{is_inside, is_masked, mask, run_on, running_cpu, set_inside, switching, unmask};

/// An interrupt, and the CPU that it strikes.
pub struct Device<S: 'static> {
    /// The CPU that is struck.
    pub strikes: u16,
    /// The CPU that the interrupt plays: the struck one, or, if it can be masked, one of its own.
    pub plays: u16,
    /// Nothing masks it.
    pub unmaskable: bool,
    /// The interrupt's handler.
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
    /// Whether there is one. Most models have none, and every access asks.
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
    /// The word that the device's thread writes. It does so even if no CPU reads it any more, because loom looks for
    /// schedules in which one does.
    static RAISED: RefCell<Option<Rc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Arms a device for this execution; its thread calls [`raise`].
pub(crate) fn arm((strikes, plays, unmaskable): (u16, u16, bool), handler: impl Fn() + 'static) {
    let raised = Rc::new(AtomicBool::new(false));
    RAISED.with_borrow_mut(|slot| *slot = Some(raised.clone()));
    ARMED
        .with_borrow_mut(|slot| *slot = Some(Armed { strikes, plays, unmaskable, handler: Box::new(handler), raised }));
    IS_ARMED.set(true);
}

/// Asks the device to strike.
pub(crate) fn raise() {
    if let Some(raised) = RAISED.with_borrow_mut(Option::take) {
        switching(|| raised.store(true, Ordering::Relaxed));
    }
}

/// Disarms the device.
pub(crate) fn disarm() {
    IS_ARMED.set(false);
    ARMED.with_borrow_mut(Option::take);
}

/// Lets an armed device strike the running CPU here.
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
        // There are many accesses to strike at. The moment of raising is choice enough, without the moment of seeing
        // it.
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

/// Guard: interrupts of the running CPU are off while it lives.
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

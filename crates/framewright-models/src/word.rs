//! Words that loom watches.
//!
//! A [`LoomWord`] is a plain cell during the set-up. If the exploration knows that threads share it (see
//! [`crate::session`]), it becomes one of loom's atomics when the model's threads start. So the set-up costs no branch
//! of the search, and none of the seven stores that loom remembers of each atomic.
//!
//! # Loads
//!
//! loom 0.7.2 skips schedules (its issues 166 and 392). It remembers only the last access to each atomic. So a thread's
//! own load hides another thread's earlier load from the store that follows, and the order "store, then the other's
//! load" is never tried. Per-CPU lists consist of exactly such words: their owner reads, changes and writes them, and
//! others read them. So each word has a *bell* for each CPU, an atomic that the CPU's loads read first. A store that
//! would not see a hidden load rings the bell of that load's CPU, by a relaxed exchange. This synchronises nothing, but
//! shows the search the two accesses.
//!
//! # Exchanges
//!
//! loom's exchanges see the newest value. C11 promises that for a successful one only. Where the model says `stale`, an
//! exchange begins with a load, and fails if that load returns another value.
//!
//! # Planted bugs and panics
//!
//! Every operation knows the place in the core that called it. So a bug can be planted at one call without a change in
//! the core.
//!
//! While a panic unwinds (loom found a fault, or a check failed), guards still store into their words. Those stores
//! stay plain, because no other thread may be scheduled from inside a panic.

use std::cell::{Cell, RefCell};
use std::panic::{Location, resume_unwind};
use std::rc::Rc;

use framewright::machine::{Busy, Ordering, Patience, Word};
use loom::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use crate::kept::Payload;
use crate::running::{running_cpu, switching};
use crate::session::{self, Phase, Restore};
use crate::{device, interrupt};

/// Number of polls of a bounded wait of the core, which polls a million times in production.
///
/// One poll would never see the other side arrive. Two explore both "it came" and "it did not".
const LOOKS: u32 = 2;
/// Number of polls above which a wait of the core only guards against damage.
///
/// Models have no damage, so such a wait is one for a turn that comes, unless the stage is impatient.
const LONG: u32 = 1 << 20;
/// Panic payload: in a copy, no other thread ends a wait for a turn.
pub(crate) struct Waits;
/// Most CPUs of a model.
pub(crate) const CPUS: usize = 3;

/// What the words need of loom's atomics.
pub trait Atomic<T: Copy>: Sized + 'static {
    /// An atomic that holds `value`.
    fn new(value: T) -> Self;
    /// Atomic load.
    fn load(&self, order: atomic::Ordering) -> T;
    /// Atomic store.
    fn store(&self, value: T, order: atomic::Ordering);
    /// Atomic exchange.
    fn swap(&self, value: T, order: atomic::Ordering) -> T;
    /// Atomic compare and exchange.
    ///
    /// # Errors
    /// The value that the atomic holds instead of `current`.
    fn cas(&self, current: T, new: T, orders: (atomic::Ordering, atomic::Ordering)) -> Result<T, T>;
    /// Atomic addition with wrap-around.
    fn add(&self, value: T, order: atomic::Ordering) -> T;
    /// Addition with wrap-around.
    fn sum(a: T, b: T) -> T;
}

macro_rules! atomics {
    ($($int:ty => $atomic:ty),+) => { $(
        impl Atomic<$int> for $atomic {
            fn new(value: $int) -> Self {
                <$atomic>::new(value)
            }

            fn load(&self, order: atomic::Ordering) -> $int {
                self.load(order)
            }

            fn store(&self, value: $int, order: atomic::Ordering) {
                self.store(value, order);
            }

            fn swap(&self, value: $int, order: atomic::Ordering) -> $int {
                self.swap(value, order)
            }

            fn cas(&self, current: $int, new: $int, orders: (atomic::Ordering, atomic::Ordering)) -> Result<$int, $int> {
                self.compare_exchange(current, new, orders.0, orders.1)
            }

            fn add(&self, value: $int, order: atomic::Ordering) -> $int {
                self.fetch_add(value, order)
            }

            fn sum(a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
        }
    )+ };
}

atomics!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64, usize => AtomicUsize);

fn load_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Release => atomic::Ordering::Relaxed,
        Ordering::Acquire | Ordering::AcqRel => atomic::Ordering::Acquire,
    }
}

fn store_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Acquire => atomic::Ordering::Relaxed,
        Ordering::Release | Ordering::AcqRel => atomic::Ordering::Release,
    }
}

fn rmw_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed => atomic::Ordering::Relaxed,
        Ordering::Acquire => atomic::Ordering::Acquire,
        Ordering::Release => atomic::Ordering::Release,
        Ordering::AcqRel => atomic::Ordering::AcqRel,
    }
}

/// The part of a shared word that loom watches.
struct Watched<A> {
    atomic: A,
    /// One for each CPU: see the module's description.
    bells: [A; CPUS],
    /// CPUs that loaded since the last store, a bit each.
    readers: Cell<u8>,
    /// The last of these.
    last: Cell<u16>,
}

impl<A> Watched<A> {
    fn of<T: Copy + Default>(value: T) -> Watched<A>
    where
        A: Atomic<T>,
    {
        let bells = std::array::from_fn(|_| A::new(T::default()));
        Watched { atomic: A::new(value), bells, readers: Cell::new(0), last: Cell::new(0) }
    }

    fn load<T: Copy>(&self, order: atomic::Ordering) -> T
    where
        A: Atomic<T>,
    {
        let cpu = running_cpu();
        if let Some(bell) = self.bells.get(usize::from(cpu)) {
            switching(|| bell.load(atomic::Ordering::Relaxed));
        }
        let value = switching(|| self.atomic.load(order));
        self.readers.set(self.readers.get() | 1 << cpu);
        self.last.set(cpu);
        value
    }

    /// Rings the bells of the loads that others of this word's accesses hide. Comes before each write.
    fn ring<T: Copy + Default>(&self)
    where
        A: Atomic<T>,
    {
        let hidden = |cpu: &u16| self.readers.get() & 1 << cpu != 0 && ![self.last.get(), running_cpu()].contains(cpu);
        while let Some(cpu) = (0..CPUS as u16).find(hidden) {
            self.readers.set(self.readers.get() & !(1 << cpu));
            if let Some(bell) = self.bells.get(usize::from(cpu)) {
                switching(|| bell.swap(T::default(), atomic::Ordering::Relaxed));
            }
        }
        self.readers.set(0);
    }
}

/// A word, its value at the start of every execution, and its accesses.
struct Inner<T, A> {
    number: u32,
    /// Threads share the word, so it is loom's while they run.
    is_shared: bool,
    /// The last value stored, whether or not the running thread can see it yet.
    value: Cell<T>,
    /// The value that the set-up left.
    start: Cell<T>,
    /// The session restores the word before the next execution.
    is_changed: Cell<bool>,
    /// Threads that touched the word while it was plain, a bit each, and [`WRITTEN`].
    touched: Cell<u8>,
    /// None before the threads of the first execution start, and in a plain word.
    watched: RefCell<Option<Rc<Watched<A>>>>,
    /// Memory that every access to the shared word reads first.
    guard: RefCell<Option<Payload>>,
    /// CPUs whose threads sleep until something is stored.
    sleepers: RefCell<Vec<u16>>,
}

const WRITTEN: u8 = 0x80;

impl<T: Copy + Default, A: Atomic<T>> Restore for Inner<T, A> {
    fn keep(&self) {
        self.start.set(self.value.get());
        self.is_changed.set(false);
    }

    fn restore(&self) {
        self.value.set(self.start.get());
        self.is_changed.set(false);
        self.touched.set(0);
        if self.is_shared {
            self.sleepers.borrow_mut().clear();
            *self.watched.borrow_mut() = Some(Rc::new(Watched::of(self.value.get())));
        }
    }
}

impl<T: Copy, A: Atomic<T>> Inner<T, A> {
    /// Notes a stored value, and wakes the threads that wait for it.
    ///
    /// Waking orders memory as a release store does. So only a release store may wake, or a store right after a fence.
    /// `written` is the ordering in the source: a planted one would leave the sleepers asleep for ever.
    fn stored(&self, value: T, written: Ordering) {
        self.value.set(value);
        let is_fenced = interrupt::take_fenced();
        if is_fenced || matches!(written, Ordering::Release | Ordering::AcqRel) {
            self.sleepers.borrow_mut().drain(..).for_each(interrupt::wake);
        }
    }
}

/// A word of a model: an integer while one thread uses it, otherwise one of loom's atomics.
pub struct LoomWord<T, A>(Rc<Inner<T, A>>);

impl<T: Copy + PartialEq + Default + 'static, A: Atomic<T>> LoomWord<T, A> {
    /// Runs the form of an operation for a plain word or the one for a shared word.
    fn access<R>(
        &self,
        writes: bool,
        plain: impl FnOnce(&Cell<T>) -> R,
        shared: impl FnOnce(&Watched<A>, &Inner<T, A>) -> R,
    ) -> R {
        let inner = &*self.0;
        if session::phase() == Phase::Copied {
            if writes {
                let (inner, value) = (self.0.clone(), inner.value.get());
                session::with(|session| session.undo_later(move || inner.value.set(value)));
            }
            return plain(&inner.value);
        }
        device::may_strike();
        if inner.is_shared && !std::thread::panicking() {
            let watched = inner.watched.borrow().clone();
            if let Some(watched) = watched {
                interrupt::may_strike();
                self.0.guard.borrow().iter().for_each(Payload::read);
                return shared(&watched, inner);
            }
        }
        if writes {
            self.change();
        }
        if session::phase() == Phase::Together && !inner.is_shared {
            self.touch(writes);
        }
        plain(&inner.value)
    }

    /// Makes every access of the model's threads read `memory` too.
    pub fn guard(&self, memory: &Payload) {
        *self.0.guard.borrow_mut() = Some(memory.clone());
    }

    /// Has the session restore the word before the next execution.
    fn change(&self) {
        if !self.0.is_changed.replace(true) {
            session::with(|session| session.restore_later(self.0.clone()));
        }
    }

    /// Lets other threads run until the word may have changed.
    ///
    /// Sleeps until something is stored if `waiting` is set and the word is shared; otherwise yields once.
    fn pause(&self, waiting: bool) {
        if self.0.is_shared && waiting {
            self.0.sleepers.borrow_mut().push(running_cpu());
            interrupt::sleep();
        } else {
            switching(loom::thread::yield_now);
        }
    }

    /// Notes which thread touches a plain word.
    fn touch(&self, writes: bool) {
        if std::thread::panicking() {
            return;
        }
        let before = self.0.touched.get();
        let touched = before | 1 << running_cpu() | if writes { WRITTEN } else { 0 };
        if touched != before {
            self.change();
            self.0.touched.set(touched);
            if touched & WRITTEN != 0 && (touched & !WRITTEN).count_ones() > 1 {
                session::with(|session| session.learn(self.0.number));
            }
        }
    }
}

/// Returns the ordering of a call at `place`; none if the call does nothing.
fn at(place: &'static Location<'static>, order: Ordering) -> Option<Ordering> {
    if !session::is_watched() {
        return Some(order);
    }
    session::with(|session| (!session.skips(place)).then(|| session.ordering(place, order)))
}

impl<T: Copy + PartialEq + Default + 'static, A: Atomic<T>> Word<T> for LoomWord<T, A> {
    fn new(value: T) -> Self {
        let (number, is_shared) = session::with(|session| session.number());
        let inner = Rc::new(Inner {
            number,
            is_shared,
            value: Cell::new(value),
            start: Cell::new(value),
            is_changed: Cell::new(true),
            touched: Cell::new(0),
            watched: RefCell::default(),
            guard: RefCell::default(),
            sleepers: RefCell::default(),
        });
        session::with(|session| match is_shared {
            true => session.restore_always(inner.clone()),
            false => session.restore_later(inner.clone()),
        });
        LoomWord(inner)
    }

    #[track_caller]
    fn load(&self, order: Ordering) -> T {
        // Checks load every word of the allocator. No interrupt strikes then, and no bug is planted.
        if !self.0.is_shared && session::phase() == Phase::Alone {
            return self.0.value.get();
        }
        let Some(order) = at(Location::caller(), order) else { return T::default() };
        self.access(false, Cell::get, |watched, _| watched.load(load_order(order)))
    }

    #[track_caller]
    fn store(&self, value: T, written: Ordering) {
        let Some(order) = at(Location::caller(), written) else { return };
        self.access(
            true,
            |cell| cell.set(value),
            |watched, inner| {
                watched.ring();
                switching(|| watched.atomic.store(value, store_order(order)));
                inner.stored(value, written);
            },
        );
    }

    #[track_caller]
    fn swap(&self, value: T, written: Ordering) -> T {
        let Some(order) = at(Location::caller(), written) else { return T::default() };
        self.access(
            true,
            |cell| cell.replace(value),
            |watched, inner| {
                watched.ring();
                let before = switching(|| watched.atomic.swap(value, rmw_order(order)));
                inner.stored(value, written);
                before
            },
        )
    }

    #[track_caller]
    fn cas(&self, current: T, new: T, written: Ordering) -> Result<T, T> {
        let Some(order) = at(Location::caller(), written) else { return Ok(current) };
        let plain = |cell: &Cell<T>| {
            let now = cell.get();
            if now == current {
                cell.set(new);
                Ok(now)
            } else {
                Err(now)
            }
        };
        self.access(true, plain, |watched, inner| {
            if session::with(|session| session.stale.get()) {
                let seen = watched.load(load_order(order));
                if seen != current {
                    return Err(seen);
                }
            }
            watched.ring();
            let result = switching(|| watched.atomic.cas(current, new, (rmw_order(order), load_order(order))));
            if result.is_ok() {
                inner.stored(new, written);
            }
            result
        })
    }

    #[track_caller]
    fn add(&self, value: T, written: Ordering) -> T {
        let place = Location::caller();
        let Some(order) = at(place, written) else { return T::default() };
        if session::is_watched() && session::with(|session| session.tears(place)) {
            let before = self.load(order);
            self.store(A::sum(before, value), order);
            return before;
        }
        self.access(
            true,
            |cell| cell.replace(A::sum(cell.get(), value)),
            |watched, inner| {
                watched.ring();
                let before = switching(|| watched.atomic.add(value, rmw_order(order)));
                inner.stored(A::sum(before, value), written);
                before
            },
        )
    }

    /// Waits like the seam's word. A wait for a turn sleeps until something is stored, if the session says so.
    ///
    /// Other waits poll, and let other threads run in between. loom never shows a thread that yielded a store that it
    /// has already seen.
    #[track_caller]
    fn wait_while(&self, patience: Patience, mut waiting: impl FnMut(T) -> bool) -> Result<T, Busy> {
        let place = Location::caller();
        let is_certain = match patience {
            Patience::Turn => true,
            Patience::Tries(tries) => tries > LONG && !session::with(|session| session.impatient.get()),
        };
        let sleeps = is_certain && session::with(|session| session.sleeps());
        let mut looks = 0;
        loop {
            let order = at(place, Ordering::Acquire);
            let load = order.map_or(atomic::Ordering::Relaxed, load_order);
            let value = self.access(false, Cell::get, |watched, _| watched.load(load));
            if !waiting(value) || order.is_none() || std::thread::panicking() {
                return Ok(value);
            }
            if session::phase() == Phase::Copied {
                return if patience == Patience::Turn { resume_unwind(Box::new(Waits)) } else { Err(Busy) };
            }
            looks += 1;
            if !is_certain && looks >= LOOKS {
                return Err(Busy);
            }
            self.pause(sleeps && waiting(self.0.value.get()));
        }
    }
}

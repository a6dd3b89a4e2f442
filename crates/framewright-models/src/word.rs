//! Words that loom watches.
//!
//! A [`LoomWord`] starts as a plain cell. If the exploration knows that threads share it (see [`crate::session`]), it turns into one of
//! loom's atomics at the moment the model's threads start, holding what it held; so setting up costs no branch of the search
//! and none of the seven stores that loom remembers of each atomic.
//!
//! # Loads
//!
//! loom 0.7.2 skips schedules (its issues 166 and 392): of each atomic it remembers the last access alone, so that a thread's own
//! load hides another thread's earlier load from the store that follows, and the order "store, then the other's load" is
//! never tried. Words that their owner reads, changes and writes back, and that others look at, are just what per-CPU lists are
//! made of. So each word has a *bell* for each thread, an atomic that the thread's loads read first, and a store that would
//! not see a hidden load rings that thread's bell: a relaxed exchange that synchronises nothing, but shows the search the
//! two accesses. That nothing is missed any more is tested against all interleavings of small programs.
//!
//! Every operation knows where in the core it was called from, which is how a bug is planted at one call without a
//! change in the core.
//!
//! While a panic unwinds (loom found something, or a check failed), guards still store into their words; those stores go
//! nowhere, because another thread must not be scheduled from inside of a panic.

use std::cell::{Cell, OnceCell, RefCell};
use std::panic::Location;
use std::rc::Rc;

use framewright::machine::{Busy, Ordering, Patience, Word};
use loom::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use crate::running::{running_cpu, switching};
use crate::session::{self, Phase, Share};
use crate::{device, interrupt};

/// How often a bounded wait of the core looks, instead of a million times. One look would never see the other side arrive;
/// two explore both "it came" and "it did not".
const LOOKS: u32 = 2;
/// Waits of the core with a higher bound than this guard against damage, which models do not have: they wait for a turn that
/// comes, unless the stage is impatient.
const LONG: u32 = 1 << 20;
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
    /// What it holds instead of `current`.
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

/// A shared word.
struct Inner<T, A> {
    /// What it was set up with, later what was stored last.
    value: Cell<T>,
    atomic: OnceCell<A>,
    /// For loom's search: see the module's description.
    bells: OnceCell<[A; CPUS]>,
    /// Threads that loaded since the last store, a bit each, and the last of them.
    readers: Cell<u8>,
    last: Cell<u16>,
    /// CPUs whose threads sleep until something is stored.
    sleepers: RefCell<Vec<u16>>,
}

impl<T: Copy + Default, A: Atomic<T>> Share for Inner<T, A> {
    fn share(&self) {
        let _ = self.atomic.set(A::new(self.value.get()));
        let _ = self.bells.set(std::array::from_fn(|_| A::new(T::default())));
    }
}

impl<T: Copy + Default, A: Atomic<T>> Inner<T, A> {
    fn load(&self, atomic: &A, order: atomic::Ordering) -> T {
        let cpu = running_cpu();
        if let Some(bell) = self.bell(cpu) {
            switching(|| bell.load(atomic::Ordering::Relaxed));
        }
        let value = switching(|| atomic.load(order));
        self.readers.set(self.readers.get() | 1 << cpu);
        self.last.set(cpu);
        value
    }

    fn bell(&self, cpu: u16) -> Option<&A> {
        self.bells.get()?.get(usize::from(cpu))
    }

    /// To be called before the running thread writes: rings for the loads that others of this word's accesses hide.
    fn ring(&self) {
        let hidden = |cpu: &u16| self.readers.get() & 1 << cpu != 0 && ![self.last.get(), running_cpu()].contains(cpu);
        while let Some(cpu) = (0..CPUS as u16).find(hidden) {
            self.readers.set(self.readers.get() & !(1 << cpu));
            if let Some(bell) = self.bell(cpu) {
                switching(|| bell.swap(T::default(), atomic::Ordering::Relaxed));
            }
        }
        self.readers.set(0);
    }

    /// Notes what was stored, and wakes who waits for that. Waking orders memory as a release store does, so only a
    /// release store may wake.
    fn stored(&self, value: T, order: Ordering) {
        self.value.set(value);
        if matches!(order, Ordering::Release | Ordering::AcqRel) {
            self.sleepers.borrow_mut().drain(..).for_each(interrupt::wake);
        }
    }
}

/// Where a word's value is.
enum Body<T, A> {
    Plain(Cell<T>),
    Shared(Rc<Inner<T, A>>),
}

/// A word of a model: see the module's description.
pub struct LoomWord<T, A> {
    body: Body<T, A>,
    number: u32,
    /// Which threads touched it while it was plain, a bit each, and [`WRITTEN`].
    touched: Cell<u8>,
}

const WRITTEN: u8 = 0x80;

impl<T: Copy + PartialEq + Default + 'static, A: Atomic<T>> LoomWord<T, A> {
    /// Runs one of two forms of an operation, whichever the word is at the moment. The shared form is given the atomic
    /// and what to do once something was stored.
    fn access<R>(
        &self,
        writes: bool,
        plain: impl FnOnce(&Cell<T>) -> R,
        shared: impl FnOnce(&A, &Inner<T, A>) -> R,
    ) -> R {
        device::may_strike();
        let value = match &self.body {
            Body::Plain(value) => value,
            Body::Shared(inner) => match inner.atomic.get() {
                Some(atomic) if !std::thread::panicking() => {
                    interrupt::may_strike();
                    return shared(atomic, inner);
                }
                _ => return plain(&inner.value),
            },
        };
        self.touch(writes);
        plain(value)
    }

    /// Lets other threads run until the word may have changed: for ever if `waiting` holds of what was stored last and the
    /// session says that waits sleep, otherwise for a moment.
    fn pause(&self, waiting: bool) {
        if let Body::Shared(inner) = &self.body
            && waiting
        {
            inner.sleepers.borrow_mut().push(running_cpu());
            interrupt::sleep();
        } else {
            switching(loom::thread::yield_now);
        }
    }

    /// What was stored last, whether or not the running thread can see it yet.
    fn latest(&self) -> T {
        match &self.body {
            Body::Plain(value) => value.get(),
            Body::Shared(inner) => inner.value.get(),
        }
    }

    /// Notes who touches a plain word.
    fn touch(&self, writes: bool) {
        if std::thread::panicking() || session::phase() == Phase::Alone {
            return;
        }
        let touched = self.touched.get() | 1 << running_cpu() | if writes { WRITTEN } else { 0 };
        if touched != self.touched.get() {
            self.touched.set(touched);
            if touched & WRITTEN != 0 && (touched & !WRITTEN).count_ones() > 1 {
                session::with(|session| session.learn(self.number));
            }
        }
    }
}

/// The ordering of a call at `place`; none if the call does nothing.
fn at(place: &Location<'_>, order: Ordering) -> Option<Ordering> {
    if !session::is_planted() {
        return Some(order);
    }
    session::with(|session| (!session.skips(place)).then(|| session.ordering(place, order)))
}

impl<T: Copy + PartialEq + Default + 'static, A: Atomic<T>> Word<T> for LoomWord<T, A> {
    fn new(value: T) -> Self {
        let (number, is_shared) = session::with(|session| session.number());
        let body = if is_shared {
            let inner = Rc::new(Inner {
                value: Cell::new(value),
                atomic: OnceCell::<A>::new(),
                bells: OnceCell::new(),
                readers: Cell::new(0),
                last: Cell::new(0),
                sleepers: RefCell::default(),
            });
            session::with(|session| session.share_later(inner.clone()));
            Body::Shared(inner)
        } else {
            Body::Plain(Cell::new(value))
        };
        LoomWord { body, number, touched: Cell::new(0) }
    }

    #[track_caller]
    fn load(&self, order: Ordering) -> T {
        let Some(order) = at(Location::caller(), order) else { return T::default() };
        self.access(false, Cell::get, |atomic, inner| inner.load(atomic, load_order(order)))
    }

    #[track_caller]
    fn store(&self, value: T, order: Ordering) {
        let Some(order) = at(Location::caller(), order) else { return };
        self.access(
            true,
            |cell| cell.set(value),
            |atomic, inner| {
                inner.ring();
                switching(|| atomic.store(value, store_order(order)));
                inner.stored(value, order);
            },
        );
    }

    #[track_caller]
    fn swap(&self, value: T, order: Ordering) -> T {
        let Some(order) = at(Location::caller(), order) else { return T::default() };
        self.access(
            true,
            |cell| cell.replace(value),
            |atomic, inner| {
                inner.ring();
                let before = switching(|| atomic.swap(value, rmw_order(order)));
                inner.stored(value, order);
                before
            },
        )
    }

    #[track_caller]
    fn cas(&self, current: T, new: T, order: Ordering) -> Result<T, T> {
        let Some(order) = at(Location::caller(), order) else { return Ok(current) };
        let plain = |cell: &Cell<T>| {
            let now = cell.get();
            if now == current {
                cell.set(new);
                Ok(now)
            } else {
                Err(now)
            }
        };
        self.access(true, plain, |atomic, inner| {
            inner.ring();
            let result = switching(|| atomic.cas(current, new, (rmw_order(order), load_order(order))));
            if result.is_ok() {
                inner.stored(new, order);
            }
            result
        })
    }

    #[track_caller]
    fn add(&self, value: T, order: Ordering) -> T {
        let place = Location::caller();
        let Some(order) = at(place, order) else { return T::default() };
        if session::is_planted() && session::with(|session| session.tears(place)) {
            let before = self.load(order);
            self.store(A::sum(before, value), order);
            return before;
        }
        self.access(
            true,
            |cell| cell.replace(A::sum(cell.get(), value)),
            |atomic, inner| {
                inner.ring();
                let before = switching(|| atomic.add(value, rmw_order(order)));
                inner.stored(A::sum(before, value), order);
                before
            },
        )
    }

    /// A wait for a turn sleeps until something is stored, where the session says so; other waits look, and let other
    /// threads run in between. loom shows a thread that yielded no store again that it has seen before.
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
            let value = self.access(false, Cell::get, |atomic, inner| inner.load(atomic, load));
            if !waiting(value) || order.is_none() || std::thread::panicking() {
                return Ok(value);
            }
            looks += 1;
            if !is_certain && looks >= LOOKS {
                return Err(Busy);
            }
            self.pause(sleeps && waiting(self.latest()));
        }
    }
}

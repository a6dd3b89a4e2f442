//! Words of the simulated machine.
//!
//! A word is a plain cell of one host thread. Before an access happens, `running.rs` decides what it costs and which
//! CPU runs next. Then it happens at once, unless the schedule delays stores (`store_buffer.rs`). An ordering says only
//! when a store may be seen: a release waits for the stores before it.

use std::cell::Cell;
use std::ptr::from_ref;

use framewright::machine::{Busy, Ordering, Patience, Word};

use crate::engine::chances::{Target, Way};
use crate::engine::running::{self, park, touch};
use crate::engine::world::with;
use crate::memory::directory::Access;

/// A word that several CPUs may use.
#[repr(transparent)]
pub struct SimWord<T>(Cell<T>);

impl<T> SimWord<T> {
    #[inline(always)]
    fn address(&self) -> usize {
        from_ref(self).addr()
    }
}

fn of_store(order: Ordering) -> Access {
    match order {
        Ordering::Relaxed | Ordering::Acquire => Access::Store,
        Ordering::Release | Ordering::AcqRel => Access::Release,
    }
}

macro_rules! words {
    ($($int:ty => $target:ident),+) => { $(
        impl SimWord<$int> {
            #[cold]
            fn load_kept(&self) -> $int {
                let kept = with(|world| world.newest_kept(self.address())).flatten();
                kept.map_or(self.0.get(), |value| value as $int)
            }

            #[cold]
            fn store_another_way(&self, way: Way, value: $int) {
                if way == Way::Buffer {
                    with(|world| world.keep_store(Target::$target(&self.0), value as u64));
                }
            }

            /// A read-modify-write in two steps, between which other CPUs may run.
            #[cold]
            fn change_torn(&self, change: impl FnOnce($int) -> Option<$int>) -> $int {
                let before = self.load(Ordering::Acquire);
                if let Some(after) = change(before) {
                    self.store(after, Ordering::Release);
                }
                before
            }

            /// Does a read-modify-write the given way; returns the old value.
            fn change(&self, way: Way, change: impl FnOnce($int) -> Option<$int>) -> $int {
                if way == Way::Torn {
                    return self.change_torn(change);
                }
                let before = self.0.get();
                if let Some(after) = change(before) {
                    self.0.set(after);
                }
                before
            }
        }

        impl Word<$int> for SimWord<$int> {
            fn new(value: $int) -> Self {
                SimWord(Cell::new(value))
            }

            #[inline]
            fn load(&self, _: Ordering) -> $int {
                match touch(self.address(), Access::Load) {
                    Way::Plain => self.0.get(),
                    _ => self.load_kept(),
                }
            }

            #[inline]
            fn store(&self, value: $int, order: Ordering) {
                match touch(self.address(), of_store(order)) {
                    Way::Plain => self.0.set(value),
                    way => self.store_another_way(way, value),
                }
            }

            fn swap(&self, value: $int, _: Ordering) -> $int {
                self.change(touch(self.address(), Access::Rmw), |_| Some(value))
            }

            fn cas(&self, current: $int, new: $int, _: Ordering) -> Result<$int, $int> {
                let way = touch(self.address(), Access::Rmw);
                let is_blind = way == Way::Blind;
                let before = self.change(way, |now| (now == current || is_blind).then_some(new));
                if before == current || is_blind { Ok(current) } else { Err(before) }
            }

            fn add(&self, value: $int, _: Ordering) -> $int {
                self.change(touch(self.address(), Access::Rmw), |now| Some(now.wrapping_add(value)))
            }

            fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
                let mut left = match patience {
                    Patience::Turn => None,
                    Patience::Tries(tries) => Some(running::pauses(tries)),
                };
                loop {
                    let value = self.load(Ordering::Acquire);
                    if !waiting(value) {
                        return Ok(value);
                    }
                    let began = running::clock();
                    if left == Some(0) || !park(self.address(), left) {
                        return Err(Busy);
                    }
                    left = left.map(|left| left.saturating_sub(running::clock() - began));
                }
            }
        }
    )+ };
}

words!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, usize => Usize);

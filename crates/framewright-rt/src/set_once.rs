//! A table whose entries are set once, by any thread and in signal handlers, and then read by all.
//!
//! An entry is a pointer to a value that lives for ever, or null. It is set by an exchange of null, so of several
//! threads one sets it; the others see its value and compare.
//!
//! The table is generic over the word that holds a pointer, so that the models of `framewright-models` run this code on
//! loom's words.
//!
//! # Why the unsafe code is right
//!
//! A pointer is null, or was made of a reference that is valid for ever: [`OnceTable::number_of`] is the only function
//! that sets one.

use framewright::machine::Ordering;

use crate::pointer::Pointer;

/// Entries that are looked at for one value.
const LOOKS: usize = 64;
/// Spreads hashes: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Entries that are set once: `N` pointers to values.
pub(crate) struct OnceTable<P, const N: usize>(pub(crate) [P; N]);

impl<P, const N: usize> OnceTable<P, N> {
    /// The value with a number; `None` if no value has it.
    pub(crate) fn get<T: Sync + 'static>(&self, number: usize) -> Option<&'static T>
    where
        P: Pointer<T>,
    {
        // ORDER: Acquire. Sees the value that was written before the entry was set; partner: the Release below.
        let entry = self.0.get(number)?.load(Ordering::Acquire);
        // SAFETY: null, or set below from a reference that is valid for ever.
        unsafe { entry.as_ref() }
    }

    /// Returns the number of a value, which becomes an entry if it is none yet; `None` if there is no room.
    ///
    /// `is` recognises it, and `make` makes it for good.
    pub(crate) fn number_of<T: Sync + 'static>(
        &self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> &'static T,
    ) -> Option<usize>
    where
        P: Pointer<T>,
    {
        let start = (hash.wrapping_mul(SPREAD) >> 32) as usize;
        let numbers = || (0..LOOKS).map(|look| start.wrapping_add(look) % N);
        let mut empty = numbers().filter(|&number| self.get(number).is_none_or(&is));
        let first = empty.next()?;
        if self.get(first).is_some() {
            return Some(first);
        }
        let made = std::ptr::from_ref(make()).cast_mut();
        // Another thread may set an entry meanwhile, to this value or to another one.
        numbers().find(|&number| {
            // ORDER: Release. Publishes the value; partner: the Acquire in `get`.
            let set = self.0.get(number).is_some_and(|entry| entry.set(made, Ordering::Release));
            set || self.get(number).is_some_and(&is)
        })
    }
}

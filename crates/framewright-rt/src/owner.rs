//! Owners of blocks: places in the source and names, each as a number that a word has room for.
//!
//! The table of an arena's blocks (`framewright::tags`) has 32 bits for an owner. A place is the `Location` of a
//! caller, which lives for ever, so a table of pointers gives it a number. Names are copied, and are never freed. Both
//! tables belong to the process, because places do.
//!
//! | number | owner |
//! |---|---|
//! | 0 | a place that found no room |
//! | 1 to 4,096 | a place |
//! | from 4,097 on, 1,024 | a name |
//!
//! An allocation in a signal handler records its place as well, so there is no lock: an entry is set once, by a
//! compare-and-swap, and is then read. The compiler may give one place several addresses. So places are compared by
//! file, line and column.
//!
//! Cost: a hash of line and column, and a comparison of file names, for each allocation. 40 KiB, of which used pages
//! alone take memory.
//!
//! Rejected: a mutex around a hash map, which a handler would wait for. The distance of the place's address from a
//! fixed one, which needs no table: a program of several libraries does not fit into 32 bits.

use std::fmt;
use std::panic::Location;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;

use framewright::tags::Tag;

use crate::set_once::OnceTable;

/// Places and names that a process can have, powers of two.
const PLACES: usize = 4096;
const NAMES: usize = 1024;
/// Number of the first name.
const FIRST_NAME: u32 = PLACES as u32 + 1;
/// Spreads the bytes of names: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

static PLACE_TABLE: OnceTable<AtomicPtr<Location<'static>>, PLACES> = OnceTable::new();
static NAME_TABLE: OnceTable<AtomicPtr<String>, NAMES> = OnceTable::new();

impl<T, const N: usize> OnceTable<AtomicPtr<T>, N> {
    const fn new() -> Self {
        OnceTable([const { AtomicPtr::new(null_mut()) }; N])
    }
}

/// Owner of blocks: a place in the source, or a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner(Tag);

impl Owner {
    const UNKNOWN: Owner = Owner(Tag(0));

    /// The caller's place in the source.
    ///
    /// A function with `#[track_caller]` passes its own caller's place on. After 4,096 places, others may be
    /// `an unknown place`.
    #[track_caller]
    pub fn here() -> Owner {
        let place = Location::caller();
        let hash = u64::from(place.line()) << 32 | u64::from(place.column());
        let number = PLACE_TABLE.number_of(hash, |entry| entry == place, || place);
        number.map_or(Owner::UNKNOWN, |number| Owner(Tag(number as u32 + 1)))
    }

    /// The owner of this name.
    ///
    /// The first call for a name copies it, for good. After 1,024 names, others may be `an unknown place`.
    ///
    /// Context: not in a signal handler, unless the name is known already.
    pub fn named(name: &str) -> Owner {
        let hash = name.bytes().fold(0_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(SPREAD));
        let make = || &*Box::leak(Box::new(name.to_owned()));
        let number = NAME_TABLE.number_of(hash, |entry| entry == name, make);
        number.map_or(Owner::UNKNOWN, |number| Owner(Tag(FIRST_NAME + number as u32)))
    }

    pub(crate) const fn of(tag: Tag) -> Owner {
        Owner(tag)
    }

    pub(crate) const fn tag(self) -> Tag {
        self.0
    }
}

/// A place as `file:line:column`, and a name as it is.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |first: u32| self.0.0.checked_sub(first).map(|number| number as usize);
        match (entry(1).and_then(|at| PLACE_TABLE.get(at)), entry(FIRST_NAME).and_then(|at| NAME_TABLE.get(at))) {
            (Some(place), _) => place.fmt(f),
            (None, Some(name)) => f.write_str(name),
            (None, None) => f.write_str("an unknown place"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_places_and_names() {
        let [first, second] = [0, 1].map(|_| Owner::here());
        let other = Owner::here();
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert!(other.to_string().starts_with(&format!("{}:{}:", file!(), line!() - 3)), "{other}");
        let ring = Owner::named("rx ring");
        assert_eq!((ring, ring.to_string().as_str()), (Owner::named("rx ring"), "rx ring"));
        assert_ne!(ring, Owner::named("tx ring"));
        assert_eq!(Owner::UNKNOWN.to_string(), "an unknown place");
    }

    /// Names of several threads at once, and more of them than there is room for.
    #[test]
    fn a_full_table_has_unknown_owners_and_loses_none() {
        static TABLE: OnceTable<AtomicPtr<String>, 256> = OnceTable::new();
        let number = |name: usize| {
            TABLE.number_of(name as u64, |entry| *entry == name.to_string(), || Box::leak(Box::new(name.to_string())))
        };
        let all = std::thread::scope(|scope| {
            let threads = [0, 1].map(|_| scope.spawn(|| (0..400).map(number).collect::<Vec<_>>()));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(all[0].iter().flatten().count(), 256);
        for (name, numbers) in all[0].iter().zip(&all[1]).enumerate() {
            if let (Some(one), Some(two)) = numbers {
                assert_eq!((one, TABLE.get(*one).unwrap()), (two, &name.to_string()));
            }
        }
    }
}

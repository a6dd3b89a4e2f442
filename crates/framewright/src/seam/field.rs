//! Records of the allocator's data, and the names of their words: for an address, the record and word that lie there.
//!
//! A tool that observes accesses, such as a simulator, needs a name for every word, and a saved state needs every
//! value. A record is therefore declared by [`record!`], once: the struct, its initial value, and its words with their
//! names follow from one list of fields.
//!
//! | field | meaning | initial value | name of its words |
//! |---|---|---|---|
//! | `word next: M::U32` | a word of the machine | 0 | `next` |
//! | `record lock: TicketLock<M>` | another record | the other's | `lock.next`, `lock.serving` |
//! | `fixed room: u32` | a value that is set at boot | its `Default` | none |
//!
//! A value after `=` replaces the initial value. Parentheses after the kind hold the name, where it differs from the
//! field's: a format string, in which `{}` stands for the name of a word of the nested record. A variable that runs
//! through keys makes the field an array. An example:
//!
//! ```text
//! record! {
//!     /// Lists of one CPU.
//!     #[repr(align(128))]
//!     pub(crate) struct Lists<M: Machine> {
//!         word count: M::U32,                                          // count
//!         word floor: M::U32 = u32::MAX,                               // floor; begins as u32::MAX
//!         word("marks.{mark:?}"; mark in Mark::ALL) marks: [M::U64; 3],  // marks.Min, marks.Low, marks.High
//!         record("tuning.{}") autotune: Autotune<M>,                   // tuning.high, tuning.freed
//!         record("ring.{} order {order}"; order in 0..) rings: [Ring<M>; 4],  // ring.top order 0 and so on
//!         word("") lone: M::U32,                                       // the name is that of the record alone
//!         word(by Self::name_others) others: [M::U64; 8],              // the method names the words
//!         fixed depot: bool,
//!     }
//! }
//! ```
//!
//! Several keys, separated by `;`, name nested arrays from the outside to the inside. The words are reported in the
//! order of declaration. Attributes and documentation go to the struct unchanged, so its layout is what they say.
//!
//! Rejected: a derive macro, because the core uses no other crate.

use core::fmt;
use core::marker::PhantomData;

use crate::seam::machine::{Ordering, Word};
use crate::types::units::NodeId;

/// A word of a record, or a stretch of an array of words.
#[derive(Clone, Copy, Debug)]
pub struct Field<'n> {
    /// Kind of record or array.
    pub part: &'static str,
    /// Number of the record among those of its kind, or number of the stretch.
    pub index: usize,
    /// Use of the record or stretch, for example `zone Normal of node 0`.
    pub record: fmt::Arguments<'n>,
    /// Name of the word in its record, for example `lock.next`.
    ///
    /// For an array, the meaning of an element.
    pub name: fmt::Arguments<'n>,
    /// Address of the word, or of the first element.
    pub address: usize,
    /// Bytes of the word, or of an element.
    pub size: usize,
    /// Number of elements; 1 for a word.
    pub count: usize,
    /// Node that uses the word most; `None` where no single node does.
    ///
    /// For a CPU's data it is the CPU's node, for a frame's data the frame's node.
    pub node: Option<NodeId>,
}

/// A word, whatever its width.
pub(crate) trait AnyWord {
    /// Returns its address, and the number of its bytes.
    fn place(&self) -> (usize, usize);
    /// Returns its value.
    fn get(&self) -> u64;
    /// Returns whether it can hold a value.
    fn fits(&self, value: u64) -> bool;
    /// Writes a value, as far as it fits.
    fn set(&self, value: u64);
}

/// A word of values of type `T`.
pub(crate) struct Typed<'w, T, W>(&'w W, PhantomData<T>);

impl<'w, T: Copy, W: Word<T>> Typed<'w, T, W> {
    pub(crate) fn new(word: &'w W) -> Self {
        Typed(word, PhantomData)
    }
}

impl<T: Copy + Into<u64> + TryFrom<u64>, W: Word<T>> AnyWord for Typed<'_, T, W> {
    fn place(&self) -> (usize, usize) {
        (core::ptr::from_ref(self.0).addr(), size_of::<W>())
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).into()
    }

    fn fits(&self, value: u64) -> bool {
        T::try_from(value).is_ok()
    }

    fn set(&self, value: u64) {
        if let Ok(value) = T::try_from(value) {
            self.0.store(value, Ordering::Relaxed);
        }
    }
}

/// Visitor of a record's words; receives each with its name.
pub(crate) type Words<'v> = dyn FnMut(fmt::Arguments<'_>, &dyn AnyWord) + 'v;

/// Record of the allocator's data; [`record!`] declares one.
pub(crate) trait Record: Default {
    /// Passes each word with its name to `visit`, in the order of declaration.
    fn words(&self, visit: &mut Words<'_>);
}

/// Declares a record; the description of this module explains it.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident<$m:ident: Machine $(, const $n:ident: usize)?> {
            $(
                $(#[$field_meta:meta])*
                $field_vis:vis $kind:ident $(($($naming:tt)*))? $field:ident: $ty:ty $(= $value:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name<$m: Machine $(, const $n: usize)?> {
            $($(#[$field_meta])* $field_vis $field: $ty,)*
        }

        impl<$m: Machine $(, const $n: usize)?> Default for $name<$m $(, $n)?> {
            fn default() -> Self {
                $name { $($field: $crate::seam::field::record!(@initial $kind ($($($naming)*)?) $($value)?),)* }
            }
        }

        impl<$m: Machine $(, const $n: usize)?> $crate::seam::field::Record for $name<$m $(, $n)?> {
            fn words(&self, visit: &mut $crate::seam::field::Words<'_>) {
                $($crate::seam::field::record!(@name $kind $field ($($($naming)*)?) self, visit);)*
            }
        }
    };

    // The initial value of a field.
    (@initial word ($($name:literal)?)) => { $crate::seam::machine::Word::new(0) };
    (@initial word ($($name:literal)?) $value:expr) => { $crate::seam::machine::Word::new($value) };
    (@initial word ($($array:tt)+)) => { core::array::from_fn(|_| $crate::seam::machine::Word::new(0)) };
    (@initial $kind:ident ($($naming:tt)*)) => { Default::default() };
    (@initial $kind:ident ($($naming:tt)*) $value:expr) => { $value };

    // Names the words of a field.
    (@name fixed $field:ident () $this:ident, $visit:ident) => {};
    (@name $kind:ident $field:ident (by $names:path) $this:ident, $visit:ident) => { $names($this, $visit) };
    (@name word $field:ident () $this:ident, $visit:ident) => {
        $crate::seam::field::tell($visit, format_args!(stringify!($field)), &$this.$field)
    };
    (@name record $field:ident () $this:ident, $visit:ident) => {
        $crate::seam::field::record!(@each record (concat!(stringify!($field), ".{}")) &$this.$field, $visit)
    };
    (@name $kind:ident $field:ident ($($naming:tt)+) $this:ident, $visit:ident) => {
        $crate::seam::field::record!(@each $kind ($($naming)+) &$this.$field, $visit)
    };

    // Names a word, or the words of a record; with keys, those of each element.
    (@each word ($name:expr) $word:expr, $visit:ident) => {
        $crate::seam::field::tell($visit, format_args!($name), $word)
    };
    (@each record ($name:expr) $record:expr, $visit:ident) => {
        $crate::seam::field::Record::words($record, &mut |name, word| {
            $visit(format_args!($name, name), word);
        })
    };
    (@each $kind:ident ($name:expr; $key:ident in $keys:expr $(; $($inner:tt)+)?) $array:expr, $visit:ident) => {
        for ($key, element) in IntoIterator::into_iter($keys).zip($array) {
            $crate::seam::field::record!(@each $kind ($name $(; $($inner)+)?) element, $visit);
        }
    };
}

pub(crate) use record;

/// Reports one word to the visitor.
pub(crate) fn tell<T, W>(visit: &mut Words<'_>, name: fmt::Arguments<'_>, word: &W)
where
    T: Copy + Into<u64> + TryFrom<u64>,
    W: Word<T>,
{
    visit(name, &Typed::new(word));
}

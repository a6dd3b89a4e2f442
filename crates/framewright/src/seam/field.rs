//! Words with names: what an address of the allocator's own data is.

use core::fmt;

use crate::types::units::NodeId;

/// A word of a record, or a stretch of an array of words.
#[derive(Clone, Copy, Debug)]
pub struct Field<'n> {
    /// Kind of record or array.
    pub part: &'static str,
    /// Number of the record among those of its kind; of an array, of the stretch.
    pub index: usize,
    /// What the record or stretch is for, such as `zone Normal of node 0`.
    pub record: fmt::Arguments<'n>,
    /// Name of the word in its record, such as `lock.next`; of an array, what an element is.
    pub name: fmt::Arguments<'n>,
    /// Address of the word, or of the first element.
    pub address: usize,
    /// Bytes of the word, or of an element.
    pub size: usize,
    /// Elements; 1 for a word.
    pub count: usize,
    /// The node that uses it most: of a CPU's data the CPU's, of a frame's the frame's. None where that is no single one.
    pub node: Option<NodeId>,
}

/// Who is told of each word of a record: its name, its address and its size.
pub(crate) type Words<'v> = dyn FnMut(fmt::Arguments<'_>, usize, usize) + 'v;

/// Tells of one word.
pub(crate) fn tell<T>(visit: &mut Words<'_>, name: fmt::Arguments<'_>, word: &T) {
    visit(name, core::ptr::from_ref(word).addr(), size_of::<T>());
}

//! Names of the allocator's words: for an address of its data, the record and word that lie there.

use core::fmt;

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

/// Visitor of a record's words; receives the name, address and size of each.
pub(crate) type Words<'v> = dyn FnMut(fmt::Arguments<'_>, usize, usize) + 'v;

/// Reports one word to the visitor.
pub(crate) fn tell<T>(visit: &mut Words<'_>, name: fmt::Arguments<'_>, word: &T) {
    visit(name, core::ptr::from_ref(word).addr(), size_of::<T>());
}

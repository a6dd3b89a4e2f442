//! The memory and CPUs that an allocator is set up over.

use framewright_ops::Shape;

/// First frame of the machine: 4 GiB, from where on memory is zone Normal.
pub(crate) const FIRST: u64 = 0x10_0000;

/// The memory and CPUs that an allocator is set up over.
pub(crate) struct MemoryMap {
    pub(crate) shape: Shape,
    /// Frames of each node, where they have equally many.
    pub(crate) each: Option<u64>,
}

impl MemoryMap {
    /// Frames of all nodes.
    pub(crate) fn frames(&self) -> u64 {
        self.shape.frames()
    }
}

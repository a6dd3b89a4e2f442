//! The memory and CPUs that an allocator is set up over.

use framewright_ops::Shape;

/// First frame of the machine: at 4 GiB, where zone Normal begins.
pub(crate) const FIRST: u64 = 0x10_0000;

/// The memory and CPUs that an allocator is set up over.
pub(crate) struct MemoryMap {
    pub(crate) shape: Shape,
    /// Frames of each node, if all have as many.
    pub(crate) each: Option<u64>,
}

impl MemoryMap {
    /// Returns the frames of all nodes.
    pub(crate) fn frames(&self) -> u64 {
        self.shape.frames()
    }
}

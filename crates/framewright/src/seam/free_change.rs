//! What an embedder is told of a zone's free memory ([`crate::Machine::free_changed`]).

/// Change of a zone's free memory, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeChange {
    /// On the free lists of all types but isolated ones.
    pub free: i64,
    /// Of `free`, in pageblocks of type CMA.
    pub cma: i64,
    /// Of `free`, in the high-atomic reserve.
    pub highatomic: i64,
}

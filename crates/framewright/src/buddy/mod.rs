//! Buddy system of one zone: free lists, split and merge, and the choice of list for a request.
//!
//! Mechanism and policy without locks: the caller holds the zone lock.

pub(crate) mod reported;
pub(crate) mod fallback;
pub(crate) mod pageblock_usage;
pub(crate) mod buddy;
pub(crate) mod free_list;

//! Per-CPU lists of one zone, and the depot that they exchange full magazines with.
//!
//! Files here know one zone. They take its lock through `zone/` and `free_path/` only.

pub(crate) mod refill;
pub(crate) mod lists;
pub(crate) mod quota;
pub(crate) mod drain_lists;
pub(crate) mod pcp_guard;
pub(crate) mod pcp;
pub(crate) mod autotune;
pub(crate) mod expire;
pub(crate) mod depot;
pub(crate) mod shard;
pub(crate) mod depot_size;
pub(crate) mod ring;
pub(crate) mod ring_id;
pub(crate) mod stride;

//! Chooses the zone for a request: policies, zonelists, watermarks, and the NUMA statistics of the choice.
//!
//! [`world::World`] is everything of one allocator. Code that needs several zones at once is here or in a higher layer.

pub(crate) mod slow_free;
pub(crate) mod listed;
pub(crate) mod zonelist;
pub(crate) mod address_limit;
pub(crate) mod hand_out;
pub(crate) mod quarantine;
pub(crate) mod free_blocks;
pub(crate) mod alloc_flags;
pub(crate) mod plan;
pub(crate) mod world;
pub(crate) mod node_states;
pub(crate) mod numa_stat;

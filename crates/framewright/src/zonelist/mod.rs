//! Which zone a request goes to next: policies, zonelists, watermarks, and the NUMA statistics of the choice.
//!
//! `World` is everything of one allocator. Whatever needs several zones at once is here or above.

pub(crate) mod world;
pub(crate) mod node_states;
pub(crate) mod numa_stat;

//! The oracle: what an allocator may and must answer.
//!
//! It knows the owner of each frame, and nothing of lists and buddies. It does not predict which block a request gets;
//! it judges the answer. Nothing here calls the allocator to change it.
//!
//! | file | judges |
//! |---|---|
//! | `verdict.rs` | the answer to a request: the block's place, or why there is none |
//! | `reach.rs` | whether a request that failed could be served |
//! | `ranges.rs` | requests for exact frames |
//! | `rights.rs` | what a request may use |
//! | `account.rs`, `memory.rs` | frees, and every frame's record |

pub(crate) mod verdict;
pub(crate) mod reach;
pub(crate) mod ranges;
pub(crate) mod rights;
mod account;
pub mod memory;

pub use account::Oracle;

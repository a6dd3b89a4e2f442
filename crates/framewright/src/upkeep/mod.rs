//! Brings cached and deferred frames back to the free lists, and counters up to date.
//!
//! Called by slow paths, by background work and by the embedder; never by a request that a list serves.

pub(crate) mod vmstat_refresh;
pub(crate) mod drain;
pub(crate) mod deferred_merge;

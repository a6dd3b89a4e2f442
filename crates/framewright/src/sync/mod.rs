//! Synchronisation: locks, the list that several CPUs change at once, and proofs of what shares a cache line.

pub(crate) mod zone_lock;
pub mod queued_lock;
pub mod smp_list;
pub(crate) mod ticket_lock;
pub(crate) mod looks;
pub(crate) mod rank;
pub(crate) mod cache_line;

//! One zone, and all work that needs its lock.
//!
//! `zone.rs` has the record of a zone, and `zone_guard.rs` the guard that proves the lock. Each other file is one kind
//! of work.

pub(crate) mod highatomic;
pub(crate) mod isolation;
pub(crate) mod pageblock_type;
pub(crate) mod zone_guard;
pub(crate) mod section_init;
pub(crate) mod repair;
pub(crate) mod watermark_boost;
pub(crate) mod release_owned;
pub(crate) mod zone;
pub(crate) mod deferred_free;
pub(crate) mod backoff;

//! One zone and all that needs its lock.
//!
//! `zone.rs` has the record of a zone and the guard that proves the lock; each other file is one thing that is done under it.

pub(crate) mod highatomic;
pub(crate) mod isolation;
pub(crate) mod pageblock_type;
pub(crate) mod zone_guard;
pub(crate) mod repair;
pub(crate) mod watermark_boost;
pub(crate) mod release_owned;
pub(crate) mod zone;
pub(crate) mod deferred_free;
pub(crate) mod backoff;

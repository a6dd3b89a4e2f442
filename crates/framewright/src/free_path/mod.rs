//! Frees blocks of per-CPU lists to their zone, or to the CPU that owns their pageblock.

pub(crate) mod free_path;
pub(crate) mod remote_free;
pub(crate) mod concurrent_free;
pub(crate) mod free_batch;

//! The public calls: what an embedder calls, by subject.
//!
//! A file here checks arguments, holds the CPU and announces results; algorithms are in the folders below. The
//! exception is `fast_path.rs`: the hit of a per-CPU list, which is nearly every call, goes through nothing else.

pub(crate) mod fork;
pub(crate) mod cpu_hotplug;
pub(crate) mod vmstat_calls;
pub(crate) mod background_calls;
pub(crate) mod drain_calls;
pub(crate) mod reporting;
pub(crate) mod exact_calls;
pub(crate) mod zone_calls;
pub(crate) mod context;
pub(crate) mod range_calls;
pub(crate) mod bulk;
pub(crate) mod cpu_handle;
pub(crate) mod local;
pub(crate) mod alloc_free;
pub(crate) mod no_wait;
pub(crate) mod nolock;
pub(crate) mod allocator;
pub(crate) mod fast_bulk;
pub(crate) mod fast_ops;
pub(crate) mod fast_path;
mod marked_path;
pub(crate) mod route;
pub(crate) mod seen;

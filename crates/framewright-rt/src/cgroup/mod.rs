//! The memory limit of the process' cgroup, and how near the process is to it.
//!
//! The kernel kills a process whose cgroup exceeds its hard limit. It slows down one that exceeds the soft limit. Free
//! memory of an arena counts there like used memory, because only the arena knows that it is free. So an arena that
//! sees the limit come near gives memory back ([`crate::Arena::shrink_to_limit`]).
//!
//! | | version 2 | version 1 |
//! |---|---|---|
//! | usage | `memory.current` | `memory.usage_in_bytes` |
//! | limits | `memory.max`, `memory.high` | `memory.limit_in_bytes` |
//! | of the usage, cache that the kernel drops first | `inactive_file` of `memory.stat` | `total_inactive_file` |
//! | how often a limit was met | `high` and `max` of `memory.events` | `memory.failcnt` |
//!
//! Limits of all ancestors hold too, so each level that the process sees is read. `/proc/self/cgroup` names the cgroup,
//! `/proc/self/mountinfo` where it is mounted. Both are read at each look, because a process may be moved.
//!
//! Cost: some ten small files of the kernel's at each look.
//!
//! Rejected: `memory.pressure`. It tells of time lost to reclaim, whoever caused it, and version 1 has none. A wait for
//! its events would need a thread that never sleeps out.

mod levels;
mod text;

pub use levels::{Cgroup, MemoryUsage};
pub use text::{CgroupError, Mount, Paths, keyed, limit, number};

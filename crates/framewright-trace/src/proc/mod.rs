//! The state of a kernel's memory as `/proc` shows it: the start of a replay, and what to compare its end with.
//!
//! Five files: `zoneinfo` (zones, watermarks, per-CPU lists), `buddyinfo` and `pagetypeinfo` (free blocks by order and
//! by mobility), `vmstat` (counters) and `kpageflags` (flags of every frame). The parsers go by words, not by columns, and
//! take what kernels since 3.0 print; counters that they do not know are kept by name. What is wrong is named with file
//! and line.
//!
//! Sizes are in frames throughout, as in the files.

mod kpageflags;
mod pagetypeinfo;
mod buddyinfo;
mod vmstat;
mod zoneinfo;
mod parse;

#[cfg(test)]
mod tests;

pub use self::buddyinfo::{BuddyDifference, BuddyInfo, BuddyRow};
pub use self::kpageflags::{KPageFlags, flag};
pub use self::pagetypeinfo::{PageTypeInfo, PageTypeRow, PageblockRow};
pub use self::parse::text;
pub use self::vmstat::VmStat;
pub use self::zoneinfo::{PageSet, ZoneInfo, ZoneState};
pub use crate::error::ProcFault;

//! The state of a kernel's memory as `/proc` shows it: the start of a replay, and the measure of its end.
//!
//! | file | holds |
//! |---|---|
//! | `zoneinfo` | zones, watermarks, per-CPU lists |
//! | `buddyinfo` | free blocks by order |
//! | `pagetypeinfo` | free blocks and pageblocks by mobility |
//! | `vmstat` | counters |
//! | `kpageflags` | flags of every frame |
//!
//! The parsers go by words, not by columns, and read the output of kernels since 3.0. Counters that they do not know
//! are kept by name. A fault is reported with file and line.
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

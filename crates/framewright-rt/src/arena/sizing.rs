//! What decides about an arena's size: its room, its cgroup, and the parties that are asked for memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::calls::Calls;
use super::hooks::OnLowMemory;
use super::room::Room;
use crate::cgroup::{Cgroup, CgroupError, MemoryUsage};

/// Part of the limit that is kept free: below it, the process is near its limit.
///
/// Linux lets a cgroup's charges run ahead by a batch for each CPU. A sixteenth is more than that for limits in use.
const RESERVE: u64 = 16;

/// The parts of an arena that its changes of size use.
pub(super) struct Sizing {
    /// Where the arena may grow, if it was built with a limit.
    pub(super) room: Option<Room>,
    pub(super) on_low_memory: Option<OnLowMemory>,
    pub(super) calls: Arc<Calls>,
    pub(super) watch: Watch,
}

/// The cgroup as an arena sees it.
#[derive(Debug)]
pub(super) struct Watch {
    cgroup: Cgroup,
    /// Whether growth by itself stays away from the limit.
    limits_growth: bool,
    /// How often a limit had been met at the last look; the largest number before the first.
    events: AtomicU64,
}

impl Watch {
    /// The process' cgroup, or the one that the program named.
    pub(super) fn new(named: Option<Cgroup>) -> Watch {
        let limits_growth = named.is_some();
        let cgroup = named.unwrap_or_else(Cgroup::of_process);
        Watch { cgroup, limits_growth, events: AtomicU64::new(u64::MAX) }
    }

    pub(super) fn look(&self) -> Result<Option<MemoryUsage>, CgroupError> {
        self.cgroup.look()
    }

    /// The bytes to give back: none if the limit is far.
    ///
    /// It is near if less than a sixteenth is left, or if it was met since the last call. Then an eighth shall be left.
    pub(super) fn excess(&self, usage: &MemoryUsage) -> u64 {
        let was_met = self.events.swap(usage.events, Relaxed) < usage.events;
        let (Some(limit), Some(left)) = (usage.limit, usage.headroom()) else { return 0 };
        let reserve = limit / RESERVE;
        if left >= reserve && !was_met {
            return 0;
        }
        (2 * reserve).saturating_sub(left).max(1)
    }

    /// The bytes by which the arena may grow by itself. A cgroup that cannot be read limits nothing.
    pub(super) fn room(&self) -> u64 {
        let usage = if self.limits_growth { self.look().ok().flatten() } else { None };
        let limited = usage.and_then(|usage| usage.limit.zip(usage.headroom()));
        limited.map_or(u64::MAX, |(limit, left)| left.saturating_sub(limit / RESERVE))
    }
}

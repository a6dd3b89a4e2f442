//! Tells whether a thread reclaims memory at the moment of an event.
//!
//! What a thread frees while it reclaims could be reclaimed. The trace shows two kinds of such threads:
//!
//! | thread | known by |
//! |---|---|
//! | background reclaim | its name: `kswapd` and a number |
//! | a thread that reclaims for its own request | `mm_vmscan_direct_reclaim_begin` and `_end` around it |
//!
//! A trace without these two events shows background reclaim alone. Frees by an interrupt that hits such a thread count
//! as its own; the trace does not tell them apart. Reclaim for the limit of a control group is not seen.
//!
//! Rejected: taking the frees right before a request for what the request reclaimed. A thread that unmaps memory and
//! then touches other memory leaves the same events.

use std::collections::HashSet;

use crate::record::{CommId, Comms, Kind, Record};

/// The threads that reclaim, as far as a pass over the trace has come.
#[derive(Default)]
pub(super) struct ReclaimContext {
    /// Threads between the two events of direct reclaim.
    reclaiming: HashSet<u32>,
    /// Whether each name that was looked up is one of background reclaim.
    names: Vec<Option<bool>>,
}

impl ReclaimContext {
    /// Follows a record, and returns whether its thread reclaims memory.
    pub(super) fn follow(&mut self, record: &Record, comms: &Comms) -> bool {
        match record.kind {
            Kind::ReclaimBegin { .. } => _ = self.reclaiming.insert(record.pid),
            Kind::ReclaimEnd { .. } => _ = self.reclaiming.remove(&record.pid),
            _ => {}
        }
        self.is_background(record.comm, comms) || self.reclaiming.contains(&record.pid)
    }

    fn is_background(&mut self, comm: CommId, comms: &Comms) -> bool {
        let index = comm.0 as usize;
        if self.names.len() <= index {
            self.names.resize(index + 1, None);
        }
        *self.names[index].get_or_insert_with(|| {
            let number = comms.name(comm).strip_prefix("kswapd");
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        })
    }
}

#[cfg(test)]
mod tests {
    use framewright::units::{CpuId, Order, Pfn};

    use super::*;

    #[test]
    fn threads_reclaim_by_name_or_between_two_events() {
        let free = Kind::Free { pfn: Pfn(1), order: Order(0) };
        let (begin, end) = (Kind::ReclaimBegin { order: Order(0) }, Kind::ReclaimEnd { reclaimed: 1 });
        let mut comms = Comms::new();
        let mut context = ReclaimContext::default();
        // Thread, name, event, whether it reclaims.
        let table = [
            (7, "fio", free, false),
            (7, "fio", end, false),
            (7, "fio", begin, true),
            (8, "fio", free, false),
            (7, "fio", free, true),
            (7, "fio", end, false),
            (7, "fio", free, false),
            (40, "kswapd0", free, true),
            (41, "kswapd17", free, true),
            (42, "kswapd", free, false),
            (43, "kswapd0-miner", free, false),
            (44, Comms::UNKNOWN, free, false),
        ];
        for (pid, name, kind, expected) in table {
            let record = Record { time: 0, pid, comm: comms.intern(name), cpu: CpuId(0), kind };
            assert_eq!(context.follow(&record, &comms), expected, "{pid} {name} {kind:?}");
        }
    }
}

//! The requesters that an answer names: records of the trace by their numbers.
//!
//! While a replay runs, a record is a number. The few that an answer names are known only at its end. So the trace is
//! then read once more, without an allocator, and nothing is kept of the others.

use std::collections::{BTreeMap, BTreeSet};

use framewright::request::Gfp;
use framewright::units::{MigrateType, Order};
use serde::Serialize;

use crate::record::{Kind, Record};
use crate::replay::{Recording, ReplayError};

/// A request of the trace, and the task that made it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Requester {
    /// Number of the event in the trace, counted from 1.
    pub event: u64,
    /// Time in nanoseconds of the trace's clock.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u16,
    /// The task's name.
    pub task: String,
    /// Number of the thread.
    pub pid: u32,
    /// Order asked for.
    pub order: u8,
    /// Mobility asked for.
    pub migratetype: &'static str,
    /// Flags.
    pub gfp: String,
    /// Whether the recorded kernel served it.
    pub linux_served: bool,
}

/// Reads the requests with these numbers, and skips records that are no requests.
pub(super) fn look_up(
    recording: &Recording<'_>,
    numbers: &BTreeSet<u64>,
    progress: &mut dyn FnMut(u64),
) -> Result<BTreeMap<u64, Requester>, ReplayError> {
    let mut trace = recording.open()?;
    let mut found = Vec::new();
    let last = numbers.last().copied().unwrap_or(0);
    for (number, record) in (1..=last).zip(trace.by_ref()) {
        let record = record?;
        if numbers.contains(&number) {
            found.push((number, record));
        }
        if number.is_multiple_of(1 << 16) {
            progress(number);
        }
    }
    let requester = |(event, record): (u64, Record)| {
        let (pfn, order, migratetype, gfp): (_, Order, MigrateType, Gfp) = match record.kind {
            Kind::Alloc { pfn, order, migratetype, gfp } => (pfn, order, migratetype, gfp),
            _ => return None,
        };
        let by = Requester {
            event,
            time_ns: record.time,
            cpu: record.cpu.0,
            task: trace.comms().name(record.comm).to_owned(),
            pid: record.pid,
            order: order.0,
            migratetype: migratetype.name(),
            gfp: gfp.to_string(),
            linux_served: pfn.is_some(),
        };
        Some((event, by))
    };
    Ok(found.into_iter().filter_map(requester).collect())
}

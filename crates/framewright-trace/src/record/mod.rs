//! The content of a trace: one [`Record`] for each event, and the [`Quality`] of the whole.
//!
//! A record keeps every field of its tracepoint that concerns memory. It drops the interrupt flags, vendors' extra
//! fields, and the hashed `page=` pointer: the kernel prints another hash after each boot, and `pfn=` is better.
//!
//! Not every record is a request. `mm_page_alloc`, `mm_page_free` and `page_migrate` show what the kernel's users did.
//! The others show how the allocator did it, and a replay must not carry them out a second time:
//!
//! - `mm_page_free_batched` comes in addition to the `mm_page_free` of the same page;
//! - `mm_page_alloc_zone_locked` and `mm_page_pcpu_drain` are the traffic between the zone and the per-CPU lists.
//!
//! [`Kind::is_request`] tells them apart.

mod quality;
mod kind;
mod tracepoint;
mod comms;

use framewright::units::CpuId;

pub use self::comms::{CommId, Comms};
pub use self::kind::Kind;
pub use self::quality::Quality;
pub(crate) use self::tracepoint::Tracepoint;

/// One event of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Time in nanoseconds of the trace's clock; the tracer chooses its zero point.
    pub time: u64,
    /// Number of the thread that ran.
    pub pid: u32,
    /// Its name, an index into the trace's [`Comms`].
    pub comm: CommId,
    /// The CPU that it ran on.
    pub cpu: CpuId,
    /// The event.
    pub kind: Kind,
}

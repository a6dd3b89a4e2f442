//! What a trace consists of: one [`Record`] for each event, and the [`Quality`] of the whole.
//!
//! A record keeps every field of its tracepoint that says something about memory. The hashed `page=` pointer is dropped
//! (the kernel prints a different hash after each boot, and `pfn=` says the same better), and so are the interrupt
//! flags and vendors' extra fields.
//!
//! Not every record is a request. `mm_page_alloc`, `mm_page_free` and `page_migrate` say what the kernel's users did;
//! the others say what the allocator did for it, and a replay must not carry them out a second time:
//! `mm_page_free_batched` comes in addition to the `mm_page_free` of the same page, `mm_page_alloc_zone_locked` and
//! `mm_page_pcpu_drain` are the traffic between the zone and the per-CPU lists. [`Kind::is_request`] tells them apart.

mod quality;
mod kind;
mod tracepoint;
mod comms;

use framewright::pfn::CpuId;

pub use self::comms::{CommId, Comms};
pub use self::kind::Kind;
pub use self::quality::Quality;
pub(crate) use self::tracepoint::Tracepoint;

/// One event of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When, in nanoseconds of the trace's clock; the zero point is the tracer's.
    pub time: u64,
    /// Number of the thread that ran.
    pub pid: u32,
    /// Its name, an index into the trace's [`Comms`].
    pub comm: CommId,
    /// The CPU that it ran on.
    pub cpu: CpuId,
    /// What happened.
    pub kind: Kind,
}

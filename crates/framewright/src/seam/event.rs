//! Tracepoints, in ftrace's text form.
//!
//! Scripts that read a kernel's trace also read ours: each [`Event`] prints its fields as the kernel's tracepoint of
//! this name does. `page=` is the address of the descriptor in a kernel whose page table starts at
//! `0xffffea0000000000`, with 64 bytes a descriptor. A failed request has `page=0000000000000000 pfn=0x0`.

use core::fmt;

use crate::types::migratetype::MigrateType;
use crate::types::request::{Gfp, Request};
use crate::types::units::{CpuId, Order, Pfn};

/// Tracepoint event: a change to one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request was served; it failed if `pfn` is `None`.
    PageAlloc {
        /// The allocated block.
        pfn: Option<Pfn>,
        /// Order of the request.
        order: Order,
        /// Mobility that the request asked for.
        migratetype: MigrateType,
        /// Flags of the request.
        gfp: Gfp,
    },
    /// A block was freed.
    PageFree {
        /// The freed block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
    },
    /// A request was served from the free lists of another type.
    ExtFrag {
        /// The block that was found.
        pfn: Pfn,
        /// Order that the request asked for.
        alloc_order: Order,
        /// Order of the block that was found.
        fallback_order: Order,
        /// Order of a pageblock.
        pageblock_order: Order,
        /// Mobility that the request asked for.
        alloc_migratetype: MigrateType,
        /// Mobility of the list that the block was on.
        fallback_migratetype: MigrateType,
        /// Whether the pageblock now has the requested mobility.
        change_ownership: bool,
    },
    /// A block was freed from a per-CPU list to the buddy lists.
    PcpuDrain {
        /// The freed block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
        /// Mobility of its pageblock.
        migratetype: MigrateType,
    },
    /// A block was removed from the buddy lists under the zone lock.
    AllocZoneLocked {
        /// The removed block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
        /// Mobility that the request asked for.
        migratetype: MigrateType,
        /// Whether the block goes to a per-CPU list.
        percpu_refill: bool,
    },
}

impl Event {
    /// Returns the event of a request that a block has served.
    pub(crate) const fn page_alloc(pfn: Pfn, request: &Request) -> Event {
        let Request { gfp, order, .. } = *request;
        Event::PageAlloc { pfn: Some(pfn), order, migratetype: gfp.migratetype(), gfp }
    }

    /// Returns the tracepoint's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Event::PageAlloc { .. } => "mm_page_alloc",
            Event::PageFree { .. } => "mm_page_free",
            Event::ExtFrag { .. } => "mm_page_alloc_extfrag",
            Event::PcpuDrain { .. } => "mm_page_pcpu_drain",
            Event::AllocZoneLocked { .. } => "mm_page_alloc_zone_locked",
        }
    }
}

/// An event as a whole line of ftrace's text: task, CPU, time and event.
///
/// Example: `            fio-214     [002] .....    13.457127: mm_page_alloc: …`. Only a kernel has flags of interrupts
/// and preemption; here they are dots. The `Display` of [`Event`] prints the event without the head of the line, in the
/// form that scripts expect after it.
#[derive(Clone, Copy, Debug)]
pub struct TraceLine<'e> {
    /// Name of the task.
    pub task: &'e str,
    /// Number of the task.
    pub pid: u32,
    /// CPU that the task ran on.
    pub cpu: CpuId,
    /// Time in nanoseconds; printed in seconds to the microsecond.
    pub now: u64,
    /// The event.
    pub event: &'e Event,
}

impl fmt::Display for TraceLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceLine { task, pid, cpu: CpuId(cpu), now, event } = *self;
        let (seconds, micros) = (now / 1_000_000_000, now % 1_000_000_000 / 1_000);
        write!(f, "{task:>16}-{pid:<7} [{cpu:03}] ..... {seconds:>5}.{micros:06}: {event}")
    }
}

/// A block in the form of `page=` and `pfn=`.
struct Page(Option<Pfn>);

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Pfn(pfn)) => {
                let descriptor = 0xffff_ea00_0000_0000_u64.wrapping_add(pfn.wrapping_mul(64));
                write!(f, "page={descriptor:016x} pfn={pfn:#x}")
            }
            None => f.write_str("page=0000000000000000 pfn=0x0"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match *self {
            Event::PageAlloc { pfn, order, migratetype, gfp } => {
                let mt = migratetype.index();
                write!(f, "{} order={order} migratetype={mt} gfp_flags={gfp}", Page(pfn))
            }
            Event::PageFree { pfn, order } => write!(f, "{} order={order}", Page(Some(pfn))),
            Event::ExtFrag {
                pfn,
                alloc_order,
                fallback_order,
                pageblock_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
            } => write!(
                f,
                "{} alloc_order={alloc_order} fallback_order={fallback_order} pageblock_order={pageblock_order} \
                 alloc_migratetype={} fallback_migratetype={} fragmenting={} change_ownership={}",
                Page(Some(pfn)),
                alloc_migratetype.index(),
                fallback_migratetype.index(),
                u8::from(fallback_order < pageblock_order),
                u8::from(change_ownership)
            ),
            Event::PcpuDrain { pfn, order, migratetype } => {
                write!(f, "{} order={order} migratetype={}", Page(Some(pfn)), migratetype.index())
            }
            Event::AllocZoneLocked { pfn, order, migratetype, percpu_refill } => write!(
                f,
                "{} order={order} migratetype={} percpu_refill={}",
                Page(Some(pfn)),
                migratetype.index(),
                u8::from(percpu_refill)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;
    use crate::types::request::{__GFP_COMP, GFP_HIGHUSER_MOVABLE};

    #[test]
    fn events_print_as_ftrace_does() {
        let alloc = |pfn| Event::PageAlloc {
            pfn,
            order: Order(0),
            migratetype: MigrateType::Movable,
            gfp: GFP_HIGHUSER_MOVABLE | __GFP_COMP,
        };
        assert_eq!(
            alloc(Some(Pfn(0x12e8ac))).to_string(),
            "mm_page_alloc: page=ffffea0004ba2b00 pfn=0x12e8ac order=0 migratetype=1 \
             gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_COMP"
        );
        assert!(alloc(None).to_string().starts_with("mm_page_alloc: page=0000000000000000 pfn=0x0 order=0"));
        assert_eq!(
            Event::ExtFrag {
                pfn: Pfn(0x115c00),
                alloc_order: Order(0),
                fallback_order: Order(10),
                pageblock_order: Order(9),
                alloc_migratetype: MigrateType::Unmovable,
                fallback_migratetype: MigrateType::Movable,
                change_ownership: true,
            }
            .to_string(),
            "mm_page_alloc_extfrag: page=ffffea0004570000 pfn=0x115c00 alloc_order=0 fallback_order=10 \
             pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 change_ownership=1"
        );
        assert_eq!(
            Event::AllocZoneLocked {
                pfn: Pfn(16),
                order: Order(3),
                migratetype: MigrateType::Reclaimable,
                percpu_refill: true
            }
            .to_string(),
            "mm_page_alloc_zone_locked: page=ffffea0000000400 pfn=0x10 order=3 migratetype=2 percpu_refill=1"
        );
        assert_eq!(
            Event::PcpuDrain { pfn: Pfn(16), order: Order(1), migratetype: MigrateType::Unmovable }.to_string(),
            "mm_page_pcpu_drain: page=ffffea0000000400 pfn=0x10 order=1 migratetype=0"
        );
        let event = Event::PageFree { pfn: Pfn(16), order: Order(1) };
        let line = TraceLine { task: "run.sh", pid: 1, cpu: CpuId(2), now: 13_457_127_900, event: &event };
        assert_eq!(
            line.to_string(),
            "          run.sh-1       [002] .....    13.457127: mm_page_free: page=ffffea0000000400 pfn=0x10 order=1"
        );
        assert_eq!(event.to_string(), "mm_page_free: page=ffffea0000000400 pfn=0x10 order=1");
        let late = TraceLine { now: 1_999_999_999, ..line };
        assert!(late.to_string().contains("     1.999999: "), "the last microsecond of a second");
    }
}

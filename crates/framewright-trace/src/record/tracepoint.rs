//! The tracepoints that become records, and their names.
//!
//! The core has the names of the tracepoints that it passes itself ([`Event::name`]). A test compares them.
//!
//! [`Event::name`]: framewright::event::Event::name

/// A tracepoint that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracepoint {
    Alloc,
    Free,
    FreeBatched,
    Move,
    ExtFrag,
    PcpuDrain,
    AllocZoneLocked,
    ReclaimBegin,
    ReclaimEnd,
}

impl Tracepoint {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Tracepoint; 9] = [
        Tracepoint::Alloc,
        Tracepoint::Free,
        Tracepoint::FreeBatched,
        Tracepoint::Move,
        Tracepoint::ExtFrag,
        Tracepoint::PcpuDrain,
        Tracepoint::AllocZoneLocked,
        Tracepoint::ReclaimBegin,
        Tracepoint::ReclaimEnd,
    ];

    /// Their names, in the same order.
    pub(crate) const NAMES: [&str; Tracepoint::ALL.len()] = [
        "mm_page_alloc",
        "mm_page_free",
        "mm_page_free_batched",
        "page_migrate",
        "mm_page_alloc_extfrag",
        "mm_page_pcpu_drain",
        "mm_page_alloc_zone_locked",
        "mm_vmscan_direct_reclaim_begin",
        "mm_vmscan_direct_reclaim_end",
    ];

    /// The name in tracefs.
    pub(crate) const fn name(self) -> &'static str {
        Tracepoint::NAMES[self as usize]
    }

    /// Returns the tracepoint with this name.
    pub(crate) fn named(name: &[u8]) -> Option<Tracepoint> {
        Tracepoint::ALL.into_iter().find(|tracepoint| tracepoint.name().as_bytes() == name)
    }
}

#[cfg(test)]
mod tests {
    use framewright::event::Event;
    use framewright::request::Gfp;
    use framewright::units::{MigrateType, Order, Pfn};

    use super::*;

    #[test]
    fn names_are_those_of_the_core() {
        let (pfn, order, migratetype) = (Pfn(0), Order(0), MigrateType::Movable);
        let ext_frag = Event::ExtFrag {
            pfn,
            alloc_order: order,
            fallback_order: order,
            pageblock_order: order,
            alloc_migratetype: migratetype,
            fallback_migratetype: migratetype,
            change_ownership: false,
        };
        let table = [
            (Tracepoint::Alloc, Event::PageAlloc { pfn: None, order, migratetype, gfp: Gfp::NONE }),
            (Tracepoint::Free, Event::PageFree { pfn, order }),
            (Tracepoint::ExtFrag, ext_frag),
            (Tracepoint::PcpuDrain, Event::PcpuDrain { pfn, order, migratetype }),
            (Tracepoint::AllocZoneLocked, Event::AllocZoneLocked { pfn, order, migratetype, percpu_refill: false }),
        ];
        for (tracepoint, event) in table {
            assert_eq!(tracepoint.name(), event.name());
        }
        for (i, tracepoint) in Tracepoint::ALL.into_iter().enumerate() {
            assert_eq!((tracepoint as usize, Tracepoint::named(tracepoint.name().as_bytes())), (i, Some(tracepoint)));
        }
    }
}

//! Errors as values: for each refused call its reason, in the caller's terms.
//!
//! A refused call changes nothing but a counter. No call of the core panics.

use core::fmt;

use crate::types::migratetype::MigrateType;
use crate::types::units::{NodeId, Order, Pfn, PfnRange};
pub use crate::types::why::{Shortage, Why};

/// What a caller without per-CPU lists is told.
const NO_LISTS: &str =
    "the caller has no per-CPU lists: its CPU is unknown, or its context is one that calls any_context";

/// Feature that a machine may be compiled without ([`crate::Features`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Feature {
    /// More than one node, and policies that choose among them.
    Nodes,
    /// Requests with an address limit.
    AddressLimits,
    /// Pageblocks of several types.
    Mobility,
    /// Sections that are initialised after boot.
    SectionInit,
    /// Blocks that are zeroed for `__GFP_ZERO`.
    Zero,
    /// Freed blocks that are filled and checked.
    Hardened,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Nodes => "nodes",
            Feature::AddressLimits => "address_limits",
            Feature::Mobility => "mobility",
            Feature::SectionInit => "section_init",
            Feature::Zero => "zero",
            Feature::Hardened => "hardened",
        })
    }
}

/// Reason for which a request was not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// The order is above the largest one set at boot.
    BadOrder {
        /// The order asked for.
        order: Order,
        /// The largest possible order.
        max: Order,
    },
    /// The alignment asked for is above the largest one.
    BadAlignment {
        /// The alignment asked for: `1 << align` frames.
        align: Order,
        /// The largest possible alignment.
        max: Order,
    },
    /// The node does not exist.
    BadNode(NodeId),
    /// The flags contradict each other: `__GFP_MOVABLE` with `__GFP_RECLAIMABLE`, or several zones.
    BadFlags,
    /// The range has no frames, or ends before it begins.
    BadRange(PfnRange),
    /// No block of this order can start at this frame.
    Misaligned(Pfn, Order),
    /// The frame is not memory of this allocator: it lies outside, or in a hole.
    Foreign(Pfn),
    /// The frame belongs to another zone than the first frame of the range.
    ///
    /// A zone ends there.
    OtherZone(Pfn),
    /// The frame was taken offline, or is reserved since boot.
    Offline(Pfn),
    /// The frame was quarantined because its metadata was found damaged.
    Quarantined(Pfn),
    /// No caller can set a pageblock to this type.
    BadType(MigrateType),
    /// The machine was compiled without this feature ([`crate::Features`]), which the call needs.
    LeftOut(Feature),
    /// No memory is free for the request.
    NoMemory {
        /// The reason.
        why: Why,
        /// What memory there was, for a request that failed on a machine that asks for it
        /// ([`crate::Features::shortage`]).
        ///
        /// None if the request has `__GFP_NOWARN`, or failed for another reason than memory. None as well if its turn
        /// chose its only node (`Policy::Interleave` with `__GFP_THISNODE`).
        left: Option<Shortage>,
    },
    /// A frame of the range is in use and cannot be moved away.
    Busy {
        /// The first such frame; it lies inside the range.
        pfn: Pfn,
    },
    /// The pageblock of a frame of the range cannot be isolated now.
    ///
    /// Compaction empties that pageblock, or too many calls take ranges inside it.
    Contended {
        /// The first frame of the range in that pageblock.
        pfn: Pfn,
    },
    /// From any context: a zone that might have served the request was locked.
    ///
    /// Whether that zone has memory is not known.
    Locked,
    /// From any context: no per-CPU list holds blocks of this order.
    NotKept(Order),
    /// In an interrupt: this call may wait for other CPUs, reclaim or move memory.
    ///
    /// Also returned to a call that interrupted a locked section of its own thread, for example from a signal handler
    /// ([`crate::Machine::is_in_section`]). Such a call would wait for itself.
    InInterrupt,
}

// It is a part of every result, and figures make it no larger.
const _: () = assert!(size_of::<AllocError>() == 24);

impl AllocError {
    /// Returns the error of a request that got no memory, without figures.
    pub const fn no_memory(why: Why) -> AllocError {
        AllocError::NoMemory { why, left: None }
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::BadOrder { order, max } => write!(f, "order {order} is above the largest, {max}"),
            AllocError::BadAlignment { align, max } => {
                write!(f, "an alignment of order {align} is above the largest, {max}; order 6 aligns to 64 frames")
            }
            AllocError::BadNode(node) => write!(f, "there is no node {}", node.0),
            AllocError::BadFlags => f.write_str("the flags contradict each other"),
            AllocError::BadRange(range) => write!(f, "{range} has no frames"),
            AllocError::Misaligned(pfn, order) => write!(f, "no block of order {order} can start at frame {pfn}"),
            AllocError::Foreign(pfn) => write!(f, "frame {pfn} is not this allocator's memory"),
            AllocError::OtherZone(pfn) => write!(f, "frame {pfn} is in another zone than the range's first"),
            AllocError::Offline(pfn) => write!(f, "frame {pfn} is offline or reserved"),
            AllocError::Quarantined(pfn) => write!(f, "frame {pfn} is in quarantine"),
            AllocError::BadType(migratetype) => write!(f, "no pageblock is set to type {migratetype} by hand"),
            AllocError::LeftOut(feature) => write!(f, "the FEATURES of the machine or kernel leave out {feature}"),
            AllocError::NoMemory { why, left } => {
                f.write_str(match why {
                    Why::Watermark => "out of memory: every allowed zone is at its watermark",
                    Why::Fragmented => "out of memory: no free block is large enough",
                    Why::NoZone => "no zone with memory satisfies the request",
                    Why::WouldWait => "out of memory for a request that must not wait",
                    Why::Fault => "made to fail by a test",
                    Why::NoCpu => NO_LISTS,
                })?;
                left.map_or(Ok(()), |left| left.tell(*why, f))
            }
            AllocError::Busy { pfn } => write!(f, "frame {pfn} is in use and cannot be moved"),
            AllocError::Contended { pfn } => write!(f, "the pageblock of frame {pfn} is being emptied by other calls"),
            AllocError::Locked => {
                f.write_str("a zone that might have served it is locked, and the caller does not wait")
            }
            AllocError::NotKept(order) => write!(f, "blocks of order {order} are not served from any context"),
            AllocError::InInterrupt => f.write_str("a call that may wait was made in an interrupt"),
        }
    }
}

impl core::error::Error for AllocError {}

/// Reason for which a free was refused; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FreeError {
    /// The frame is not memory of this allocator: it lies outside, or in a hole.
    Foreign(Pfn),
    /// A block of this order cannot start at this frame.
    Misaligned(Pfn, Order),
    /// The order is above the largest one set at boot.
    BadOrder {
        /// The order given.
        order: Order,
        /// The largest possible order.
        max: Order,
    },
    /// The block was allocated with a different order.
    WrongOrder {
        /// The block.
        pfn: Pfn,
        /// The order with which the block was allocated.
        actual: Order,
    },
    /// The frame is part of an allocated block that starts elsewhere.
    NotHead {
        /// The frame given.
        pfn: Pfn,
        /// First frame of the block that contains it.
        head: Pfn,
    },
    /// The frame is already free, on a free list or a per-CPU list.
    AlreadyFree(Pfn),
    /// The frame was taken offline, or is reserved since boot.
    Offline(Pfn),
    /// The frame was quarantined because its metadata was found damaged.
    Quarantined(Pfn),
    /// The range is empty or overflows.
    BadRange(PfnRange),
    /// The machine reports a CPU that the allocator was not set up with.
    NoCpu,
    /// From any context: too many CPUs freed blocks of this frame's zone at once.
    Busy(Pfn),
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FreeError::Foreign(pfn) => write!(f, "frame {pfn} is not this allocator's memory"),
            FreeError::Misaligned(pfn, order) => write!(f, "no block of order {order} can start at frame {pfn}"),
            FreeError::BadOrder { order, max } => write!(f, "order {order} is above the largest, {max}"),
            FreeError::WrongOrder { pfn, actual } => write!(f, "block {pfn} was allocated with order {actual}"),
            FreeError::NotHead { pfn, head } => write!(f, "frame {pfn} is inside the block that starts at {head}"),
            FreeError::AlreadyFree(pfn) => write!(f, "frame {pfn} is free already"),
            FreeError::Offline(pfn) => write!(f, "frame {pfn} is offline or reserved"),
            FreeError::Quarantined(pfn) => write!(f, "frame {pfn} is in quarantine"),
            FreeError::BadRange(range) => write!(f, "{range} is not a range of frames"),
            FreeError::NoCpu => f.write_str(NO_LISTS),
            FreeError::Busy(pfn) => write!(f, "too many free blocks of frame {pfn}'s zone at once"),
        }
    }
}

impl core::error::Error for FreeError {}

/// Reason for which the allocator could not be set up.
///
/// Nothing was changed but the memory handed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BootError {
    /// The page size is out of range, or the orders do not fit.
    ///
    /// `max_order` is above [`Order::LIMIT`], or `pageblock_order` is above `max_order`.
    BadGeometry,
    /// The map has no usable memory.
    NoMemory,
    /// The number of CPU records is 0 or above 65,535.
    ///
    /// A record is one context of one CPU ([`crate::Config::contexts`]).
    BadCpus,
    /// The machine runs on a CPU that the configuration does not have, or in a context without per-CPU lists.
    NoCpu,
    /// The region with this position is invalid.
    ///
    /// It is empty, out of order, overlaps its predecessor, or ends above 2^52 frames.
    BadRegion(usize),
    /// The reserved range with this position ends before it starts, or lies above all memory.
    BadReserved(usize),
    /// A region or CPU names a node of 64 or above.
    BadNode(NodeId),
    /// The distance table does not have `nodes * nodes` entries.
    BadDistances,
    /// The map has more frames than 32-bit links can name.
    TooManyFrames {
        /// Frames in the map, including holes inside largest blocks.
        frames: u64,
    },
    /// The per-CPU lists and depots have more entries than 32 bits can number.
    TooManySlots {
        /// Entries that the configuration asks for.
        slots: u64,
    },
    /// The embedder passes more counters than a zone or node has room for.
    TooManyCounters {
        /// `zone` or `node`.
        of: &'static str,
        /// Counters given.
        given: usize,
        /// Counters that there is room for.
        most: usize,
    },
    /// The mechanisms conflict, for this reason.
    Mechanisms(&'static str),
    /// The machine's constant [`crate::Machine::MECHANISMS`] sets this switch otherwise.
    OtherMechanisms(&'static str),
    /// The machine was compiled without this feature ([`crate::Features`]), which the configuration needs.
    LeftOut(Feature),
    /// `pcp-protection=own-lists` was chosen on a machine that does not keep interrupts apart.
    ///
    /// See [`crate::seam::machine::Machine::keeps_interrupts_apart`].
    Interrupts,
    /// A slice of [`crate::boot::boot::Parts`] is shorter than [`crate::Layout`] requires.
    TooShort {
        /// The slice.
        part: &'static str,
        /// Entries needed.
        needed: usize,
        /// Entries given.
        given: usize,
    },
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootError::BadGeometry => f.write_str("page size, largest order and pageblock order do not fit together"),
            BootError::NoMemory => f.write_str("the memory map has no usable frame, or all of them are reserved"),
            BootError::BadCpus => f.write_str("the number of CPUs must be 1 to 65535"),
            BootError::NoCpu => {
                f.write_str("boot runs on a CPU that the configuration does not have, or in a context without lists")
            }
            BootError::BadRegion(i) => write!(
                f,
                "region {i} of the memory map is empty, begins before the end of the one before it, or ends above 2^52 \
                 frames; are these bytes, not frames?"
            ),
            BootError::BadReserved(i) => write!(
                f,
                "reserved range {i} ends before it starts, or lies above all memory; are these bytes, not frames?"
            ),
            BootError::BadNode(node) => write!(f, "node {} is above the largest, 63", node.0),
            BootError::BadDistances => f.write_str("the distance table must have nodes x nodes entries"),
            BootError::TooManyCounters { of, given, most } => {
                write!(f, "{given} counters of the embedder's are more than the {most} that a {of} has room for")
            }
            BootError::Mechanisms(reason) => write!(f, "these mechanisms do not go together: {reason}"),
            BootError::OtherMechanisms(switch) => {
                write!(f, "the machine is compiled for other mechanisms: its {switch} differs")
            }
            BootError::LeftOut(feature) => write!(f, "the FEATURES of the machine or kernel leave out {feature}"),
            BootError::Interrupts => f.write_str(
                "pcp-protection=own-lists is for machines that keep interrupts apart, or have none; others take another protection",
            ),
            BootError::TooManyFrames { frames } => write!(f, "{frames} frames are more than 32-bit links can name"),
            BootError::TooManySlots { slots } => {
                write!(f, "{slots} entries of per-CPU lists are more than 32 bits can number")
            }
            BootError::TooShort { part, needed, given } => {
                write!(f, "the memory for {part} has room for {given} entries, {needed} are needed")
            }
        }
    }
}

impl core::error::Error for BootError {}

/// Tests the text of each error.
///
/// A new error does not compile before it has a row.
#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    /// A place for text that takes some writes, and refuses the next.
    struct Full {
        writes: usize,
        most: usize,
    }

    impl fmt::Write for Full {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            self.writes += 1;
            if self.writes > self.most { Err(fmt::Error) } else { Ok(()) }
        }
    }

    fn fails_with_each_write(text: &dyn fmt::Display) {
        let mut all = Full { writes: 0, most: usize::MAX };
        fmt::write(&mut all, format_args!("{text}")).unwrap();
        for most in 0..all.writes {
            let mut full = Full { writes: 0, most };
            assert!(fmt::write(&mut full, format_args!("{text}")).is_err(), "{text}: write {most} failed unnoticed");
            assert_eq!(full.writes, most + 1, "{text}: writes after the one that failed");
        }
    }

    const RANGE: PfnRange = PfnRange { start: Pfn(1), end: Pfn(9) };

    macro_rules! told {
        ($kind:ty: $($pattern:pat => $sample:expr, $text:expr;)+) => {{
            let _all = |error: $kind| match error { $($pattern => (),)+ };
            $({
                let sample: $kind = $sample;
                assert!(matches!(sample, $pattern), "{sample:?}");
                assert_eq!(sample.to_string(), $text);
                fails_with_each_write(&sample);
            })+
        }};
    }

    #[test]
    fn requests_that_are_not_served() {
        told!(AllocError:
            AllocError::BadOrder { .. } => AllocError::BadOrder { order: Order(11), max: Order(10) },
                "order 11 is above the largest, 10";
            AllocError::BadAlignment { .. } => AllocError::BadAlignment { align: Order(64), max: Order(51) },
                "an alignment of order 64 is above the largest, 51; order 6 aligns to 64 frames";
            AllocError::BadNode(_) => AllocError::BadNode(NodeId(7)), "there is no node 7";
            AllocError::BadFlags => AllocError::BadFlags, "the flags contradict each other";
            AllocError::BadRange(_) => AllocError::BadRange(PfnRange::new(9, 9)), "0x9..0x9 has no frames";
            AllocError::Misaligned(..) => AllocError::Misaligned(Pfn(7), Order(3)),
                "no block of order 3 can start at frame 0x7";
            AllocError::Foreign(_) => AllocError::Foreign(Pfn(7)), "frame 0x7 is not this allocator's memory";
            AllocError::OtherZone(_) => AllocError::OtherZone(Pfn(7)),
                "frame 0x7 is in another zone than the range's first";
            AllocError::Offline(_) => AllocError::Offline(Pfn(7)), "frame 0x7 is offline or reserved";
            AllocError::Quarantined(_) => AllocError::Quarantined(Pfn(7)), "frame 0x7 is in quarantine";
            AllocError::BadType(_) => AllocError::BadType(MigrateType::Isolate),
                "no pageblock is set to type Isolate by hand";
            AllocError::LeftOut(_) => AllocError::LeftOut(Feature::Mobility),
                "the FEATURES of the machine or kernel leave out mobility";
            AllocError::NoMemory { why: Why::Watermark, .. } => AllocError::no_memory(Why::Watermark),
                "out of memory: every allowed zone is at its watermark";
            AllocError::NoMemory { why: Why::Fragmented, .. } => AllocError::no_memory(Why::Fragmented),
                "out of memory: no free block is large enough";
            AllocError::NoMemory { why: Why::NoZone, .. } => AllocError::no_memory(Why::NoZone),
                "no zone with memory satisfies the request";
            AllocError::NoMemory { why: Why::WouldWait, .. } => AllocError::no_memory(Why::WouldWait),
                "out of memory for a request that must not wait";
            AllocError::NoMemory { why: Why::Fault, .. } => AllocError::no_memory(Why::Fault),
                "made to fail by a test";
            AllocError::NoMemory { why: Why::NoCpu, .. } => AllocError::no_memory(Why::NoCpu),
                NO_LISTS;
            AllocError::Busy { .. } => AllocError::Busy { pfn: Pfn(7) }, "frame 0x7 is in use and cannot be moved";
            AllocError::Contended { .. } => AllocError::Contended { pfn: Pfn(7) },
                "the pageblock of frame 0x7 is being emptied by other calls";
            AllocError::Locked => AllocError::Locked,
                "a zone that might have served it is locked, and the caller does not wait";
            AllocError::NotKept(_) => AllocError::NotKept(Order(3)),
                "blocks of order 3 are not served from any context";
            AllocError::InInterrupt => AllocError::InInterrupt, "a call that may wait was made in an interrupt";
        );
    }

    #[test]
    fn frees_that_are_refused() {
        told!(FreeError:
            FreeError::Foreign(_) => FreeError::Foreign(Pfn(7)), "frame 0x7 is not this allocator's memory";
            FreeError::Misaligned(..) => FreeError::Misaligned(Pfn(7), Order(3)),
                "no block of order 3 can start at frame 0x7";
            FreeError::BadOrder { .. } => FreeError::BadOrder { order: Order(11), max: Order(10) },
                "order 11 is above the largest, 10";
            FreeError::WrongOrder { .. } => FreeError::WrongOrder { pfn: Pfn(8), actual: Order(3) },
                "block 0x8 was allocated with order 3";
            FreeError::NotHead { .. } => FreeError::NotHead { pfn: Pfn(9), head: Pfn(8) },
                "frame 0x9 is inside the block that starts at 0x8";
            FreeError::AlreadyFree(_) => FreeError::AlreadyFree(Pfn(7)), "frame 0x7 is free already";
            FreeError::Offline(_) => FreeError::Offline(Pfn(7)), "frame 0x7 is offline or reserved";
            FreeError::Quarantined(_) => FreeError::Quarantined(Pfn(7)), "frame 0x7 is in quarantine";
            FreeError::BadRange(_) => FreeError::BadRange(RANGE), "0x1..0x9 is not a range of frames";
            FreeError::NoCpu => FreeError::NoCpu, NO_LISTS;
            FreeError::Busy(_) => FreeError::Busy(Pfn(7)), "too many free blocks of frame 0x7's zone at once";
        );
    }

    #[test]
    fn machines_that_cannot_be_set_up() {
        told!(BootError:
            BootError::BadGeometry => BootError::BadGeometry,
                "page size, largest order and pageblock order do not fit together";
            BootError::NoMemory => BootError::NoMemory,
                "the memory map has no usable frame, or all of them are reserved";
            BootError::BadCpus => BootError::BadCpus, "the number of CPUs must be 1 to 65535";
            BootError::NoCpu => BootError::NoCpu,
                "boot runs on a CPU that the configuration does not have, or in a context without lists";
            BootError::BadRegion(_) => BootError::BadRegion(3),
                "region 3 of the memory map is empty, begins before the end of the one before it, or ends above 2^52 frames; \
                 are these bytes, not frames?";
            BootError::BadReserved(_) => BootError::BadReserved(2),
                "reserved range 2 ends before it starts, or lies above all memory; are these bytes, not frames?";
            BootError::BadNode(_) => BootError::BadNode(NodeId(64)), "node 64 is above the largest, 63";
            BootError::BadDistances => BootError::BadDistances, "the distance table must have nodes x nodes entries";
            BootError::TooManyFrames { .. } => BootError::TooManyFrames { frames: 1 << 32 },
                "4294967296 frames are more than 32-bit links can name";
            BootError::TooManySlots { .. } => BootError::TooManySlots { slots: 1 << 32 },
                "4294967296 entries of per-CPU lists are more than 32 bits can number";
            BootError::TooManyCounters { .. } => BootError::TooManyCounters { of: "zone", given: 9, most: 8 },
                "9 counters of the embedder's are more than the 8 that a zone has room for";
            BootError::Mechanisms(_) => BootError::Mechanisms("two of them"),
                "these mechanisms do not go together: two of them";
            BootError::LeftOut(_) => BootError::LeftOut(Feature::Nodes), "the FEATURES of the machine or kernel leave out nodes";
            BootError::OtherMechanisms(_) => BootError::OtherMechanisms("depot"),
                "the machine is compiled for other mechanisms: its depot differs";
            BootError::Interrupts => BootError::Interrupts,
                "pcp-protection=own-lists is for machines that keep interrupts apart, or have none; others take another protection";
            BootError::TooShort { .. } => BootError::TooShort { part: "zones", needed: 4, given: 3 },
                "the memory for zones has room for 3 entries, 4 are needed";
        );
    }
}

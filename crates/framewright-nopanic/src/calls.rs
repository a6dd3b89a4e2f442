//! One kept function for every public operation of the core.
//!
//! `call! { fn name(argument: Type) -> Result { body } }` makes a function that the linker must keep, named
//! `framewright_call_name`. It reads its arguments from memory and writes the result back, so the compiler can assume
//! nothing about the first and drop nothing of the second. To cover a new operation, add a `call!` whose body
//! calls it; `ci/no_panic.sh` names the public functions that no body mentions.

use core::fmt::{self, Write};

use framewright::event::Event;
use framewright::machine::{Busy, Machine, Ordering, Patience, Pinned, Word};
use framewright::pfn::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::request::{Gfp, NodeSet, Policy, Request};

use crate::board::{Board, U64};

macro_rules! call {
    ($( fn $name:ident($( $argument:ident: $type:ty ),* $(,)?) -> $result:ty $body:block )*) => { $(
        #[unsafe(export_name = concat!("framewright_call_", stringify!($name)))]
        extern "C" fn $name(arguments: *const ($( $type, )*), result: *mut $result) {
            // SAFETY: whoever calls passes a valid tuple that is not used again, and room for the result.
            let ($( $argument, )*) = unsafe { arguments.read() };
            let value: $result = $body;
            // SAFETY: as above.
            unsafe { result.write(value) }
        }
    )* };
}

/// Text that goes nowhere the compiler could see.
pub struct Sink {
    write: extern "C" fn(*const u8, usize) -> bool,
}

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if (self.write)(text.as_ptr(), text.len()) { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(feature = "control")]
call! {
    fn control(table: &'static [u8], index: usize) -> u8 {
        table[index]
    }
}

// Units.
call! {
    fn pfn(pfn: Pfn, frames: u64, order: Order) -> (Pfn, bool) {
        (pfn.add(frames), pfn.is_aligned(order))
    }

    fn pfn_range(start: u64, end: u64, other: PfnRange, pfn: Pfn) -> (PfnRange, u64, bool, bool) {
        let range = PfnRange::new(start, end);
        (range.intersect(other), range.frames(), range.is_empty(), range.contains(pfn))
    }

    fn pfn_blocks(pfn: Pfn, order: Order, max_order: Order) -> u64 {
        PfnRange::block(pfn, order).blocks(max_order).fold(0, |sum, (pfn, order)| sum ^ pfn.0 ^ order.frames())
    }

    fn order(order: Order, last: Order) -> (u64, u64, Order, Order, usize, usize) {
        let (up, down) = (order.up(), order.down());
        (order.frames(), order.mask(), up, down, order.index(), order.up_to(last).rev().map(Order::index).sum())
    }

    fn node_and_cpu(node: NodeId, cpu: CpuId) -> (usize, usize) {
        (node.index(), cpu.index())
    }

    fn zone(node: NodeId, kind: ZoneKind) -> (ZoneIdx, NodeId, ZoneKind, usize, usize, &'static str) {
        let zone = ZoneIdx::of(node, kind);
        (zone, zone.node(), zone.kind(), zone.index(), kind.index(), kind.name())
    }

    fn migratetype(index: usize) -> Option<(usize, bool, &'static str)> {
        MigrateType::from_index(index).map(|mt| (mt.index(), mt.is_mergeable(), mt.name()))
    }
}

// Requests.
call! {
    fn gfp_parse(text: &'static str) -> Result<Gfp, &'static str> {
        Gfp::parse(text)
    }

    fn gfp(gfp: Gfp, other: Gfp) -> (bool, bool, bool, MigrateType, ZoneKind, Gfp) {
        let joined = (gfp | other) & !other;
        (gfp.contains(other), gfp.intersects(other), gfp.may_reclaim(), gfp.migratetype(), gfp.highest_zone(), joined)
    }

    fn node_set(set: NodeSet, node: NodeId, n: u32) -> (NodeSet, bool, u32, bool, Option<NodeId>) {
        let with = set.with(NodeSet::only(node));
        (with, set.contains(node), set.len(), set.is_empty(), set.nth_cyclic(n))
    }

    fn request(gfp: Gfp, order: u8, node: NodeId, policy: Policy, limit: Pfn) -> (Request, Request) {
        (Request::page(gfp).on(node), Request::new(gfp, order).with(policy).below(limit))
    }
}

// The seam: this machine itself must not be what panics.
call! {
    fn seam(board: &'static Board, word: &'static U64, value: u64, order: Ordering) -> Result<(u64, CpuId), Busy> {
        let pin = board.pin();
        let _irq = board.irq_save();
        word.store(word.load(order), order);
        let old = word.swap(value, order) ^ word.add(value, order) ^ word.cas(value, 0, order).unwrap_or(0);
        word.wait_while(Patience::Tries(9), |now| now != old).map(|now| (now, pin.cpu()))
    }
}

// Text. Widths and the alternative form are taken from outside too.
call! {
    fn display_units(sink: &'static mut Sink, pfn: Pfn, range: PfnRange, order: Order, width: u16) -> fmt::Result {
        let width = usize::from(width);
        write!(sink, "{pfn} {pfn:?} {range} {range:?} {order:>width$} {order:?}")
    }

    fn display_kinds(sink: &'static mut Sink, zone: ZoneIdx, mt: MigrateType, width: u16) -> fmt::Result {
        let (width, kind) = (usize::from(width), zone.kind());
        write!(sink, "{kind:>width$} {mt:<width$} {zone:?} {kind:?} {mt:?}")
    }

    fn display_request(sink: &'static mut Sink, request: Request) -> fmt::Result {
        write!(sink, "{} {request:?} {request:#?}", request.gfp)
    }

    fn display_event(sink: &'static mut Sink, event: Event) -> fmt::Result {
        write!(sink, "{} {event} {event:?}", event.name())
    }
}

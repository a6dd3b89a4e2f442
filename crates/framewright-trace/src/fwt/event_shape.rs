//! Shapes: events without their frames.
//!
//! A trace of a million events has a few dozen different combinations of kind, order, mobility and flags. A block's
//! dictionary stores each of them once, as the number of its kind and its fields.

use framewright::request::Gfp;
use framewright::units::{MigrateType, Order, Pfn};

use super::varint::VarintReader;
use crate::error::{CompactFault, FwtResult};
use crate::record::Kind;

const WHAT: &str = "the dictionary";

/// Splits an event into its shape, its frame and the frame that it was moved from.
///
/// In a shape, frame 0 stands for any frame.
pub(super) fn split(kind: Kind) -> (Kind, Option<u64>, Option<u64>) {
    let mut shape = kind;
    let (frame, source) = frames(&mut shape);
    let (frame, source) = (frame.map(|pfn| std::mem::take(pfn).0), source.map(|pfn| std::mem::take(pfn).0));
    (shape, frame, source)
}

/// The frames of a shape, to be filled in.
pub(super) fn frames(shape: &mut Kind) -> (Option<&mut Pfn>, Option<&mut Pfn>) {
    match shape {
        Kind::Alloc { pfn, .. } | Kind::AllocZoneLocked { pfn, .. } => (pfn.as_mut(), None),
        Kind::Free { pfn, .. }
        | Kind::FreeBatched { pfn }
        | Kind::ExtFrag { pfn, .. }
        | Kind::PcpuDrain { pfn, .. } => (Some(pfn), None),
        Kind::Move { old, new } => (Some(new), Some(old)),
        Kind::ReclaimBegin { .. } | Kind::ReclaimEnd { .. } => (None, None),
    }
}

/// The fields of a shape, as numbers.
pub(super) fn fields(shape: &Kind) -> Vec<u64> {
    let order = |order: Order| u64::from(order.0);
    let mobility = |migratetype: MigrateType| migratetype.index() as u64;
    match *shape {
        Kind::Alloc { pfn, order: o, migratetype, gfp } => {
            vec![pfn.is_some().into(), order(o), mobility(migratetype), gfp.0.into()]
        }
        Kind::Free { order: o, .. } => vec![order(o)],
        Kind::FreeBatched { .. } | Kind::Move { .. } => vec![],
        Kind::ExtFrag {
            alloc_order,
            fallback_order,
            pageblock_order,
            alloc_migratetype,
            fallback_migratetype,
            fragmenting,
            change_ownership,
            ..
        } => vec![
            order(alloc_order),
            order(fallback_order),
            order(pageblock_order),
            mobility(alloc_migratetype),
            mobility(fallback_migratetype),
            fragmenting.into(),
            change_ownership.into(),
        ],
        Kind::PcpuDrain { order: o, migratetype, .. } => vec![order(o), mobility(migratetype)],
        Kind::AllocZoneLocked { pfn, order: o, migratetype, percpu_refill } => {
            vec![pfn.is_some().into(), order(o), mobility(migratetype), percpu_refill.into()]
        }
        Kind::ReclaimBegin { order: o } => vec![order(o)],
        Kind::ReclaimEnd { reclaimed } => vec![reclaimed],
    }
}

/// Reads a kind's number and its [`fields`].
pub(super) fn read(input: &mut VarintReader<'_>) -> FwtResult<Kind> {
    Ok(match input.index(WHAT, Kind::COUNT)? {
        0 => Kind::Alloc {
            pfn: frame_if_there(input)?,
            order: order(input)?,
            migratetype: mobility(input)?,
            gfp: Gfp(u32::try_from(input.get(WHAT)?).map_err(|_| CompactFault::Value(WHAT))?),
        },
        1 => Kind::Free { pfn: Pfn(0), order: order(input)? },
        2 => Kind::FreeBatched { pfn: Pfn(0) },
        3 => Kind::Move { old: Pfn(0), new: Pfn(0) },
        4 => Kind::ExtFrag {
            pfn: Pfn(0),
            alloc_order: order(input)?,
            fallback_order: order(input)?,
            pageblock_order: order(input)?,
            alloc_migratetype: mobility(input)?,
            fallback_migratetype: mobility(input)?,
            fragmenting: flag(input)?,
            change_ownership: flag(input)?,
        },
        5 => Kind::PcpuDrain { pfn: Pfn(0), order: order(input)?, migratetype: mobility(input)? },
        6 => Kind::AllocZoneLocked {
            pfn: frame_if_there(input)?,
            order: order(input)?,
            migratetype: mobility(input)?,
            percpu_refill: flag(input)?,
        },
        7 => Kind::ReclaimBegin { order: order(input)? },
        _ => Kind::ReclaimEnd { reclaimed: input.get(WHAT)? },
    })
}

fn frame_if_there(input: &mut VarintReader<'_>) -> FwtResult<Option<Pfn>> {
    Ok(flag(input)?.then_some(Pfn(0)))
}

fn order(input: &mut VarintReader<'_>) -> FwtResult<Order> {
    // An index below 19, so the cast loses nothing.
    input.index(WHAT, Order::COUNT).map(|order| Order(order as u8))
}

fn mobility(input: &mut VarintReader<'_>) -> FwtResult<MigrateType> {
    let index = input.index(WHAT, MigrateType::COUNT)?;
    MigrateType::from_index(index).ok_or(CompactFault::Value(WHAT))
}

fn flag(input: &mut VarintReader<'_>) -> FwtResult<bool> {
    input.index(WHAT, 2).map(|flag| flag == 1)
}

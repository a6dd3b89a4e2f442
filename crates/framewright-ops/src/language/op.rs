//! One operation on an allocator, and its line of text.
//!
//! An [`Op`] names the blocks of earlier operations by a [`Handle`] (`a3`), never by an address of one run. So a list
//! of operations keeps its meaning when lines are removed: an operation on a handle that is not held does nothing.
//! Addresses appear where they matter: contiguous ranges, memory hotplug, and frees that are wrong on purpose
//! (`raw-free`). The [`Place`] of such a free is an address, or an offset from the first frame of a handle, held or
//! not.
//!
//! | line | calls |
//! |---|---|
//! | `a1 = alloc order 3 GFP_KERNEL on 1 below 0x400` | `alloc`, `alloc_pages`, or a handle's |
//! | `a2 = bulk 30 order 0 GFP_ATOMIC interleave 0,1` | `alloc_bulk` |
//! | `a3 = alloc-at 0x400 order 3 GFP_KERNEL` | `alloc_at` |
//! | `a4 = alloc-range 0x400..0x4ff GFP_KERNEL` | `alloc_range` |
//! | `a5 = alloc-contig 700 align 4 GFP_KERNEL bind 0` | `alloc_contig` |
//! | `a6 = alloc-nolock order 0 GFP_NOWAIT`, `free-nolock a6` | `alloc_nolock`, `free_nolock` of each block |
//! | `free a2` | `free` of one block, plain or by a handle; `free_bulk` of several alike, else `free_range` |
//! | `free-part a4 3 10` | `free_range` of 10 frames, 3 frames into the handle |
//! | `free-blocks a4 Movable 3 0 1` | `free_range` of blocks by order, no two of which merge; sets their type |
//! | `split a1 order 0` | `split` of each larger block |
//! | `raw-free a1+1 order 0`, `raw-free-range 0x10 4` | `free`, `free_range`, right or wrong |
//! | `raw-split a1 order 3 to 1` | `split`, right or wrong |
//! | `drain all`, `drain cpu 1`, `offline-cpu 1`, `online-cpu 1` | per-CPU lists |
//! | `run-on 1` | which CPU calls |
//! | `local on`, `local off` | `local`: `alloc` and frees of one block use it until `run-on` |
//! | `trace off`, `trace on` | whether the machine wants events: if so, frees never take the fast path |
//! | `refresh 1`, `numa-stat off`, `numa-stat on` | `refresh_statistics`, `set_numa_stat` |
//! | `count zone 0 Normal 3 by -5`, `count node 1 3 by 5` | `count_in_zone`, `count_in_node` |
//! | `take-offline 0x400..0x600`, `bring-online 0x400..0x600`, `add-memory 0x800..0xc00` | memory hotplug |
//! | `type 0x400 Reclaimable` | `set_pageblock_type` |
//! | `fault Refill 3` | this point fails the third time that it is reached from now on |
//! | `on-reclaim free 2`, `on-migrate move` | what the machine's callbacks do from now on |
//! | `expect Node 0, zone Normal, type Movable 0 0 1` | a check of a list |
//! | `validate` | a check of all invariants |
//! | `#! highatomic <= 1` | a check of a number (`assertion.rs`) |
//!
//! Printing and parsing are inverse to each other: `parse(print(op)) == op`. The parser is in `parse.rs`.

use std::fmt;

use framewright::machine::Fault;
use framewright::{CpuId, Gfp, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Request};

use crate::language::assertion::Assertion;
use crate::language::counter::Counter;
use crate::language::row::Row;

/// Name of the blocks that an operation got.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(pub u32);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

/// The place of a raw operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// This frame.
    At(Pfn),
    /// This many frames after the first frame that the handle got, whether or not it is still held.
    In(Handle, u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::At(pfn) => pfn.fmt(f),
            Place::In(handle, 0) => handle.fmt(f),
            Place::In(handle, skip) => write!(f, "{handle}+{skip}"),
        }
    }
}

/// A request without its order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Terms {
    /// Flags.
    pub gfp: Gfp,
    /// Node policy.
    pub policy: Policy,
    /// All frames must lie below this one.
    pub below: Option<Pfn>,
}

impl Terms {
    /// Makes terms of flags alone.
    pub const fn new(gfp: Gfp) -> Terms {
        Terms { gfp, policy: Policy::Local, below: None }
    }

    /// Returns the request of `order` on these terms.
    pub const fn request(self, order: Order) -> Request {
        Request { gfp: self.gfp, order, policy: self.policy, below: self.below }
    }
}

/// Nodes as `0,3`, `all` or `none`.
pub(crate) struct Nodes(pub(crate) NodeSet);

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            NodeSet::ALL => f.write_str("all"),
            NodeSet(0) => f.write_str("none"),
            nodes => {
                let mut separator = "";
                for node in (0..64).filter(|&node| nodes.contains(NodeId(node))) {
                    write!(f, "{separator}{node}")?;
                    separator = ",";
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gfp.fmt(f)?;
        match self.policy {
            Policy::Local => {}
            Policy::Prefer(node) => write!(f, " on {}", node.0)?,
            Policy::Bind(nodes) => write!(f, " bind {}", Nodes(nodes))?,
            Policy::Interleave(nodes) => write!(f, " interleave {}", Nodes(nodes))?,
        }
        match self.below {
            Some(limit) => write!(f, " below {limit}"),
            None => Ok(()),
        }
    }
}

/// What the reclaim callback does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnReclaim {
    /// Frees nothing and reports that.
    #[default]
    Fail,
    /// Frees nothing and reports success.
    Lie,
    /// Frees this many blocks, the oldest first.
    Free(u32),
    /// Allocates a block as the request does and one of the reserve, frees both, then frees the oldest block.
    Nest,
    /// Drains every CPU's lists and reports success.
    Drain,
}

/// What the migrate callback does with the block it is asked to move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnMigrate {
    /// Refuses.
    #[default]
    Fail,
    /// Leaves the block where it is, frees the place and reports success.
    Lie,
    /// Moves the block to the place and frees the old block.
    Move,
    /// Frees the block, which its owner no longer needs, and refuses.
    Free,
    /// Frees the block and the place, and reports success.
    Abandon,
    /// Allocates and frees a range, a block and a bulk, then moves.
    Nest,
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the fields are the operands of the table above")]
pub enum Op {
    /// Allocates a block.
    Alloc { name: Handle, order: Order, terms: Terms },
    /// Allocates a block as from any context.
    AllocNolock { name: Handle, order: Order, terms: Terms },
    /// Allocates many blocks.
    Bulk { name: Handle, count: u32, order: Order, terms: Terms },
    /// Allocates the block at a place.
    AllocAt { name: Handle, pfn: Pfn, order: Order, gfp: Gfp },
    /// Allocates the frames of a range.
    AllocRange { name: Handle, range: PfnRange, gfp: Gfp },
    /// Allocates contiguous frames anywhere.
    AllocContig { name: Handle, frames: u64, align: Order, terms: Terms },
    /// Frees all that a handle holds.
    Free(Handle),
    /// Frees all that a handle holds, as from any context.
    FreeNolock(Handle),
    /// Frees some frames of a handle, counted from its lowest, as far as they are contiguous.
    FreePart { handle: Handle, skip: u64, frames: u64 },
    /// Frees blocks of a handle's largest ones, by order, so that no two of them merge, in pageblocks of this type.
    FreeBlocks { handle: Handle, migratetype: MigrateType, blocks: Vec<u64> },
    /// Splits the blocks that a handle holds.
    Split { handle: Handle, to: Order },
    /// Frees a block that may not be one.
    RawFree { place: Place, order: Order },
    /// Frees frames that may not be allocated.
    RawFreeRange { place: Place, frames: u64 },
    /// Splits a block that may not be one.
    RawSplit { place: Place, from: Order, to: Order },
    /// Drains every CPU's lists.
    DrainAll,
    /// Drains one CPU's lists.
    DrainCpu(CpuId),
    /// A CPU goes offline.
    OfflineCpu(CpuId),
    /// A CPU comes online again.
    OnlineCpu(CpuId),
    /// A CPU adds its counts to the totals.
    Refresh(CpuId),
    /// A node's background reclaim runs once.
    Balance(NodeId),
    /// A node's background compaction runs once.
    Compact(NodeId),
    /// Counts in one of the embedder's counters.
    Count { counter: Counter, change: i64 },
    /// Switches the NUMA counters.
    NumaStat(bool),
    /// Makes calls from another CPU from now on.
    RunOn(CpuId),
    /// Holds a `Local` of the calling CPU from now on, or drops it.
    Local(bool),
    /// Switches the tracepoints.
    Trace(bool),
    /// Takes memory away.
    TakeOffline(PfnRange),
    /// Gives memory back.
    BringOnline(PfnRange),
    /// Adds memory that was not there at boot.
    AddMemory(PfnRange),
    /// Sets the type of the pageblock around a frame.
    SetType { pfn: Pfn, migratetype: MigrateType },
    /// Makes a point fail when it is reached the `hit`-th time from now on.
    Fault { point: Fault, hit: u64 },
    /// Sets the reclaim callback.
    OnReclaim(OnReclaim),
    /// Sets the migrate callback.
    OnMigrate(OnMigrate),
    /// Checks a row of free lists.
    Expect(Row),
    /// Checks a number.
    Assert(Assertion),
    /// Checks every invariant.
    Validate,
}

impl Op {
    /// Returns the handle that the operation defines.
    pub fn defines(&self) -> Option<Handle> {
        match *self {
            Op::Alloc { name, .. }
            | Op::AllocNolock { name, .. }
            | Op::Bulk { name, .. }
            | Op::AllocAt { name, .. }
            | Op::AllocRange { name, .. }
            | Op::AllocContig { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns the handle that the operation refers to.
    pub fn refers_to(&self) -> Option<Handle> {
        match *self {
            Op::Free(handle)
            | Op::FreeNolock(handle)
            | Op::FreePart { handle, .. }
            | Op::FreeBlocks { handle, .. }
            | Op::Split { handle, .. } => Some(handle),
            Op::RawFree { place, .. } | Op::RawFreeRange { place, .. } | Op::RawSplit { place, .. } => match place {
                Place::In(handle, _) => Some(handle),
                Place::At(_) => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for OnReclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnReclaim::Fail => f.write_str("fail"),
            OnReclaim::Lie => f.write_str("lie"),
            OnReclaim::Free(blocks) => write!(f, "free {blocks}"),
            OnReclaim::Nest => f.write_str("nest"),
            OnReclaim::Drain => f.write_str("drain"),
        }
    }
}

impl OnMigrate {
    /// Every choice by its name.
    pub(crate) const NAMES: [(&'static str, OnMigrate); 6] = [
        ("fail", OnMigrate::Fail),
        ("lie", OnMigrate::Lie),
        ("move", OnMigrate::Move),
        ("free", OnMigrate::Free),
        ("abandon", OnMigrate::Abandon),
        ("nest", OnMigrate::Nest),
    ];
}

impl fmt::Display for OnMigrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = OnMigrate::NAMES.iter().find(|(_, choice)| choice == self);
        f.write_str(name.map_or("fail", |(name, _)| name))
    }
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Alloc { name, order, terms } => write!(f, "{name} = alloc order {order} {terms}"),
            Op::AllocNolock { name, order, terms } => write!(f, "{name} = alloc-nolock order {order} {terms}"),
            Op::Bulk { name, count, order, terms } => write!(f, "{name} = bulk {count} order {order} {terms}"),
            Op::AllocAt { name, pfn, order, gfp } => write!(f, "{name} = alloc-at {pfn} order {order} {gfp}"),
            Op::AllocRange { name, range, gfp } => write!(f, "{name} = alloc-range {range} {gfp}"),
            Op::AllocContig { name, frames, align, terms } => {
                write!(f, "{name} = alloc-contig {frames} align {align} {terms}")
            }
            Op::Free(handle) => write!(f, "free {handle}"),
            Op::FreeNolock(handle) => write!(f, "free-nolock {handle}"),
            Op::FreePart { handle, skip, frames } => write!(f, "free-part {handle} {skip} {frames}"),
            Op::FreeBlocks { handle, migratetype, blocks } => {
                write!(f, "free-blocks {handle} {migratetype}")?;
                blocks.iter().try_for_each(|blocks| write!(f, " {blocks}"))
            }
            Op::Split { handle, to } => write!(f, "split {handle} order {to}"),
            Op::RawFree { place, order } => write!(f, "raw-free {place} order {order}"),
            Op::RawFreeRange { place, frames } => write!(f, "raw-free-range {place} {frames}"),
            Op::RawSplit { place, from, to } => write!(f, "raw-split {place} order {from} to {to}"),
            Op::DrainAll => f.write_str("drain all"),
            Op::DrainCpu(cpu) => write!(f, "drain cpu {}", cpu.0),
            Op::OfflineCpu(cpu) => write!(f, "offline-cpu {}", cpu.0),
            Op::OnlineCpu(cpu) => write!(f, "online-cpu {}", cpu.0),
            Op::Refresh(cpu) => write!(f, "refresh {}", cpu.0),
            Op::Balance(node) => write!(f, "balance {}", node.0),
            Op::Compact(node) => write!(f, "compact {}", node.0),
            Op::Count { counter, change } => write!(f, "count {counter} by {change}"),
            Op::NumaStat(on) => write!(f, "numa-stat {}", on_or_off(*on)),
            Op::RunOn(cpu) => write!(f, "run-on {}", cpu.0),
            Op::Local(on) => write!(f, "local {}", on_or_off(*on)),
            Op::Trace(on) => write!(f, "trace {}", on_or_off(*on)),
            Op::TakeOffline(range) => write!(f, "take-offline {range}"),
            Op::BringOnline(range) => write!(f, "bring-online {range}"),
            Op::AddMemory(range) => write!(f, "add-memory {range}"),
            Op::SetType { pfn, migratetype } => write!(f, "type {pfn} {migratetype}"),
            Op::Fault { point, hit } => write!(f, "fault {point:?} {hit}"),
            Op::OnReclaim(what) => write!(f, "on-reclaim {what}"),
            Op::OnMigrate(what) => write!(f, "on-migrate {what}"),
            Op::Expect(row) => write!(f, "expect {row}"),
            Op::Assert(assertion) => assertion.fmt(f),
            Op::Validate => f.write_str("validate"),
        }
    }
}

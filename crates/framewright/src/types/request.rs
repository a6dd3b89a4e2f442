//! What a caller may ask for, in Linux's words.
//!
//! [`Gfp`] holds the flags, with the bit numbers of Linux 6.1. A raw `gfp_flags=0x140cca` of a trace and the symbolic
//! form therefore read alike. [`Request`] adds the order, the node policy and an address limit.

use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign, Not};

use crate::types::migratetype::MigrateType;
use crate::types::units::{NodeId, Order, Pfn, ZoneKind};

/// Flags of a request (`gfp_t`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gfp(pub u32);

macro_rules! gfp {
    ($( $(#[$doc:meta])* $name:ident = $bits:expr; )*) => {
        $( $(#[$doc])* pub const $name: Gfp = Gfp($bits); )*

        /// Every name, composites of most bits first, so that printing uses the fewest names.
        const NAMES: &[(&str, Gfp)] = &[$( (stringify!($name), $name) ),*];
    };
}

gfp! {
    /// A huge page fault that may reclaim and compact.
    GFP_TRANSHUGE = GFP_TRANSHUGE_LIGHT.0 | __GFP_DIRECT_RECLAIM.0;
    /// A huge page fault that may not wait.
    GFP_TRANSHUGE_LIGHT = GFP_HIGHUSER_MOVABLE.0 & !__GFP_RECLAIM.0 | __GFP_COMP.0 | __GFP_NOMEMALLOC.0 | __GFP_NOWARN.0;
    /// Movable memory of a process.
    GFP_HIGHUSER_MOVABLE = GFP_HIGHUSER.0 | __GFP_MOVABLE.0;
    /// Memory of a process, from any zone.
    GFP_HIGHUSER = GFP_USER.0 | __GFP_HIGHMEM.0;
    /// Memory of a process that the kernel addresses too.
    GFP_USER = GFP_KERNEL.0 | __GFP_HARDWALL.0;
    /// Kernel memory charged to a control group.
    GFP_KERNEL_ACCOUNT = GFP_KERNEL.0 | __GFP_ACCOUNT.0;
    /// Ordinary kernel memory; may reclaim and sleep.
    GFP_KERNEL = __GFP_RECLAIM.0 | __GFP_IO.0 | __GFP_FS.0;
    /// May reclaim, but may not call a file system.
    GFP_NOFS = __GFP_RECLAIM.0 | __GFP_IO.0;
    /// May not wait; may use reserves.
    GFP_ATOMIC = __GFP_HIGH.0 | __GFP_ATOMIC.0 | __GFP_KSWAPD_RECLAIM.0;
    /// May reclaim, but may not start input or output.
    GFP_NOIO = __GFP_RECLAIM.0;
    /// May not wait; uses no reserves.
    GFP_NOWAIT = __GFP_KSWAPD_RECLAIM.0;
    /// Memory of `ZoneKind::Dma`.
    GFP_DMA = __GFP_DMA.0;
    /// Memory of `ZoneKind::Dma32` or below.
    GFP_DMA32 = __GFP_DMA32.0;
    /// Both kinds of reclaim.
    __GFP_RECLAIM = __GFP_DIRECT_RECLAIM.0 | __GFP_KSWAPD_RECLAIM.0;
    /// High memory. With `__GFP_MOVABLE` it allows zone Movable; alone it changes nothing on 64-bit machines.
    __GFP_HIGHMEM = 0x02;
    /// Memory of `ZoneKind::Dma`.
    __GFP_DMA = 0x01;
    /// Memory of `ZoneKind::Dma32`.
    __GFP_DMA32 = 0x04;
    /// The contents can move.
    __GFP_MOVABLE = 0x08;
    /// A shrinker can reclaim the contents.
    __GFP_RECLAIMABLE = 0x10;
    /// High priority: may go below the min watermark.
    __GFP_HIGH = 0x20;
    /// May start physical input and output.
    __GFP_IO = 0x40;
    /// May call into file systems.
    __GFP_FS = 0x80;
    /// The block's memory must be zeroed.
    __GFP_ZERO = 0x100;
    /// The caller cannot sleep and has high priority.
    __GFP_ATOMIC = 0x200;
    /// The caller may reclaim.
    __GFP_DIRECT_RECLAIM = 0x400;
    /// Background reclaim may be woken up.
    __GFP_KSWAPD_RECLAIM = 0x800;
    /// The caller will dirty the page.
    __GFP_WRITE = 0x1000;
    /// A failure needs no message.
    __GFP_NOWARN = 0x2000;
    /// Try hard, but fail in the end: up to 16 rounds of reclaim, also above order 3, while each frees something.
    __GFP_RETRY_MAYFAIL = 0x4000;
    /// The caller cannot handle a failure: waits until there is memory, if the machine can sleep. Others still fail.
    __GFP_NOFAIL = 0x8000;
    /// Give up early: one round of reclaim. That is the rule above order 3 without any of these flags.
    __GFP_NORETRY = 0x1_0000;
    /// May use all reserves: the caller is about to free memory.
    __GFP_MEMALLOC = 0x2_0000;
    /// The block is one compound page.
    __GFP_COMP = 0x4_0000;
    /// Uses no reserves, whatever the other flags say.
    __GFP_NOMEMALLOC = 0x8_0000;
    /// Only memory that the caller's memory policy allows.
    __GFP_HARDWALL = 0x10_0000;
    /// Only memory of the preferred node.
    __GFP_THISNODE = 0x20_0000;
    /// Charged to the caller's control group.
    __GFP_ACCOUNT = 0x40_0000;
    /// Memory tags are zeroed too.
    __GFP_ZEROTAGS = 0x80_0000;
}

impl Gfp {
    /// No flag.
    pub const NONE: Gfp = Gfp(0);

    /// Returns whether every flag of `flags` is set.
    pub const fn contains(self, flags: Gfp) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns whether any flag of `flags` is set.
    pub const fn intersects(self, flags: Gfp) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns the mobility that the flags ask for.
    ///
    /// Movable and reclaimable together are an error. Linux resolves it to a type that requests cannot have; here the
    /// result is unmovable.
    pub const fn migratetype(self) -> MigrateType {
        match (self.intersects(__GFP_MOVABLE), self.intersects(__GFP_RECLAIMABLE)) {
            (true, false) => MigrateType::Movable,
            (false, true) => MigrateType::Reclaimable,
            _ => MigrateType::Unmovable,
        }
    }

    /// Returns the highest zone that the flags allow.
    pub const fn highest_zone(self) -> ZoneKind {
        if self.intersects(__GFP_DMA) {
            ZoneKind::Dma
        } else if self.intersects(__GFP_DMA32) {
            ZoneKind::Dma32
        } else if self.contains(Gfp(__GFP_MOVABLE.0 | __GFP_HIGHMEM.0)) {
            ZoneKind::Movable
        } else {
            ZoneKind::Normal
        }
    }

    /// Returns whether the caller may wait and reclaim.
    pub const fn may_reclaim(self) -> bool {
        self.intersects(__GFP_DIRECT_RECLAIM)
    }

    /// Parses flags as a trace prints them.
    ///
    /// Examples: `GFP_KERNEL|__GFP_ZERO`, `0x140cca`, `none`, or a mix such as `GFP_NOFS|0x800000`. Names of other
    /// kernel versions are understood; a name without a counterpart in Linux 6.1 counts as no flag.
    ///
    /// # Errors
    /// The first part that is not a flag.
    pub fn parse(text: &str) -> Result<Gfp, &str> {
        let mut gfp = Gfp::NONE;
        for part in text.split('|') {
            gfp |= Gfp::parse_one(part.trim()).ok_or(part)?;
        }
        Ok(gfp)
    }

    fn parse_one(part: &str) -> Option<Gfp> {
        if let Some(&(_, gfp)) = NAMES.iter().find(|(name, _)| *name == part) {
            return Some(gfp);
        }
        if let Some(hex) = part.strip_prefix("0x") {
            return u32::from_str_radix(hex, 16).ok().map(Gfp);
        }
        match part {
            "none" | "0" => Some(Gfp::NONE),
            "GFP_TEMPORARY" => Some(GFP_KERNEL | __GFP_RECLAIMABLE),
            "__GFP_WAIT" => Some(__GFP_RECLAIM),
            "__GFP_REPEAT" => Some(__GFP_RETRY_MAYFAIL),
            "__GFP_COLD" | "__GFP_NO_KSWAPD" | "__GFP_NOACCOUNT" | "__GFP_KMEMCG" | "__GFP_NOTRACK"
            | "__GFP_OTHER_NODE" | "__GFP_NOLOCKDEP" | "__GFP_NO_OBJ_EXT" => Some(Gfp::NONE),
            "__GFP_SKIP_KASAN" | "__GFP_SKIP_KASAN_UNPOISON" | "__GFP_SKIP_KASAN_POISON" | "__GFP_SKIP_ZERO" => {
                Some(Gfp::NONE)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Gfp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Gfp::NONE {
            return f.write_str("none");
        }
        let mut rest = *self;
        let mut separator = "";
        for &(name, flags) in NAMES {
            if rest.contains(flags) {
                write!(f, "{separator}{name}")?;
                rest = rest & !flags;
                separator = "|";
            }
        }
        if rest == Gfp::NONE { Ok(()) } else { write!(f, "{separator}{:#x}", rest.0) }
    }
}

impl fmt::Debug for Gfp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl BitOr for Gfp {
    type Output = Gfp;
    fn bitor(self, other: Gfp) -> Gfp {
        Gfp(self.0 | other.0)
    }
}

impl BitOrAssign for Gfp {
    fn bitor_assign(&mut self, other: Gfp) {
        self.0 |= other.0;
    }
}

impl BitAnd for Gfp {
    type Output = Gfp;
    fn bitand(self, other: Gfp) -> Gfp {
        Gfp(self.0 & other.0)
    }
}

impl Not for Gfp {
    type Output = Gfp;
    fn not(self) -> Gfp {
        Gfp(!self.0)
    }
}

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct NodeSet(pub u64);

impl NodeSet {
    /// Every node.
    pub const ALL: NodeSet = NodeSet(u64::MAX);

    /// Returns the set of `node` alone; empty if the number is above the largest node.
    pub const fn only(node: NodeId) -> NodeSet {
        NodeSet(if node.0 < 64 { 1 << node.0 } else { 0 })
    }

    /// Returns whether `node` is in the set.
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 & NodeSet::only(node).0 != 0
    }

    /// Returns the number of nodes in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns whether the set has no node.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the set of the first `count` nodes.
    pub const fn first(count: usize) -> NodeSet {
        NodeSet(if count < 64 { (1 << count) - 1 } else { u64::MAX })
    }

    /// Returns the nodes that are in both sets.
    pub const fn only_with(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & other.0)
    }

    /// Returns the nodes that are in either set.
    pub const fn with(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 | other.0)
    }

    /// Returns the `n`-th node of the set, counted cyclically; `None` if the set is empty.
    pub fn nth_cyclic(self, n: u32) -> Option<NodeId> {
        let skip = n.checked_rem(self.len())?;
        let mut rest = self.0;
        for _ in 0..skip {
            rest &= rest.wrapping_sub(1);
        }
        Some(NodeId(rest.trailing_zeros() as u8))
    }
}

/// Nodes that may serve a request, and their order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Policy {
    /// The node of the running CPU first, then the others by distance.
    #[default]
    Local,
    /// This node first, then the others by distance.
    Prefer(NodeId),
    /// Only these nodes, the nearest to the running CPU first.
    Bind(NodeSet),
    /// These nodes in turn, for an even spread.
    ///
    /// If the node that is next has no memory, another node of the set serves the request.
    Interleave(NodeSet),
}

/// One request for memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// Flags of the request.
    pub gfp: Gfp,
    /// Binary logarithm of the number of frames.
    pub order: Order,
    /// Node policy of the request.
    pub policy: Policy,
    /// All frames of the block must lie below this one.
    pub below: Option<Pfn>,
}

impl Request {
    /// Whether the request has wishes that a per-CPU list does not know: a policy, or a limit of addresses.
    #[inline(always)]
    pub(crate) const fn is_special(&self) -> bool {
        !matches!(self.policy, Policy::Local) || self.below.is_some()
    }

    /// Returns a request for `1 << order` frames with `gfp`.
    pub const fn new(gfp: Gfp, order: u8) -> Request {
        Request { gfp, order: Order(order), policy: Policy::Local, below: None }
    }

    /// Returns a request for one frame with `gfp`.
    pub const fn page(gfp: Gfp) -> Request {
        Request::new(gfp, 0)
    }

    /// Returns a copy that asks `node` first; with `__GFP_THISNODE`, only `node`.
    pub const fn on(self, node: NodeId) -> Request {
        Request { policy: Policy::Prefer(node), ..self }
    }

    /// Returns a copy with this node policy.
    pub const fn with(self, policy: Policy) -> Request {
        Request { policy, ..self }
    }

    /// Returns a copy that accepts only frames below `limit`.
    pub const fn below(self, limit: Pfn) -> Request {
        Request { below: Some(limit), ..self }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn flags_print_as_linux_prints_them() {
        for text in [
            "GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO",
            "GFP_TRANSHUGE|__GFP_NORETRY|__GFP_THISNODE",
            "GFP_NOFS|__GFP_HIGHMEM|__GFP_COMP|__GFP_HARDWALL|__GFP_MOVABLE|__GFP_WRITE",
            "GFP_KERNEL_ACCOUNT|__GFP_ZERO",
            "GFP_ATOMIC|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_NOMEMALLOC",
            "GFP_NOWAIT|__GFP_IO|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP",
            "none",
        ] {
            let gfp = Gfp::parse(text).unwrap();
            assert_eq!(Gfp::parse(&gfp.to_string()), Ok(gfp), "{text}");
        }
        assert_eq!(Gfp::parse("0x140cca"), Gfp::parse("GFP_HIGHUSER_MOVABLE|__GFP_COMP"));
        assert_eq!(GFP_TRANSHUGE.to_string(), "GFP_TRANSHUGE");
        assert_eq!(Gfp(0x8000_0000).to_string(), "0x80000000");
        assert_eq!(Gfp::parse("GFP_KERNEL|oops"), Err("oops"));
    }

    #[test]
    fn flags_choose_type_and_zone() {
        assert_eq!(GFP_HIGHUSER_MOVABLE.migratetype(), MigrateType::Movable);
        assert_eq!(GFP_HIGHUSER_MOVABLE.highest_zone(), ZoneKind::Movable);
        assert_eq!(GFP_KERNEL.migratetype(), MigrateType::Unmovable);
        assert_eq!(GFP_KERNEL.highest_zone(), ZoneKind::Normal);
        assert_eq!((GFP_KERNEL | __GFP_RECLAIMABLE).migratetype(), MigrateType::Reclaimable);
        assert_eq!((GFP_KERNEL | GFP_DMA32).highest_zone(), ZoneKind::Dma32);
        assert_eq!((GFP_KERNEL | GFP_DMA).highest_zone(), ZoneKind::Dma);
    }

    #[test]
    fn names_of_other_releases_parse() {
        for (text, gfp) in [
            ("none", Gfp::NONE),
            ("0", Gfp::NONE),
            ("GFP_TEMPORARY", GFP_KERNEL | __GFP_RECLAIMABLE),
            ("GFP_KERNEL|__GFP_COLD", GFP_KERNEL),
            ("__GFP_WAIT", __GFP_RECLAIM),
            ("__GFP_REPEAT", __GFP_RETRY_MAYFAIL),
            ("__GFP_SKIP_ZERO", Gfp::NONE),
        ] {
            assert_eq!(Gfp::parse(text), Ok(gfp), "{text}");
        }
    }

    #[test]
    fn the_first_nodes_are_a_set() {
        for (count, set) in [(0, 0), (1, 1), (2, 3), (63, u64::MAX >> 1), (64, u64::MAX), (1_000, u64::MAX)] {
            assert_eq!(NodeSet::first(count), NodeSet(set), "{count}");
            assert_eq!(NodeSet::first(count).is_empty(), count == 0);
        }
    }

    #[test]
    fn node_sets_turn_round() {
        let set = NodeSet(0b1011);
        let turn: std::vec::Vec<_> = (0..5).filter_map(|n| set.nth_cyclic(n)).collect();
        assert_eq!(turn, [NodeId(0), NodeId(1), NodeId(3), NodeId(0), NodeId(1)]);
        assert_eq!(NodeSet(0).nth_cyclic(3), None);
        assert!(!NodeSet::only(NodeId(200)).contains(NodeId(200)));
    }
}

//! Pageblocks: the unit in which mobilities are kept apart.
//!
//! A pageblock is `1 << pageblock_order` frames (2 MiB on x86-64). Its word holds its zone, and the type under which
//! its free blocks are grouped.
//!
//! **Every free block is on the list of its pageblock's type.** A free block that covers several pageblocks has one
//! type, and so have they.
//!
//! The zone is fixed at boot. Where a node begins inside a pageblock, the pageblock belongs to the first node; the
//! other node's frames in it are treated as a hole.
//!
//! An isolated pageblock remembers its former type, and the number of ranges that keep it isolated. Two callers may
//! take disjoint ranges in one pageblock (`contig_range.rs`). The type is restored when the last of them is done.

use crate::types::migratetype::MigrateType;
use crate::types::units::ZoneIdx;

/// Word of one pageblock.
///
/// | bits | content |
/// |---|---|
/// | 0-3 | type |
/// | 4-7 | type before isolation |
/// | 8-15 | zone |
/// | 16 | has memory |
/// | 17 | its section is uninitialised (`zone/section_init.rs`) |
/// | 20-21 | per-CPU lists that its blocks are freed to: the type's number + 1, or 0 for none |
/// | 22-31 | number of ranges that keep it isolated |
///
/// Bits 20-21 follow from the type. They are stored so that a free need not compute them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pageblock(pub(crate) u32);

impl Pageblock {
    /// A pageblock without memory; zeroed descriptors have this value.
    pub(crate) const HOLE: Pageblock = Pageblock(0);
    const PRESENT: u32 = 1 << 16;
    const UNINIT: u32 = 1 << 17;

    const LISTS: u32 = 20;
    const HOLDER: u32 = 1 << 22;
    /// Bits that a change of type writes.
    const BY_TYPE: u32 = 3 << Pageblock::LISTS | 0xff;

    #[inline]
    pub(crate) const fn new(zone: ZoneIdx, migratetype: MigrateType) -> Pageblock {
        Pageblock(Pageblock::PRESENT | (zone.0 as u32) << 8).with(migratetype)
    }

    /// Returns a pageblock of memory that may be added to `zone`; its section is uninitialised.
    pub(crate) const fn absent(zone: ZoneIdx) -> Pageblock {
        let present = Pageblock::new(zone, MigrateType::Movable).with_uninit(true);
        Pageblock(present.0 & !Pageblock::PRESENT)
    }

    /// Returns whether there is no memory yet, but may be added.
    pub(crate) const fn is_absent(self) -> bool {
        self.0 & (Pageblock::PRESENT | Pageblock::UNINIT) == Pageblock::UNINIT
    }

    /// Returns the pageblock with memory.
    pub(crate) const fn added(self) -> Pageblock {
        Pageblock(self.0 | Pageblock::PRESENT)
    }

    /// Returns the per-CPU lists that blocks are freed to: those of the type.
    ///
    /// `None` for an isolated pageblock or a hole.
    pub(crate) const fn lists(self) -> Option<usize> {
        ((self.0 >> Pageblock::LISTS & 3) as usize).checked_sub(1)
    }

    /// Returns the index of the zone; arbitrary for a hole.
    pub(crate) const fn zone_index(self) -> usize {
        (self.0 >> 8) as usize & 0xff
    }

    /// Returns the zone; `None` for a hole.
    pub(crate) const fn zone(self) -> Option<ZoneIdx> {
        if self.0 & Pageblock::PRESENT != 0 { Some(ZoneIdx((self.0 >> 8) as u16 & 0xff)) } else { None }
    }

    pub(crate) const fn migratetype(self) -> MigrateType {
        match MigrateType::from_index(self.0 as usize & 0xf) {
            Some(migratetype) => migratetype,
            None => MigrateType::Isolate,
        }
    }

    /// Returns the type that an isolated pageblock is restored to; otherwise its type.
    pub(crate) const fn restored(self) -> MigrateType {
        match MigrateType::from_index((self.0 >> 4) as usize & 0xf) {
            Some(migratetype) => migratetype,
            None => MigrateType::Movable,
        }
    }

    /// Returns the pageblock with another type; isolation saves the old type.
    pub(crate) const fn with(self, migratetype: MigrateType) -> Pageblock {
        let saved = match migratetype {
            MigrateType::Isolate => self.restored(),
            other => other,
        };
        let lists = match migratetype.pcp_index() {
            Some(index) => index as u32 + 1,
            None => 0,
        };
        Pageblock(self.0 & !Pageblock::BY_TYPE | lists << Pageblock::LISTS | (saved as u32) << 4 | migratetype as u32)
    }

    /// Returns the number of ranges that keep it isolated.
    pub(crate) const fn holders(self) -> u32 {
        self.0 / Pageblock::HOLDER
    }

    /// Returns the pageblock, kept isolated by one more range.
    ///
    /// `None` if the count is at its maximum.
    pub(crate) fn held(self) -> Option<Pageblock> {
        self.0.checked_add(Pageblock::HOLDER).map(Pageblock)
    }

    /// Returns the pageblock, kept isolated by one range fewer.
    pub(crate) const fn released(self) -> Pageblock {
        if self.holders() == 0 { self } else { Pageblock(self.0.wrapping_sub(Pageblock::HOLDER)) }
    }

    /// Returns the pageblock, kept isolated by no range.
    pub(crate) const fn abandoned(self) -> Pageblock {
        Pageblock(self.0 & Pageblock::HOLDER.wrapping_sub(1))
    }

    /// Returns the isolated pageblock with another type to restore.
    pub(crate) const fn restoring(self, migratetype: MigrateType) -> Pageblock {
        Pageblock(self.0 & !0xf0 | (migratetype as u32) << 4)
    }

    /// Returns whether the section of the pageblock is uninitialised.
    #[inline]
    pub(crate) const fn is_uninit(self) -> bool {
        self.0 & Pageblock::UNINIT != 0
    }

    /// Returns the pageblock with its section marked as uninitialised, or not.
    pub(crate) const fn with_uninit(self, uninit: bool) -> Pageblock {
        Pageblock(if uninit { self.0 | Pageblock::UNINIT } else { self.0 & !Pageblock::UNINIT })
    }

    /// Returns whether both belong to one zone.
    pub(crate) const fn same_zone(self, other: Pageblock) -> bool {
        (self.0 ^ other.0) >> 8 & 0x1ff == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_is_undone() {
        let block = Pageblock::new(ZoneIdx(6), MigrateType::Cma);
        let isolated = block.with(MigrateType::Isolate).with(MigrateType::Isolate);
        assert_eq!((isolated.migratetype(), isolated.restored()), (MigrateType::Isolate, MigrateType::Cma));
        assert_eq!(isolated.with(isolated.restored()), block);
        assert_eq!(isolated.zone(), Some(ZoneIdx(6)));
        assert_eq!((block.lists(), isolated.lists(), Pageblock::HOLE.lists()), (Some(1), None, None));
        assert_eq!((block.zone_index(), Pageblock::HOLE.zone()), (6, None));
        assert!(!block.same_zone(Pageblock::new(ZoneIdx(7), MigrateType::Cma)));
        assert_eq!(isolated.restoring(MigrateType::Movable).restored(), MigrateType::Movable);
        let uninit = block.with_uninit(true);
        assert!(uninit.is_uninit() && uninit.same_zone(block) && uninit.with(MigrateType::Movable).is_uninit());
        assert_eq!((uninit.with_uninit(false), uninit.lists()), (block, block.lists()));
        let absent = Pageblock::absent(ZoneIdx(6));
        assert!(
            absent.is_absent() && !absent.added().is_absent() && !uninit.is_absent() && !Pageblock::HOLE.is_absent()
        );
        assert_eq!((absent.zone(), absent.zone_index(), absent.added().zone()), (None, 6, Some(ZoneIdx(6))));
        assert_eq!(absent.added(), Pageblock::new(ZoneIdx(6), MigrateType::Movable).with_uninit(true));
    }

    #[test]
    fn holders_are_counted_beside_everything_else() {
        let block = Pageblock::new(ZoneIdx(255), MigrateType::HighAtomic).with(MigrateType::Isolate);
        let mut held = block;
        for count in 1..=1_023 {
            held = held.held().unwrap();
            assert_eq!((held.holders(), held.migratetype()), (count, MigrateType::Isolate));
            assert_eq!((held.zone(), held.restored()), (Some(ZoneIdx(255)), MigrateType::HighAtomic));
        }
        assert_eq!(held.held(), None);
        assert_eq!((held.released().holders(), held.abandoned(), block.released()), (1_022, block, block));
    }
}

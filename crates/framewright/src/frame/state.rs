//! State word of a block that is neither allocated nor on a per-CPU list, as pure transitions.

use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, Order};

/// State word of a block that is free, offline or quarantined; `frame.rs` documents its array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State(pub(crate) u64);

/// Kinds of a [`State`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No free block starts here.
    Out,
    /// A free block starts here; it is on its list.
    Free,
    /// A withheld block starts here: it was reserved at boot, or taken offline.
    Offline,
    /// A block starts here that was quarantined because its descriptors were damaged.
    Quarantined,
}

// Bits: 0-1 kind, 2-6 order, 7-9 migratetype, 10-14 check, 15 merge skipped, 16-31 owner, 32-62 generation,
// 63 reported.
//
// Each bit of kind, order and type is in exactly one bit of the check, so that any single flipped bit of these is
// detected. A word with a wrong check counts as quarantined: no code takes it for a free block. A flipped bit 15 costs
// one check or one merge, a flipped bit 63 one report.
impl State {
    const ORDER: u32 = 2;
    const TYPE: u32 = 7;
    const CHECK: u32 = 10;
    const SKIPPED: u64 = 1 << 15;
    const OWNER: u32 = 16;
    const GENERATION: u32 = 32;
    const REPORTED: u64 = 1 << 63;
    const LOW: u64 = 0xffff;

    const fn check(kind: u64, order: u64, migratetype: u64) -> u64 {
        order ^ migratetype ^ kind << 3
    }

    const fn is_sound(self) -> bool {
        let (kind, order, migratetype) = (self.0 & 3, self.0 >> State::ORDER & 0x1f, self.0 >> State::TYPE & 7);
        self.0 >> State::CHECK & 0x1f == State::check(kind, order, migratetype)
    }

    pub(crate) const fn kind(self) -> Kind {
        match self.0 & 3 {
            _ if !self.is_sound() => Kind::Quarantined,
            0 => Kind::Out,
            1 => Kind::Free,
            2 => Kind::Offline,
            _ => Kind::Quarantined,
        }
    }

    /// Returns the block's order; 0 if the check is wrong.
    pub(crate) const fn order(self) -> Order {
        if self.is_sound() { Order((self.0 >> State::ORDER) as u8 & 0x1f) } else { Order(0) }
    }

    pub(crate) const fn migratetype(self) -> MigrateType {
        match MigrateType::from_index((self.0 >> State::TYPE) as usize & 7) {
            Some(migratetype) => migratetype,
            None => MigrateType::Isolate,
        }
    }

    /// Returns whether a free block of exactly this order and type starts here.
    pub(crate) const fn is_free_of(self, order: Order, migratetype: MigrateType) -> bool {
        self.0 & State::LOW & !State::SKIPPED == State(0).with(1, order, migratetype).0
    }

    /// Returns whether a free block of exactly this order starts here, of any type.
    ///
    /// Only used as a hint: it ignores the check bits.
    pub(crate) const fn is_free_as_large(self, order: Order) -> bool {
        self.0 & 0x7f == 1 | (order.0 as u64) << State::ORDER
    }

    /// Returns the order and type, if a free block starts here.
    #[inline]
    pub(crate) fn as_free(self) -> Option<(Order, MigrateType)> {
        (self.kind() == Kind::Free).then(|| (self.order(), self.migratetype()))
    }

    pub(crate) const fn generation(self) -> u32 {
        ((self.0 & !State::REPORTED) >> State::GENERATION) as u32
    }

    const fn with(self, kind: u64, order: Order, migratetype: MigrateType) -> State {
        let (order, migratetype) = (order.0 as u64 & 0x1f, migratetype as u64);
        let check = State::check(kind, order, migratetype);
        let low = kind | order << State::ORDER | migratetype << State::TYPE | check << State::CHECK;
        State(self.0 & !State::LOW | low)
    }

    /// Out → free.
    pub(crate) fn free(self, order: Order, migratetype: MigrateType) -> Option<State> {
        let is_out = self.0 & State::LOW & !State::SKIPPED == 0;
        is_out.then(|| self.with(1, order, migratetype))
    }

    /// Free → out, with a new generation and the CPU that took it.
    #[inline]
    pub(crate) fn take(self, order: Order, cpu: CpuId) -> Option<State> {
        let (actual, _) = self.as_free()?;
        (actual == order).then_some(self.taken(cpu))
    }

    /// Like [`State::take`], for a block that is known to be free.
    pub(crate) const fn taken(self, cpu: CpuId) -> State {
        let generation = (self.generation().wrapping_add(1) as u64) << State::GENERATION & !State::REPORTED;
        State(generation | (cpu.0 as u64) << State::OWNER)
    }

    /// Free → free on another list.
    pub(crate) fn retype(self, migratetype: MigrateType) -> Option<State> {
        let (order, _) = self.as_free()?;
        Some(State(self.with(1, order, migratetype).0 | self.0 & State::SKIPPED))
    }

    /// Returns the state with the mark that the block was not checked for merging.
    pub(crate) const fn skipped(self) -> State {
        State(self.0 | State::SKIPPED)
    }

    /// Returns whether the block has that mark.
    pub(crate) const fn is_skipped(self) -> bool {
        self.0 & State::SKIPPED != 0
    }

    /// Returns the state with the mark that the block was reported.
    pub(crate) const fn reported(self) -> State {
        State(self.0 | State::REPORTED)
    }

    /// Returns whether the block has that mark.
    pub(crate) const fn is_reported(self) -> bool {
        self.0 & State::REPORTED != 0
    }

    /// Out → offline.
    pub(crate) fn retire(self, order: Order) -> Option<State> {
        (self.kind() == Kind::Out).then(|| self.with(2, order, MigrateType::Unmovable))
    }

    /// Any → quarantined: the previous value is not trusted.
    pub(crate) const fn quarantine(self, order: Order) -> State {
        self.with(3, order, MigrateType::Unmovable)
    }

    /// Offline → out.
    pub(crate) fn revive(self) -> Option<State> {
        (self.kind() == Kind::Offline).then_some(State(self.0 & !State::LOW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_apply_only_where_they_should() {
        let out = State(7 << 32);
        let free = out.free(Order(3), MigrateType::Movable).unwrap();
        assert_eq!(free.as_free(), Some((Order(3), MigrateType::Movable)));
        assert_eq!(free.free(Order(3), MigrateType::Movable), None, "a free block is not freed again");
        assert_eq!(free.take(Order(2), CpuId(1)), None, "a block is taken whole");
        let taken = free.take(Order(3), CpuId(9)).unwrap();
        assert_eq!((taken.kind(), taken.generation()), (Kind::Out, 8));
        assert_eq!(free.retype(MigrateType::Cma).unwrap().as_free(), Some((Order(3), MigrateType::Cma)));
        let offline = out.retire(Order(5)).unwrap();
        assert_eq!((offline.kind(), offline.order()), (Kind::Offline, Order(5)));
        assert_eq!(offline.free(Order(5), MigrateType::Movable), None);
        assert_eq!(offline.revive().unwrap().kind(), Kind::Out);
        assert_eq!(State(u64::MAX).take(Order(31), CpuId(0)), None);
        let skipped = free.skipped();
        assert_eq!((skipped.as_free(), skipped.is_skipped()), (free.as_free(), true));
        assert!(skipped.retype(MigrateType::Cma).unwrap().is_skipped() && !taken.is_skipped());
        let reported = free.reported();
        assert_eq!((reported.as_free(), reported.generation()), (free.as_free(), free.generation()));
        assert!(reported.is_free_of(Order(3), MigrateType::Movable) && reported.is_reported() && !free.is_reported());
        assert!(reported.retype(MigrateType::Cma).unwrap().is_reported(), "another list changes no contents");
        let last = State(u64::MAX << 33 & !State::REPORTED | 1 << 32).free(Order(3), MigrateType::Movable).unwrap();
        for state in [reported, last, last.reported()] {
            assert!(!state.take(Order(3), CpuId(9)).unwrap().is_reported(), "{state:?}");
        }
        for bit in 0..15 {
            let flipped = State(free.0 ^ 1 << bit);
            assert_eq!(
                (flipped.kind(), flipped.order(), flipped.as_free()),
                (Kind::Quarantined, Order(0), None),
                "{bit}"
            );
            assert_ne!(State(out.0 ^ 1 << bit).kind(), Kind::Free, "{bit}");
        }
    }
}

//! Watermark boost: memory is freed ahead of the next request that would mix mobilities.
//!
//! A request that takes less than a pageblock from the lists of another type leaves a pageblock with pages of both. It did so because its own
//! lists were empty, and the next request will find them so, too. So the zone's marks rise at that moment, by a pageblock each time,
//! and background reclaim is woken to free as much (`kswapd.rs`). Then the marks come down again, and background compaction is woken: what was
//! freed is scattered. Linux has this since 5.0; the rules are in `watermark.rs`.
//!
//! The marks change under the zone lock. Nobody is woken under it: whoever was served notes that, and wakes when the lock is free.

use crate::policy::watermark::{Mark, boost_cap};
use crate::seam::machine::{Machine, Ordering, Waiter, Word};
use crate::shared::Ground;
use crate::stat::vmstat::GlobalEvent;
use crate::zone::zone::{Zone, ZoneGuard};
use crate::zonelist::world::World;

impl<M: Machine> Zone<M> {
    /// The highest boost that its marks allow, in frames.
    pub(crate) fn most_boost(&self, ground: &Ground<'_, M>) -> u64 {
        let (factor, high) = (ground.mechanisms.watermark_boost.get(), self.stat.mark_unboosted(Mark::High));
        boost_cap(factor, high, ground.frames.geometry.pageblock_order.frames()).unwrap_or(0)
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Raises the zone's marks by so many pageblocks, as far as they may rise. False if they may not, or the mechanisms say no.
    pub(crate) fn boost(&self, pageblocks: u64) -> bool {
        let factor = self.ground.mechanisms.watermark_boost.get();
        if factor == 0 {
            return false;
        }
        let pageblock = self.ground.frames.geometry.pageblock_order.frames();
        let managed = self.zone.managed.load(Ordering::Relaxed);
        self.zone.stat.raise_boost(pageblock.saturating_mul(pageblocks), factor, (managed, pageblock))
    }
}

impl<M: Machine> World<'_, M> {
    /// Lowers a boost that new marks do not allow.
    pub(crate) fn cap_boost(&self, zone: &Zone<M>) {
        let most = zone.most_boost(&self.ground);
        if zone.stat.boost() > most {
            self.pinned(|cx| zone.lock(cx).zone.stat.lower_boost(zone.stat.boost().saturating_sub(most)));
        }
    }

    /// Wakes background reclaim if a zone's marks were raised and nobody did so yet. No lock is held.
    pub(crate) fn wake_boosted(&self, zone: &Zone<M>) {
        if zone.stat.take_note() {
            self.ground.events.count(GlobalEvent::KswapdWake);
            self.ground.machine.wake(Waiter::Kswapd(zone.node()));
        }
    }
}

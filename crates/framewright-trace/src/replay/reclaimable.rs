//! The objects that may be reclaimed early: those in memory that the kernel reclaims later.
//!
//! The oldest is reclaimed first. Objects from before the trace are older than all others. Their order is that of
//! their frames, because their ages were not recorded. The kernel keeps pages that are used again, so it goes by age
//! only roughly.

use std::collections::{BTreeMap, HashMap};

use framewright::units::{Order, Pfn, ZoneIdx};

/// Age of an object: older ones have smaller numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Age(u64);

impl Age {
    /// The age of an object from before the trace, by its position in the span.
    pub(super) fn initial(index: usize) -> Age {
        Age(index as u64)
    }

    /// The age of the kernel's served allocation with this number.
    pub(super) fn allocation(number: usize) -> Age {
        Age(1 << 40 | number as u64)
    }
}

/// The objects in memory that may be reclaimed early, by zone of ours and age.
#[derive(Default)]
pub(super) struct Reclaimable {
    zones: BTreeMap<ZoneIdx, BTreeMap<Age, (Pfn, Order)>>,
    /// Zone and age by the kernel's first frame.
    known: HashMap<Pfn, (ZoneIdx, Age)>,
}

impl Reclaimable {
    /// Adds the object in the kernel's block, whose copy is in a zone of ours.
    pub(super) fn add(&mut self, age: Age, theirs: Pfn, order: Order, zone: ZoneIdx) {
        self.remove(theirs);
        self.zones.entry(zone).or_default().insert(age, (theirs, order));
        self.known.insert(theirs, (zone, age));
    }

    /// Removes the object in the kernel's block, if there is one.
    pub(super) fn remove(&mut self, theirs: Pfn) {
        if self.known.is_empty() {
            return;
        }
        let Some((zone, age)) = self.known.remove(&theirs) else { return };
        if let Some(objects) = self.zones.get_mut(&zone) {
            objects.remove(&age);
        }
    }

    /// The kernel moved an object.
    pub(super) fn moved(&mut self, old: Pfn, new: Pfn) {
        let Some((zone, age)) = self.known.remove(&old) else { return };
        self.known.insert(new, (zone, age));
        if let Some((pfn, _)) = self.zones.get_mut(&zone).and_then(|objects| objects.get_mut(&age)) {
            *pfn = new;
        }
    }

    /// Removes the oldest object in the zones that `may` allows, and returns its block in the kernel.
    pub(super) fn take_oldest(&mut self, may: impl Fn(ZoneIdx) -> bool) -> Option<(Pfn, Order)> {
        let zones = self.zones.iter().filter(|(zone, _)| may(**zone));
        let oldest = zones.filter_map(|(zone, objects)| Some((*objects.first_key_value()?.0, *zone))).min()?;
        let (age, zone) = oldest;
        let found = self.zones.get_mut(&zone)?.remove(&age)?;
        self.known.remove(&found.0);
        Some(found)
    }

    /// Whether there is no such object.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_zones_goes_first() {
        let mut objects = Reclaimable::default();
        let (low, high) = (ZoneIdx(1), ZoneIdx(2));
        objects.add(Age::allocation(5), Pfn(50), Order(0), low);
        objects.add(Age::allocation(6), Pfn(60), Order(3), high);
        objects.add(Age::initial(9), Pfn(9), Order(0), high);
        objects.add(Age::allocation(7), Pfn(70), Order(0), low);
        objects.moved(Pfn(50), Pfn(51));
        objects.moved(Pfn(52), Pfn(53));
        objects.remove(Pfn(70));
        objects.remove(Pfn(71));
        assert_eq!(objects.take_oldest(|zone| zone == low), Some((Pfn(51), Order(0))));
        assert_eq!(objects.take_oldest(|zone| zone == low), None);
        assert_eq!(objects.take_oldest(|_| true), Some((Pfn(9), Order(0))));
        assert_eq!(objects.take_oldest(|_| true), Some((Pfn(60), Order(3))));
        assert!(objects.is_empty());
    }
}

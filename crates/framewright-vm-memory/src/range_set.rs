//! A set of addresses, as disjoint ranges that do not touch.
//!
//! Cost: a search in a tree for each call, and for each range that is joined or cut.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// The end of each range by its start.
    ends: BTreeMap<u64, u64>,
    /// Addresses in the set.
    count: u64,
}

impl RangeSet {
    /// Returns the number of addresses in the set.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Adds a range, which is not empty; returns the range of the set that it is a part of now.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> Range<u64> {
        let mut joined = range;
        // Each range that overlaps or touches: it begins no later than the new one ends.
        while let Some((&start, &end)) =
            self.ends.range(..=joined.end).next_back().filter(|entry| *entry.1 >= joined.start)
        {
            self.ends.remove(&start);
            self.count -= end - start;
            joined = joined.start.min(start)..joined.end.max(end);
        }
        self.ends.insert(joined.start, joined.end);
        self.count += joined.end - joined.start;
        joined
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        while let Some((&start, &end)) = self.ends.range(..range.end).next_back().filter(|entry| *entry.1 > range.start)
        {
            self.ends.remove(&start);
            self.count -= end - start;
            for rest in [start..range.start, range.end..end] {
                if rest.start < rest.end {
                    self.count += rest.end - rest.start;
                    self.ends.insert(rest.start, rest.end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a set with an array of flags, over many random changes.
    #[test]
    fn it_is_the_set_of_its_addresses() {
        const SIZE: usize = 40;
        let (mut set, mut flags, mut random) = (RangeSet::default(), [false; SIZE], 88_172_645_463_325_252_u64);
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let start = random as usize % (SIZE - 1);
            let end = start + 1 + (random >> 32) as usize % (SIZE - 1 - start).clamp(1, 9);
            let (range, adds) = (start as u64..end as u64, random >> 60 < 8);
            flags[start..end].fill(adds);
            if adds {
                let joined = set.insert(range);
                let (first, last) = (joined.start as usize, joined.end as usize);
                assert!(first <= start && end <= last && flags[first..last].iter().all(|&flag| flag));
                assert!(
                    (first == 0 || !flags[first - 1]) && (last == SIZE || !flags[last]),
                    "a neighbour was not joined"
                );
            } else {
                set.remove(range);
            }
            let mut seen = [false; SIZE];
            for (&start, &end) in &set.ends {
                seen[start as usize..end as usize].fill(true);
            }
            assert_eq!(seen, flags);
            assert_eq!(set.count(), flags.iter().filter(|&&flag| flag).count() as u64);
        }
    }
}

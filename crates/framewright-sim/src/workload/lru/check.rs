//! Checks the LRU lists outside of a run.

use framewright::Pfn;
use framewright::machine::{Ordering, Word};
use framewright::smp_list::{self, Node};

use super::lru_lists::{CpuCounts, IN_USE, Lru, LruPage, ON_LIST, Padded};

impl Lru<'_> {
    /// Checks that the lists have exactly these pages, each once, and that all counts are right.
    ///
    /// Returns what is wrong, if anything.
    pub(crate) fn check(&self, pages: &[Pfn]) -> Result<(), String> {
        let mut found = Vec::new();
        for node in 0..self.lists.len() {
            found.extend(self.checked_list(node)?);
        }
        let mut wanted = pages.to_vec();
        wanted.sort_unstable();
        found.sort_unstable();
        if let Some(twice) = found.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{} is on a list twice", twice[0]));
        }
        if let Some(lost) = wanted.iter().find(|pfn| found.binary_search(pfn).is_err()) {
            return Err(format!("{lost} is in use and on no list"));
        }
        if let Some(free) = found.iter().find(|pfn| wanted.binary_search(pfn).is_err()) {
            return Err(format!("{free} is on a list and not in use"));
        }
        let words = |page: &LruPage| (page.flags.load(Ordering::Relaxed), page.references.load(Ordering::Relaxed));
        let wrong = wanted.into_iter().find(|&pfn| words(self.page(pfn)) != (ON_LIST, IN_USE));
        wrong.map_or(Ok(()), |pfn| Err(format!("{pfn} has the flags and references {:?}", words(self.page(pfn)))))
    }

    /// Returns the pages of a node's list.
    ///
    /// The list must be the same both ways, have as many pages as it says, and none of another node.
    fn checked_list(&self, node: usize) -> Result<Vec<Pfn>, String> {
        let head = Node(1 + node as u32);
        let along = |step: fn(&Self, Node) -> Node| {
            let nodes = std::iter::successors(Some(step(self, head)), |&node| Some(step(self, node)));
            nodes.take_while(|&node| node != head).take(self.pages.len() + 1).collect::<Vec<_>>()
        };
        let (forwards, mut backwards) = (along(smp_list::next), along(smp_list::prev));
        backwards.reverse();
        if forwards != backwards {
            return Err(format!("the list of node {node} is not the same both ways"));
        }
        let start = self.regions[0].range.start.0;
        let pages = forwards.into_iter().map(|at| Pfn(start + u64::from(at.0) - 1 - self.lists.len() as u64));
        let pages: Vec<Pfn> = pages.collect();
        if let Some(pfn) = pages.iter().find(|pfn| self.home(**pfn) != node) {
            return Err(format!("{pfn} is on the list of node {node}"));
        }
        let nodes = self.lists.len();
        let counted = [0, 1].map(|which| {
            let own = self.counts.iter().skip(node).step_by(nodes).map(|Padded(CpuCounts(own))| &own[which]);
            let words = own.chain([&self.totals[node][which].0]);
            words.fold(0, |sum, word| word.load(Ordering::Relaxed).wrapping_add(sum))
        });
        let size = self.lists[node].size.0.load(Ordering::Relaxed);
        let right = pages.len() as u64;
        if [size, counted[0], counted[1]] != [right; 3] {
            return Err(format!("the list of node {node} has {right} pages, but counts are {size} and {counted:?}"));
        }
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use framewright::Region;
    use framewright::units::NodeId;
    use framewright_ops::Shape;

    use super::super::lru_lists::{LruLists, increase};
    use super::*;
    use crate::machine;
    use crate::stage::{Descriptors, arena_for, boot};
    use crate::workload::floor::{End, Eyes, Floor};
    use crate::workload::memory_map::MemoryMap;
    use crate::workload::play::Ground;

    /// Two nodes of a hundred frames each.
    fn with_lists(how: LruLists, test: impl FnOnce(&Lru<'_>, &Floor<'_>)) {
        let regions = [Region::usable(1000, 1100, 0), Region::usable(1100, 1200, 1)];
        let map = MemoryMap { shape: Shape::new(&regions, &[NodeId(0), NodeId(1)]), each: None };
        let model = machine::named("skylake-2x28").unwrap().model();
        let config = map.shape.config();
        let arena = arena_for(&config, 1 << 20).unwrap();
        let pages = boot(&arena, &config, Descriptors::Line).unwrap();
        let ground =
            Ground { arena: &arena, model: &model, map: &map, cpus: 2, seed: 1, descriptors: Descriptors::Line };
        let mut progress = |_| {};
        let mut look = |_: &dyn framewright::report::Source| {};
        let eyes = Eyes { progress: &mut progress, look: &mut look, watch: None };
        let floor = Floor::new((pages, &model, 2), (0, End::Rounds(1), false), eyes);
        test(&Lru::new(&ground, how).unwrap(), &floor);
    }

    fn add(lru: &Lru<'_>, floor: &Floor<'_>, pages: &[Pfn]) {
        pages.iter().for_each(|&pfn| lru.hold(pfn));
        lru.add(floor, pages);
    }

    fn pages(numbers: impl IntoIterator<Item = u64>) -> Vec<Pfn> {
        numbers.into_iter().map(Pfn).collect()
    }

    #[test]
    fn lists_hold_what_was_added_and_not_removed() {
        for how in [LruLists::Lock, LruLists::Smp] {
            with_lists(how, |lru, floor| {
                assert_eq!(lru.check(&[]), Ok(()));
                // Across both nodes, and more than a batch.
                add(lru, floor, &pages(1090..1110));
                add(lru, floor, &pages(1000..1080));
                let order: Vec<Pfn> = lru.checked_list(0).unwrap();
                assert_eq!(order, pages((1000..1080).rev().chain((1090..1100).rev())), "the last to come is the first");
                assert_eq!(lru.check(&pages((1000..1080).chain(1090..1110))), Ok(()));
                lru.remove(floor, &pages(1005..1060));
                lru.remove(floor, &pages([1109, 1100, 1079, 1090]));
                assert_eq!(
                    lru.check(&pages((1000..1005).chain(1060..1079).chain(1091..1100).chain(1101..1109))),
                    Ok(())
                );
                lru.remove(floor, &pages((1000..1005).chain(1060..1079).chain(1091..1100).chain(1101..1109)));
                assert_eq!(lru.check(&[]), Ok(()));
            });
        }
    }

    #[test]
    fn what_is_wrong_with_lists_is_said() {
        with_lists(LruLists::Lock, |lru, floor| {
            let mut said = String::new();
            let mut say = |found: Result<(), String>| said += &(found.unwrap_err() + "\n");
            add(lru, floor, &pages(1010..1020));
            say(lru.check(&pages(1010..1019)));
            say(lru.check(&pages(1010..1021)));
            lru.page(Pfn(1012)).flags.store(0, Ordering::Relaxed);
            say(lru.check(&pages(1010..1020)));
            lru.page(Pfn(1012)).flags.store(ON_LIST, Ordering::Relaxed);
            increase(&lru.lists[0].size.0, -1);
            say(lru.check(&pages(1010..1020)));
            increase(&lru.lists[0].size.0, 1);
            let link = lru.page(Pfn(1015)).link.words()[0].1;
            let next = link.swap(lru.node_of(Pfn(1013)).0, Ordering::Relaxed);
            say(lru.check(&pages(1010..1020)));
            link.store(next, Ordering::Relaxed);
            assert_eq!(lru.check(&pages(1010..1020)), Ok(()));
            insta::assert_snapshot!(said, @r"
            0x3fb is on a list and not in use
            0x3fc is in use and on no list
            0x3f4 has the flags and references (0, 1)
            the list of node 0 has 10 pages, but counts are 9 and [10, 10]
            the list of node 0 is not the same both ways
            ");
        });
    }
}

//! The pages that were not used for longest, roughly.
//!
//! There are two lists, each in order of arrival. The oldest *inactive* page is the next to be evicted. *Active* pages
//! were used while they waited there. A use sets a bit and moves nothing ([`Standing::touch`]). When a page's turn
//! comes and the bit is set, the bit is cleared and the page becomes active: its second chance. The oldest active page
//! becomes inactive while there are more active ones, whatever its bit says. Otherwise a page used once would stay.
//!
//! A list is a tree by numbers that only rise, one for each arrival. A page knows its number, so it can be removed from
//! any position, and nothing is linked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Where a page stands.
///
/// Changed under the lock of its lists only, but for the bit.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Number of its last arrival; 0 if it is on no list.
    arrival: AtomicU64,
    is_active: AtomicBool,
    /// It was used since the last look.
    used: AtomicBool,
}

impl Standing {
    /// Notes that the page is used.
    #[inline]
    pub(super) fn touch(&self) {
        // A store to a line that others read costs more than a look.
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }
}

/// An entry of the lists.
pub(super) trait Stands {
    /// Where it stands.
    fn standing(&self) -> &Standing;
    /// Its size.
    fn frames(&self) -> u64;
}

/// The page that a turn came to.
pub(super) enum Turn<P> {
    /// A page that was not used: it may go.
    ///
    /// Until it does it is the last of the active ones.
    Oldest(Arc<P>),
    /// A page of this many frames that was used, and has a second chance.
    Used(u64),
}

/// The pages of a node.
pub(super) struct Lru<P> {
    active: BTreeMap<u64, Arc<P>>,
    inactive: BTreeMap<u64, Arc<P>>,
    arrivals: u64,
    frames: u64,
}

impl<P> Default for Lru<P> {
    fn default() -> Self {
        Lru { active: BTreeMap::new(), inactive: BTreeMap::new(), arrivals: 0, frames: 0 }
    }
}

impl<P: Stands> Lru<P> {
    /// Frames of all pages on the lists.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// A page arrives, as an inactive one.
    pub(super) fn insert(&mut self, page: Arc<P>) {
        self.frames += page.frames();
        self.arrive(page, false);
    }

    /// Takes a page off its list. Nothing happens if it is on none.
    pub(super) fn remove(&mut self, page: &P) {
        let standing = page.standing();
        let list = if standing.is_active.load(Relaxed) { &mut self.active } else { &mut self.inactive };
        if list.remove(&standing.arrival.swap(0, Relaxed)).is_some() {
            self.frames -= page.frames();
        }
    }

    /// Takes the next page's turn, and makes it the last of the active ones.
    ///
    /// None if there is no page.
    pub(super) fn turn(&mut self) -> Option<Turn<P>> {
        if self.inactive.len() < self.active.len()
            && let Some((_, page)) = self.active.pop_first()
        {
            page.standing().used.store(false, Relaxed);
            self.arrive(page, false);
        }
        let (_, page) = self.inactive.pop_first()?;
        self.arrive(Arc::clone(&page), true);
        let was_used = page.standing().used.swap(false, Relaxed);
        Some(if was_used { Turn::Used(page.frames()) } else { Turn::Oldest(page) })
    }

    fn arrive(&mut self, page: Arc<P>, active: bool) {
        self.arrivals += 1;
        page.standing().arrival.store(self.arrivals, Relaxed);
        page.standing().is_active.store(active, Relaxed);
        let list = if active { &mut self.active } else { &mut self.inactive };
        list.insert(self.arrivals, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Page(u32, Standing);

    impl Stands for Page {
        fn standing(&self) -> &Standing {
            &self.1
        }

        fn frames(&self) -> u64 {
            2
        }
    }

    fn filled(pages: u32) -> (Lru<Page>, Vec<Arc<Page>>) {
        let mut lru = Lru::default();
        let pages: Vec<_> = (0..pages).map(|number| Arc::new(Page(number, Standing::default()))).collect();
        pages.iter().for_each(|page| lru.insert(Arc::clone(page)));
        (lru, pages)
    }

    /// Evicts the next page that may go, and says which.
    fn evict(lru: &mut Lru<Page>) -> Option<u32> {
        loop {
            if let Turn::Oldest(page) = lru.turn()? {
                lru.remove(&page);
                return Some(page.0);
            }
        }
    }

    #[test]
    fn who_was_used_goes_last() {
        let (mut lru, pages) = filled(6);
        pages[0].1.touch();
        pages[2].1.touch();
        let order: Vec<_> = std::iter::from_fn(|| evict(&mut lru)).collect();
        assert_eq!(order, [1, 3, 4, 5, 0, 2]);
        assert_eq!(lru.frames(), 0);
    }

    #[test]
    fn a_page_in_use_all_the_time_keeps_nobody_from_his_end() {
        let (mut lru, pages) = filled(4);
        let gone: Vec<_> = (0..3)
            .filter_map(|_| {
                pages[1].1.touch();
                evict(&mut lru)
            })
            .collect();
        assert_eq!((gone, lru.frames()), (vec![0, 2, 3], 2));
    }

    #[test]
    fn a_page_that_stays_is_asked_again_in_turn() {
        let (mut lru, _pages) = filled(3);
        let asked: Vec<_> = (0..9)
            .filter_map(|_| match lru.turn() {
                Some(Turn::Oldest(page)) => Some(page.0),
                _ => None,
            })
            .collect();
        assert_eq!(asked, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(lru.frames(), 6);
    }

    #[test]
    fn a_page_is_taken_out_once() {
        let (mut lru, pages) = filled(2);
        lru.remove(&pages[1]);
        lru.remove(&pages[1]);
        assert_eq!((lru.frames(), evict(&mut lru), evict(&mut lru)), (2, Some(0), None));
    }
}

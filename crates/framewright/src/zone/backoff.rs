//! Back-off: limits searches of a zone to one at a time, and makes them rarer while they find nothing.
//!
//! A search through a whole zone takes time in proportion to the zone. A second CPU would find nothing that the first
//! does not find. A request that arrives during a search therefore continues without one.
//!
//! A search after a failed one is likely to fail too. After each failure, the next requests of that order or of larger
//! ones are deferred: one, then three, up to 63 of them in a row. The rule is that of Linux's compaction: a count of
//! requests, a shift of at most 6, and the smallest order that failed. A successful search for that order or a larger
//! one resets it.
//!
//! These words affect only time, never correctness. No word here publishes data, and a stale value costs one search too
//! many or too few.

use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::Order;

/// Binary logarithm of the largest number of requests of which one searches.
const MOST: u8 = 6;

record! {
    /// Searches of one kind in one zone; the description of this module explains them.
    pub(crate) struct Backoff<M: Machine> {
        /// Pageblock at which the next search begins.
        pub(crate) word cursor: M::U32,
        /// Pageblock at which a second scanner begins, from the other end, where there is one.
        pub(crate) word far: M::U32,
        /// 1 while a search runs.
        word searching: M::U8,
        /// Requests since the last search. Where it wraps around, some more are deferred.
        word deferred: M::U8,
        /// Binary logarithm of the number of requests of which one searches.
        word shift: M::U8,
        /// Smallest order that failed since an order at least as large was found.
        ///
        /// Meaningless while the shift is 0.
        word order: M::U8,
    }
}

/// A search that runs; the drop ends it, also where a callback's panic unwinds.
pub(crate) struct Search<'b, M: Machine>(&'b Backoff<M>);

impl<M: Machine> Backoff<M> {
    /// Begins a search for a request of this order; `None` if it must not search now.
    pub(crate) fn begin(&self, order: Order) -> Option<Search<'_, M>> {
        let shift = self.shift.load(Ordering::Relaxed).min(MOST);
        if shift != 0 && order.0 >= self.order.load(Ordering::Relaxed) {
            let requests = self.deferred.add(1, Ordering::Relaxed).wrapping_add(1);
            if requests < 1 << shift {
                return None;
            }
        }
        let begins = self.searching.load(Ordering::Relaxed) == 0 && self.searching.cas(0, 1, Ordering::Relaxed).is_ok();
        // Made only then: its drop would end another caller's search.
        begins.then(|| Search(self))
    }

    /// Records the result of a search that did not call [`Backoff::begin`].
    pub(crate) fn note(&self, order: Order, found: bool) {
        let (shift, least) = (self.shift.load(Ordering::Relaxed), self.order.load(Ordering::Relaxed));
        let next = if found { 0 } else { shift.wrapping_add(1).min(MOST) };
        // A success at a smaller order proves nothing about larger ones.
        if !found || order.0 >= least {
            self.order.store(if shift == 0 { order.0 } else { least.min(order.0) }, Ordering::Relaxed);
            self.shift.store(next, Ordering::Relaxed);
            self.deferred.store(0, Ordering::Relaxed);
        }
    }

    /// Marks that no search runs.
    ///
    /// In a copy of the allocator, the searching thread does not exist.
    pub(crate) fn abandon(&self) {
        self.searching.store(0, Ordering::Relaxed);
    }
}

impl<M: Machine> Search<'_, M> {
    /// Ends the search; `found`: there is a block for the request.
    pub(crate) fn end(self, order: Order, found: bool) {
        self.0.note(order, found);
    }
}

impl<M: Machine> Drop for Search<'_, M> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

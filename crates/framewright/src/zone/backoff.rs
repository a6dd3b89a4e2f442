//! Who searches a zone for what a request lacks, and how often: one at a time, and ever more rarely while nothing is found.
//!
//! A search through a whole zone takes as long as the zone is large, and finds for the second CPU nothing that it does not find for the
//! first. So whoever comes while somebody searches goes on without. And a search in vain is likely to be in vain again: the
//! next requests of that order, or of larger ones, are deferred: one, then three, up to 63 of them in a row. (The rule is that
//! of Linux's compaction: a count of requests, a shift of at most 6, and the smallest order that failed.) A search that
//! serves what the others failed at ends that.
//!
//! All of it is a matter of time spent, not of what is right: no word here publishes anything, and a look at one that is stale costs a
//! search too many or too few.

use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::Order;

/// Binary logarithm of the most requests of which one searches.
const MOST: u8 = 6;

/// The searches of one kind in one zone. See the module's description.
pub(crate) struct Backoff<M: Machine> {
    /// The pageblock that the next search begins with.
    pub(crate) cursor: M::U32,
    /// The same of a second one that comes from the other end, where there is one.
    pub(crate) far: M::U32,
    /// 1 while somebody searches.
    searching: M::U8,
    /// Requests since the last search. Where it wraps around, some more are deferred.
    deferred: M::U8,
    /// Binary logarithm of the requests of which one searches.
    shift: M::U8,
    /// The smallest order that was searched for in vain since one was found that is as large. Means nothing while the shift is 0.
    order: M::U8,
}

impl<M: Machine> Default for Backoff<M> {
    fn default() -> Self {
        let [searching, deferred, shift, order] = core::array::from_fn(|_| Word::new(0));
        Backoff { cursor: Word::new(0), far: Word::new(0), searching, deferred, shift, order }
    }
}

impl<M: Machine> Backoff<M> {
    /// Names its words.
    pub(crate) fn words(&self, prefix: &str, visit: &mut Words<'_>) {
        tell(visit, format_args!("{prefix}.cursor"), &self.cursor);
        tell(visit, format_args!("{prefix}.far"), &self.far);
        tell(visit, format_args!("{prefix}.searching"), &self.searching);
        tell(visit, format_args!("{prefix}.deferred"), &self.deferred);
        tell(visit, format_args!("{prefix}.shift"), &self.shift);
        tell(visit, format_args!("{prefix}.order"), &self.order);
    }

    /// A request of this order would search: says whether it is to, and then must [`Backoff::end`] it.
    pub(crate) fn begin(&self, order: Order) -> bool {
        let shift = self.shift.load(Ordering::Relaxed).min(MOST);
        if shift != 0 && order.0 >= self.order.load(Ordering::Relaxed) {
            let requests = self.deferred.add(1, Ordering::Relaxed).wrapping_add(1);
            if requests < 1 << shift {
                return false;
            }
        }
        self.searching.load(Ordering::Relaxed) == 0 && self.searching.cas(0, 1, Ordering::Relaxed).is_ok()
    }

    /// The search is over, and there is or is not a block for the request.
    pub(crate) fn end(&self, order: Order, found: bool) {
        self.note(order, found);
        self.abandon();
    }

    /// The same of a search that did not ask.
    pub(crate) fn note(&self, order: Order, found: bool) {
        let (shift, least) = (self.shift.load(Ordering::Relaxed), self.order.load(Ordering::Relaxed));
        let next = if found { 0 } else { shift.wrapping_add(1).min(MOST) };
        // What serves a smaller order says nothing of larger ones.
        if !found || order.0 >= least {
            self.order.store(if shift == 0 { order.0 } else { least.min(order.0) }, Ordering::Relaxed);
            self.shift.store(next, Ordering::Relaxed);
            self.deferred.store(0, Ordering::Relaxed);
        }
    }

    /// Nobody searches: in a copy of the allocator nobody is there who did.
    pub(crate) fn abandon(&self) {
        self.searching.store(0, Ordering::Relaxed);
    }
}

//! Holders of memory that can be given back, and how hard each is asked.
//!
//! A [`Shrink`] keeps memory that it could give back. Reclaim asks one after the other. Each is to look at a part of
//! its memory, one in two to the power of [`Need::priority`]. So a large one gives more than a small one. It looks at
//! least at as much as is still wanted.

use std::sync::{Arc, Weak};

use framewright::machine::Need;
use framewright::{NodeId, Order};

use crate::callbacks::Panics;

/// A request to a [`Shrink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// The node that is short of memory.
    pub node: NodeId,
    /// Order of the block that the request needs; 0 for background reclaim.
    pub order: Order,
    /// Frames that are wanted. More is welcome as long as it comes with them.
    pub wanted: u64,
    /// Frames to look at, at most: those that were used since, or are, stay.
    pub look: u64,
    /// Free only what need not be written out first.
    pub gentle: bool,
}

/// Keeps memory that it could give back.
///
/// Context: any thread, several at once, inside an allocation; by the rules of [`crate::Callbacks`].
///
/// # Large blocks
///
/// A request up to order 3 asks up to 16 times, while something comes free. One above asks once, unless it says
/// [`__GFP_RETRY_MAYFAIL`](framewright::request::__GFP_RETRY_MAYFAIL). Pages that are freed singly need not form a
/// block. So where a large request fails, the program empties the cache and asks again.
///
/// # Locks and cycles
///
/// A thread may allocate while it holds the cache's lock, and so call [`Shrink::scan`]. There such a lock is taken by
/// `try_lock`, and 0 is returned if that fails.
///
/// The arena keeps its shrinkers, and [`crate::OwnedPages`] keep their arena: a cache of them that is a shrinker is
/// never dropped. So the arena gets a [`Weak`] of the cache, which is a shrinker too, or the cache is emptied at the
/// end. `examples/cache.rs` is such a cache.
pub trait Shrink: Send + Sync {
    /// Frames of a node that could be freed, roughly.
    fn count(&self, node: NodeId) -> u64;

    /// Looks at some frames, frees those that it can, and returns their number.
    fn scan(&self, scan: &Scan) -> u64;
}

/// A holder that the arena does not keep alive. Once it is gone, it has nothing.
impl<T: Shrink> Shrink for Weak<T> {
    fn count(&self, node: NodeId) -> u64 {
        self.upgrade().map_or(0, |holder| holder.count(node))
    }

    fn scan(&self, scan: &Scan) -> u64 {
        self.upgrade().map_or(0, |holder| holder.scan(scan))
    }
}

/// Asks one after the other until there is enough.
///
/// Returns how many frames came free. One that panics freed nothing.
pub(crate) fn reclaim(shrinkers: &[Arc<dyn Shrink>], need: &Need, panics: &Panics) -> u64 {
    let mut freed = 0;
    for shrinker in shrinkers {
        let wanted = need.frames.saturating_sub(freed);
        if wanted == 0 {
            break;
        }
        let scanned = panics.catch(|| {
            let part = shrinker.count(need.node).checked_shr(need.priority).unwrap_or(0);
            let (node, order, look) = (need.node, need.order, part.max(wanted));
            shrinker.scan(&Scan { node, order, wanted, look, gentle: need.gentle })
        });
        freed = freed.saturating_add(scanned.unwrap_or(0));
    }
    freed
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use framewright::request::GFP_KERNEL;

    use super::*;

    /// Gives all that is wanted while it has some, and notes the requests.
    struct Has(u64, Mutex<Vec<Scan>>);

    impl Shrink for Has {
        fn count(&self, _: NodeId) -> u64 {
            self.0
        }

        fn scan(&self, scan: &Scan) -> u64 {
            self.1.lock().unwrap().push(*scan);
            self.0.min(scan.wanted)
        }
    }

    #[test]
    fn each_looks_at_its_part_and_at_least_at_what_is_wanted() {
        let (small, large, last) = [20, 4_096, 9].map(|has| Arc::new(Has(has, Mutex::default()))).into();
        let shrinkers: [Arc<dyn Shrink>; 3] = [small.clone(), large.clone(), last.clone()];
        let node = NodeId(0);
        let need = Need { node, order: Order(2), gfp: GFP_KERNEL, attempt: 0, frames: 32, priority: 3, gentle: true };
        assert_eq!(reclaim(&shrinkers, &need, &Panics::default()), 32);
        let asked = |has: &Has| has.1.lock().unwrap().clone();
        let order = Order(2);
        assert_eq!(asked(&small), [Scan { node, order, wanted: 32, look: 32, gentle: true }]);
        assert_eq!(asked(&large), [Scan { node, order, wanted: 12, look: 512, gentle: true }]);
        assert_eq!(asked(&last), [], "there was enough");
    }
}

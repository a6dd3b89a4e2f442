//! Clusters: runs of single free pages that are removed from their list in one cut.
//!
//! Under the zone lock a refill spends its time on the descriptors of the pages that it takes. Each descriptor must
//! arrive from another CPU's cache before the next page's number is known. A *cluster* is a run of neighbours on a list
//! of order 0, of at most a batch. It records its last page and its length. A refill that finds one at the front of its
//! list unlinks the run there. Its work under the lock is then done: it examines the pages after the lock is released.
//!
//! A page inserted at the front joins the cluster of the next page if that has room; otherwise it begins a cluster of
//! its own. A page inserted at the back does likewise with the previous page. Any page may leave. If no unused cluster
//! is left, the page has none, and is taken one by one.
//!
//! # The window
//!
//! Between the cut and the change of the pages' states, a page is on no list, although its state says that it is free.
//! During that time a holder of the zone lock must not read states, except those at the ends of lists: [`Heap::settle`]
//! waits until no cut is in progress. A cut needs no lock to end, and none begins while the lock is held.
//!
//! Some callers read many states for long (a range that is being emptied). They also keep clusters from forming in the
//! meantime, and pages from being freed unmerged ([`Heap::disable`]).

use crate::seam::compiled::Compiled;
use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Patience, Word};
use crate::sync::smp_list::Link;
use crate::types::counts::BlockCount;
use crate::types::units::Frame;

record! {
    /// Run of pages on a list.
    pub struct Cluster<M: Machine> {
        /// The last page of the run, + 1.
        word tail: M::U32,
        /// Number of pages, and of those that were not checked for merging.
        ///
        /// In an unused cluster, `count` is the next unused one, + 1.
        word count: M::U32,
        word skipped: M::U32,
    }
}

/// Clusters of all zones, and the cluster of each frame.
pub(crate) struct Clusters<'a, M: Machine> {
    /// Number of the frame's cluster, + 1; 0 for none.
    pub(crate) of: &'a [M::U32],
    pub(crate) all: &'a [Cluster<M>],
}

/// Run that was cut off a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CutRun {
    pub(crate) first: Frame,
    pub(crate) last: Frame,
    /// Pages in the run.
    pub(crate) count: BlockCount,
    /// Those of them that were not checked for merging.
    pub(crate) skipped: BlockCount,
}

/// Clusters that belong to a zone: the first, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClusterRange {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// How a page was inserted into its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inserted {
    /// At the back instead of the front.
    pub(crate) back: bool,
    /// Without a check for merging.
    pub(crate) skipped: bool,
}

record! {
    /// Clusters of one zone. All words except `cutting` are written under the zone lock.
    pub(crate) struct Heap<M: Machine> {
        /// An unused cluster, + 1; and the number of clusters that were ever used.
        word free: M::U32,
        word fresh: M::U32,
        /// Number of cuts in progress; the description of this module explains them.
        word cutting: M::U32,
        /// Number of callers that need no new clusters, and no page freed unmerged.
        word disabled: M::U32,
        // The zone's own clusters, and the largest number of pages in one.
        fixed first: u32,
        fixed count: u32,
        fixed room: u32,
    }
}

fn load<W: Word<u32>>(word: &W) -> u32 {
    word.load(Ordering::Relaxed)
}

fn store<W: Word<u32>>(word: &W, value: u32) {
    word.store(value, Ordering::Relaxed);
}

impl<M: Machine> Heap<M> {
    /// Assigns the zone its clusters; before the first use.
    ///
    /// `room` is the largest number of pages in one.
    pub(crate) fn place(&mut self, own: ClusterRange, room: u32) {
        (self.first, self.count, self.room) = (own.first, own.count, room);
    }

    /// Returns whether the zone has clusters at all.
    pub(crate) fn exists(&self) -> bool {
        M::MAY_CLUSTER && self.count != 0
    }

    /// Returns whether clusters may not form, and no page may stay unmerged.
    pub(crate) fn is_disabled(&self) -> bool {
        load(&self.disabled) != 0
    }

    /// Stops pages from joining clusters, and makes all pages merge.
    ///
    /// It lasts until as many calls of [`Heap::enable`].
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn disable(&self) {
        store(&self.disabled, load(&self.disabled).saturating_add(1));
    }

    /// Undoes one [`Heap::disable`].
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn enable(&self) {
        store(&self.disabled, load(&self.disabled).saturating_sub(1));
    }

    /// Undoes every [`Heap::disable`]: in a copy of the allocator its callers do not exist.
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn enable_for_all(&self) {
        store(&self.disabled, 0);
    }

    /// Waits until the states of all pages agree with their lists.
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn settle(&self) {
        if self.exists() {
            // ORDER: the wait acquires the states of what was cut; partner: the Release in `end_cut`.
            // Model: cluster_cut.
            let _ = self.cutting.wait_while(Patience::Turn, |cuts| cuts != 0);
        }
    }

    /// Returns whether the states of some pages do not agree with their lists yet.
    ///
    /// Caller holds: the zone lock, so no cut begins in the meantime.
    pub(crate) fn is_cutting(&self) -> bool {
        // ORDER: Acquire, as in `settle`. Model: nolock_cut.
        self.exists() && self.cutting.load(Ordering::Acquire) != 0
    }

    /// Begins a cut.
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn begin_cut(&self) {
        self.cutting.add(1, Ordering::Relaxed);
    }

    /// Ends a cut, after the states of its pages were changed.
    pub(crate) fn end_cut(&self) {
        // ORDER: Release. Publishes them; partner: the wait in `settle`. Model: cluster_cut.
        self.cutting.add(1_u32.wrapping_neg(), Ordering::Release);
    }

    /// Adds a page to a cluster after it was inserted next to `neighbour`.
    pub(crate) fn join(&self, clusters: &Clusters<'_, M>, frame: Frame, neighbour: Option<Frame>, inserted: Inserted) {
        let Some(of) = clusters.of.get(frame.index()) else { return };
        if self.is_disabled() {
            return store(of, 0);
        }
        let beside = neighbour.and_then(|neighbour| clusters.of.get(neighbour.index())).map_or(0, load);
        let joined = clusters.get(beside).filter(|cluster| load(&cluster.count) < self.room);
        let (number, cluster) = match joined {
            Some(cluster) => (beside, cluster),
            None => match self.begin(clusters) {
                Some(begun) => begun,
                None => return store(of, 0),
            },
        };
        store(of, number);
        let count = load(&cluster.count);
        store(&cluster.count, count.wrapping_add(1));
        store(&cluster.skipped, load(&cluster.skipped).wrapping_add(u32::from(inserted.skipped)));
        if inserted.back || count == 0 {
            store(&cluster.tail, frame.0.wrapping_add(1));
        }
    }

    /// Removes a page from its cluster before it leaves its list.
    ///
    /// `before` is the previous page on that list.
    pub(crate) fn leave(&self, clusters: &Clusters<'_, M>, frame: Frame, before: Option<Frame>, skipped: bool) {
        let Some(of) = clusters.of.get(frame.index()) else { return };
        let number = load(of);
        let Some(cluster) = clusters.get(number) else { return };
        store(of, 0);
        let left = load(&cluster.count).wrapping_sub(1);
        store(&cluster.count, left);
        store(&cluster.skipped, load(&cluster.skipped).wrapping_sub(u32::from(skipped)));
        if left == 0 {
            self.end(number, cluster);
        } else if load(&cluster.tail) == frame.0.wrapping_add(1) {
            store(&cluster.tail, before.map_or(0, |before| before.0.wrapping_add(1)));
        }
    }

    /// Dissolves the cluster that begins with `first` and returns its run.
    ///
    /// `None` if it has more than `most` pages.
    ///
    /// `first` is at the front of its list.
    pub(crate) fn dissolve(&self, clusters: &Clusters<'_, M>, first: Frame, most: BlockCount) -> Option<CutRun> {
        let number = load(clusters.of.get(first.index())?);
        let cluster = clusters.get(number)?;
        let last = Frame(load(&cluster.tail).checked_sub(1)?);
        let [count, skipped] = [&cluster.count, &cluster.skipped].map(|word| BlockCount(u64::from(load(word))));
        if count > most {
            return None;
        }
        self.end(number, cluster);
        Some(CutRun { first, last, count, skipped })
    }

    /// Resets all clusters to unused.
    pub(crate) fn reset(&self) {
        store(&self.free, 0);
        store(&self.fresh, 0);
    }

    /// Returns a cluster without pages, and its number.
    fn begin<'a>(&self, clusters: &Clusters<'a, M>) -> Option<(u32, &'a Cluster<M>)> {
        let free = load(&self.free);
        let number = if let Some(cluster) = clusters.get(free) {
            store(&self.free, load(&cluster.count));
            free
        } else {
            let fresh = load(&self.fresh);
            if fresh >= self.count {
                return None;
            }
            store(&self.fresh, fresh.wrapping_add(1));
            self.first.wrapping_add(fresh).wrapping_add(1)
        };
        let cluster = clusters.get(number)?;
        store(&cluster.count, 0);
        store(&cluster.skipped, 0);
        Some((number, cluster))
    }

    fn end(&self, number: u32, cluster: &Cluster<M>) {
        store(&cluster.count, load(&self.free));
        store(&self.free, number);
    }
}

impl<'a, M: Machine> Clusters<'a, M> {
    fn get(&self, number: u32) -> Option<&'a Cluster<M>> {
        self.all.get(number.checked_sub(1)? as usize)
    }

    /// Clears the cluster and link of a cut-off page; returns the next page.
    ///
    /// The link named that page.
    pub(crate) fn pass(&self, frame: Frame, link: &Link<M>) -> Option<Frame> {
        if let Some(of) = self.of.get(frame.index()) {
            store(of, 0);
        }
        let next = load(&link.next);
        store(&link.next, 0);
        store(&link.prev, 0);
        Some(Frame(next.checked_sub(1)?))
    }
}

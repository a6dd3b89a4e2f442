//! Clusters: runs of single free pages that leave their list in one cut.
//!
//! Under the zone lock a refill spends its time on the descriptors of the pages it takes: each must come from another CPU's cache
//! before the next one's number is known. A *cluster* is a run of neighbours on a list of order 0, of at most a batch, that
//! knows its last page and its length. A refill that finds one at the front of its list takes the list apart there, and is
//! done under the lock: whatever the pages are is looked at when the lock is free again.
//!
//! A page that is put at the front joins the cluster of the page behind it while that has room, else it begins one of its own;
//! likewise at the back. Any page may leave. When there is no cluster left to begin, a page has none, and is taken
//! one by one.
//!
//! # The window
//!
//! Between the cut and the moment when the pages' states are changed, a page is on no list, and yet its state says that it is
//! free. Nobody who holds the zone lock may look at states then, but for those at the ends of lists: [`Heap::settle`] waits until
//! no cut is in progress. A cut needs no lock to end, and none begins while the lock is held. Who looks at many
//! states for long (a range that is being emptied) also keeps clusters from forming meanwhile, and pages from being put
//! back unmerged ([`Heap::disable`]).

use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Patience, Word};
use crate::sync::smp_list::Link;
use crate::types::units::Frame;

/// A run of pages on a list.
pub struct Cluster<M: Machine> {
    /// The last page of the run, + 1.
    tail: M::U32,
    /// Pages, and those of them that are marked as not looked at for merging. Of an unused one: the next unused one, + 1.
    count: M::U32,
    skipped: M::U32,
}

impl<M: Machine> Default for Cluster<M> {
    fn default() -> Self {
        Cluster { tail: Word::new(0), count: Word::new(0), skipped: Word::new(0) }
    }
}

/// The clusters of all zones, and each frame's.
pub(crate) struct Clusters<'a, M: Machine> {
    /// Number of the cluster, + 1; 0 for none.
    pub(crate) of: &'a [M::U32],
    pub(crate) all: &'a [Cluster<M>],
}

/// What was cut off a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CutRun {
    pub(crate) first: Frame,
    pub(crate) last: Frame,
    pub(crate) count: u32,
    pub(crate) skipped: u32,
}

/// One zone's clusters. Words are written under the zone lock, but for `cutting`.
pub(crate) struct Heap<M: Machine> {
    /// An unused cluster, + 1; and how many were ever used.
    free: M::U32,
    fresh: M::U32,
    /// Cuts in progress: see the module's description.
    cutting: M::U32,
    /// How many want no new clusters, and no page put back unmerged.
    disabled: M::U32,
    // Fixed at boot: the clusters that are its own, and how many pages one may have.
    first: u32,
    count: u32,
    room: u32,
}

impl<M: Machine> Default for Heap<M> {
    fn default() -> Self {
        let word = || Word::new(0);
        Heap { free: word(), fresh: word(), cutting: word(), disabled: word(), first: 0, count: 0, room: 0 }
    }
}

fn load<W: Word<u32>>(word: &W) -> u32 {
    word.load(Ordering::Relaxed)
}

fn store<W: Word<u32>>(word: &W, value: u32) {
    word.store(value, Ordering::Relaxed);
}

impl<M: Machine> Heap<M> {
    /// Gives the zone its clusters; before the first use.
    pub(crate) fn place(&mut self, (first, count): (u32, u32), room: u32) {
        (self.first, self.count, self.room) = (first, count, room);
    }

    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        tell(visit, format_args!("clusters.free"), &self.free);
        tell(visit, format_args!("clusters.fresh"), &self.fresh);
        tell(visit, format_args!("clusters.cutting"), &self.cutting);
        tell(visit, format_args!("clusters.disabled"), &self.disabled);
    }

    /// Whether the zone has clusters at all.
    pub(crate) fn exists(&self) -> bool {
        self.count != 0
    }

    /// Whether clusters may form and pages stay unmerged.
    pub(crate) fn is_disabled(&self) -> bool {
        load(&self.disabled) != 0
    }

    /// Until as many calls of [`Heap::enable`], no page joins a cluster, and all merge. The zone lock is held.
    pub(crate) fn disable(&self) {
        store(&self.disabled, load(&self.disabled).saturating_add(1));
    }

    /// Takes one [`Heap::disable`] back. The zone lock is held.
    pub(crate) fn enable(&self) {
        store(&self.disabled, load(&self.disabled).saturating_sub(1));
    }

    /// Takes all of them back: in a copy of the allocator nobody is there who would. The zone lock is held.
    pub(crate) fn enable_for_all(&self) {
        store(&self.disabled, 0);
    }

    /// Waits until the states of all pages are what their lists say. The zone lock is held.
    pub(crate) fn settle(&self) {
        if self.exists() {
            // ORDER: the wait acquires the states of what was cut; partner: the Release in `end_cut`. Model: cluster_cut.
            let _ = self.cutting.wait_while(Patience::Turn, |cuts| cuts != 0);
        }
    }

    /// Whether the states of some pages are not yet what their lists say. The zone lock is held, so no cut begins meanwhile.
    pub(crate) fn is_cutting(&self) -> bool {
        // ORDER: Acquire, as in `settle`. Model: nolock_cut.
        self.exists() && self.cutting.load(Ordering::Acquire) != 0
    }

    /// A cut begins. The zone lock is held.
    pub(crate) fn begin_cut(&self) {
        self.cutting.add(1, Ordering::Relaxed);
    }

    /// The states of what was cut are changed.
    pub(crate) fn end_cut(&self) {
        // ORDER: Release. Publishes them; partner: the wait in `settle`. Model: cluster_cut.
        self.cutting.add(1_u32.wrapping_neg(), Ordering::Release);
    }

    /// A page was put on its list next to `neighbour`, at the back or the front of it. `skipped`: it bears that mark.
    pub(crate) fn join(
        &self,
        clusters: &Clusters<'_, M>,
        frame: Frame,
        neighbour: Option<Frame>,
        (back, skipped): (bool, bool),
    ) {
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
        store(&cluster.skipped, load(&cluster.skipped).wrapping_add(u32::from(skipped)));
        if back || count == 0 {
            store(&cluster.tail, frame.0.wrapping_add(1));
        }
    }

    /// A page is about to leave its list, on which `before` is the page in front of it.
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

    /// Dissolves the cluster that begins with `first`, which is at the front of its list, if it has at most `most` pages: what it
    /// was.
    pub(crate) fn dissolve(&self, clusters: &Clusters<'_, M>, first: Frame, most: u32) -> Option<CutRun> {
        let number = load(clusters.of.get(first.index())?);
        let cluster = clusters.get(number)?;
        let last = Frame(load(&cluster.tail).checked_sub(1)?);
        let (count, skipped) = (load(&cluster.count), load(&cluster.skipped));
        if count > most {
            return None;
        }
        self.end(number, cluster);
        Some(CutRun { first, last, count, skipped })
    }

    /// Forgets all clusters.
    pub(crate) fn reset(&self) {
        store(&self.free, 0);
        store(&self.fresh, 0);
    }

    /// A cluster without pages, and its number.
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

    /// A page that was cut off belongs to no cluster any more; the one behind it, as its link says.
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

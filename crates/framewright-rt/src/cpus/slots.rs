//! The slots of a machine: the owner of each, and how one is taken, shared and given back.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use framewright::machine::Busy;
use framewright::units::{CpuId, NodeId};

use crate::current::Place;
use crate::holder::Holder;
use crate::interrupts;
use crate::words::NativeWord;

use super::watch;

/// More slots than these cannot be named; the last number names no CPU at all.
pub(super) const MOST_SLOTS: usize = u16::MAX as usize;
/// Looks of a waiter before it lets other threads run, and before it sleeps between looks.
const SPINS: u32 = 64;
const YIELDS: u32 = 4096;
const NAP: Duration = Duration::from_micros(100);

/// The owner of a CPU of the allocator.
// Two lines, as the processor fetches them in pairs. `owner` comes first: restartable sequences address it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The mark of the thread that has the slot; 0 for none.
    pub(super) owner: Holder<NativeWord<AtomicUsize>>,
    /// Number of times that the owner has it, beyond the first. Only the owner uses it.
    depth: AtomicU32,
    /// Its number, and its node: fixed, and here because the line is at hand.
    pub(super) cpu: u32,
    pub(super) node: NodeId,
}

impl Slot {
    /// A free slot of a CPU with this number, on `node`.
    fn on((cpu, node): (u32, NodeId)) -> Slot {
        Slot { cpu, node, ..Slot::default() }
    }

    /// Returns the slot's place.
    #[inline]
    pub(super) fn place(&self) -> Place {
        Place { cpu: CpuId(self.cpu as u16), node: self.node }
    }

    pub(super) fn is_free(&self) -> bool {
        self.owner.mark() == 0
    }

    pub(crate) fn is_of(&self, me: usize) -> bool {
        self.owner.mark() == me
    }

    fn take(&self, me: usize) -> bool {
        self.is_free() && self.owner.take(me).is_ok()
    }

    /// The owner takes it once more.
    pub(crate) fn nest(&self) {
        self.depth.store(self.depth.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// The owner gives it back as often as it took it.
    #[inline]
    pub(crate) fn leave(&self) {
        match self.depth.load(Relaxed) {
            0 => self.owner.give_back(),
            depth => self.depth.store(depth - 1, Relaxed),
        }
    }
}

/// Whether a caller waits for the holder of a slot, which may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// As long as it takes.
    Always,
    /// For a few looks: as long as a short call lasts.
    Never,
    /// For some looks more, and not for the last slot of several: the caller keeps the slot for long.
    Kept,
}

impl Wait {
    /// Looks after which the caller gives up.
    fn looks(self) -> Option<u32> {
        match self {
            Wait::Always => None,
            Wait::Never => Some(SPINS),
            Wait::Kept => Some(2 * SPINS),
        }
    }
}

/// Which slots a caller uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Those of threads.
    Threads,
    /// Those of their interrupts.
    Interrupts,
}

impl Side {
    /// The side that the calling thread is on.
    pub(crate) fn here() -> Side {
        if interrupts::is_in() { Side::Interrupts } else { Side::Threads }
    }
}

/// The slots of a machine.
///
/// Threads that have a lease know it weakly, so it may go at any time.
#[derive(Debug)]
pub(crate) struct Cpus {
    /// Tells machines apart in a thread's memory of them: never 0, never used again.
    pub(crate) id: u64,
    pub(super) slots: Box<[Slot]>,
    nodes: Box<[NodeId]>,
    /// Number of slots for threads. Those of interrupts follow, as many or none.
    pub(super) threads: usize,
    /// Number of slots on either side that are leased, or belong to processors.
    ///
    /// They come first; the others are shared.
    own: usize,
    /// Equals `own`, or is 0 when the machine refuses, so that no processor has a slot.
    limit: AtomicU32,
    /// How many slots may be leased, about: a hint that saves the search.
    free: AtomicIsize,
    /// The slot that was given up last: it has warm pages.
    warm: AtomicUsize,
    /// This process must not use the allocator: a fork's child without a copy.
    refuses: AtomicBool,
}

impl Cpus {
    /// Slots on these nodes, of which the last `shared` are not for one thread or processor.
    pub(crate) fn new(nodes: &[NodeId], shared: usize) -> Cpus {
        let nodes: Box<[NodeId]> = nodes.iter().copied().take(MOST_SLOTS).collect();
        let (threads, own) = (nodes.len(), nodes.len().saturating_sub(shared));
        Cpus::with(nodes, threads, own)
    }

    /// Makes slots for threads as here, and as many for their interrupts.
    pub(crate) fn with_interrupts(&self) -> Cpus {
        let threads = self.threads.min(MOST_SLOTS / 2);
        let own = self.own.min(threads.saturating_sub(self.threads - self.own));
        let nodes = self.nodes.iter().take(threads);
        Cpus::with(nodes.clone().chain(nodes).copied().collect(), threads, own)
    }

    fn with(nodes: Box<[NodeId]>, threads: usize, own: usize) -> Cpus {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Cpus {
            id: NEXT.fetch_add(1, Relaxed),
            slots: (0..).zip(nodes.iter().copied()).map(Slot::on).collect(),
            nodes,
            threads,
            own,
            limit: AtomicU32::new(own as u32),
            free: AtomicIsize::new(own as isize),
            warm: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
        }
    }

    pub(crate) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(crate) fn has_interrupts(&self) -> bool {
        self.slots.len() > self.threads
    }

    pub(crate) fn refuses(&self) -> bool {
        self.refuses.load(Relaxed)
    }

    pub(super) fn own_slots(&self) -> &[Slot] {
        self.slots.get(..self.own).unwrap_or_default()
    }

    /// The slots that belong to processors; none when the machine refuses.
    #[inline]
    pub(super) fn of_processors(&self) -> &[Slot] {
        self.slots.get(..self.limit.load(Relaxed) as usize).unwrap_or_default()
    }

    /// The slots of a side.
    fn side(&self, side: Side) -> impl Iterator<Item = &Slot> + Clone {
        let first = if side == Side::Interrupts { self.threads } else { 0 };
        self.slots.iter().skip(first).take(self.threads)
    }

    /// Returns the place of the interrupts that belongs to this place; none without interrupts.
    pub(super) fn apart(&self, place: Place) -> Option<Place> {
        let number = place.cpu.index() + self.threads;
        Some(self.slots.get(number)?.place())
    }

    /// Whether it is worth asking for a lease.
    pub(super) fn may_lease(&self) -> bool {
        self.free.load(Relaxed) > 0
    }

    /// Enters a fork's child, which has one thread: frees all slots but those whose owner `stays`.
    ///
    /// If `refuse`, the machine does not work here.
    pub(crate) fn enter_child(&self, stays: impl Fn(usize) -> bool, refuse: bool) {
        for slot in self.slots.iter().filter(|slot| !stays(slot.owner.mark())) {
            slot.depth.store(0, Relaxed);
            slot.owner.clear();
        }
        let free = self.own_slots().iter().filter(|slot| slot.is_free()).count();
        self.free.store(free as isize, Relaxed);
        if refuse {
            self.refuses.store(true, Relaxed);
            self.limit.store(0, Relaxed);
        }
    }

    /// Leases a free slot to the thread `me`.
    ///
    /// Prefers the node `near`, and then the slot that was given up last.
    pub(super) fn lease(&self, me: usize, near: NodeId) -> Option<Place> {
        if !self.may_lease() {
            return None;
        }
        let warm = self.warm.load(Relaxed);
        let is_near = |&slot: &usize| self.nodes.get(slot) == Some(&near);
        let take = |slot: usize| {
            let owned = self.own_slots().get(slot).filter(|owned| owned.take(me))?;
            Some(owned.place())
        };
        let any = 0..self.own;
        let order = || std::iter::once(warm).chain(any.clone());
        let place = order().filter(is_near).chain(order()).find_map(take)?;
        self.free.fetch_sub(1, Relaxed);
        Some(place)
    }

    /// Ends a lease, whatever pins of it were forgotten.
    pub(super) fn end_lease(&self, place: Place) {
        let slot = place.cpu.index();
        if let Some(owned) = self.own_slots().get(slot) {
            self.warm.store(slot, Relaxed);
            owned.depth.store(0, Relaxed);
            owned.leave();
            self.free.fetch_add(1, Relaxed);
        }
    }

    /// Takes a shared slot of a side for the thread `me`, which leaves it later.
    ///
    /// None if the machine has no CPUs on that side. The last slot is not kept, or calls of other threads would wait as
    /// long as all are.
    ///
    /// # Errors
    /// [`Busy`] if other threads have all of them, and a caller that does not wait has looked a few times.
    #[cold]
    pub(crate) fn share(&self, me: usize, side: Side, wait: Wait) -> Result<Option<(Place, &Slot)>, Busy> {
        let left = usize::from(wait == Wait::Kept && self.threads > 1);
        let all = self.side(side).take(self.threads - left);
        let shared = all.clone().skip(self.own);
        let mut looks = 0_u32;
        loop {
            if let Some(mine) = shared.clone().find(|slot| slot.is_of(me)) {
                return Ok(Some(Self::again(mine)));
            }
            if let Some(taken) = shared.clone().find(|slot| slot.take(me)) {
                watch::release_at_exit();
                return Ok(Some((taken.place(), taken)));
            }
            // A thread that has a slot must not wait for another: the holders of those may wait for this one.
            if looks == 0
                && let Some(mine) = all.clone().find(|slot| slot.is_of(me))
            {
                return Ok(Some(Self::again(mine)));
            }
            if shared.clone().next().is_none() {
                return Ok(None);
            }
            if wait.looks().is_some_and(|most| looks >= most) {
                return Err(Busy);
            }
            looks = looks.saturating_add(1);
            pause(looks);
        }
    }

    /// Frees all slots of the thread `me`, which exits, with the pages cached there.
    ///
    /// It may have forgotten a pin, which no code can drop any more.
    pub(crate) fn release(&self, me: usize) {
        for slot in self.slots.iter().filter(|slot| slot.is_of(me)) {
            slot.depth.store(0, Relaxed);
            slot.owner.give_back();
        }
    }

    fn again(slot: &Slot) -> (Place, &Slot) {
        slot.nest();
        (slot.place(), slot)
    }
}

/// One turn of waiting for a thread that may not be running.
fn pause(looks: u32) {
    if looks < SPINS {
        std::hint::spin_loop();
    } else if looks < YIELDS {
        std::thread::yield_now();
    } else {
        std::thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodeId; 4] = [NodeId(0), NodeId(0), NodeId(1), NodeId(1)];

    fn cpus_of(leases: impl IntoIterator<Item = Option<Place>>) -> Vec<Option<u16>> {
        leases.into_iter().map(|lease| lease.map(|place| place.cpu.0)).collect()
    }

    fn share(cpus: &Cpus, me: usize) -> (Place, &Slot) {
        cpus.share(me, Side::Threads, Wait::Always).unwrap().unwrap()
    }

    #[test]
    fn leases_prefer_the_node_and_end_with_the_slots() {
        let cpus = Cpus::new(&NODES, 1);
        let leases = [1, 1, 0, 0].map(|node| cpus.lease(7, NodeId(node)));
        assert_eq!(cpus_of(leases), [Some(2), Some(0), Some(1), None], "the last slot is shared");
        assert_eq!(leases[0].map(|place| place.node), Some(NodeId(1)));
    }

    #[test]
    fn the_slot_given_up_last_is_leased_first() {
        let cpus = Cpus::new(&NODES, 0);
        let leases = [0; 4].map(|node| cpus.lease(7, NodeId(node)).unwrap());
        for slot in [0, 1, 3] {
            cpus.end_lease(leases[slot]);
        }
        let again = [0, 0, 1].map(|node| cpus.lease(8, NodeId(node)));
        assert_eq!(cpus_of(again), [Some(0), Some(1), Some(3)], "the warm one was not near");
        cpus.end_lease(leases[1]);
        assert_eq!(cpus_of([cpus.lease(9, NodeId(0))]), [Some(1)]);
    }

    #[test]
    fn the_warm_slot_is_preferred_where_no_node_is_near() {
        let cpus = Cpus::new(&NODES, 0);
        let leases = [0; 4].map(|node| cpus.lease(7, NodeId(node)).unwrap());
        [0, 2, 1].into_iter().for_each(|slot| cpus.end_lease(leases[slot]));
        assert_eq!(cpus_of([cpus.lease(8, NodeId(5)), cpus.lease(8, NodeId(5))]), [Some(1), Some(0)]);
    }

    #[test]
    fn a_shared_slot_is_taken_again_by_its_thread_and_left_as_often() {
        let cpus = Cpus::new(&NODES, 2);
        let first = share(&cpus, 7);
        let second = share(&cpus, 7);
        let other = share(&cpus, 8);
        assert_eq!([first.0, second.0, other.0].map(|place| place.cpu.0), [2, 2, 3]);
        first.1.leave();
        assert!(second.1.is_of(7));
        second.1.leave();
        assert!(second.1.is_free());
        assert_eq!(share(&cpus, 9).0, first.0);
    }

    #[test]
    fn a_thread_with_a_slot_of_its_own_never_waits() {
        let cpus = Cpus::new(&NODES, 1);
        let own = cpus.lease(7, NodeId(0)).unwrap();
        share(&cpus, 8);
        let (place, slot) = share(&cpus, 7);
        assert_eq!(place, own);
        slot.leave();
        assert!(slot.is_of(7), "the lease goes on");
    }

    #[test]
    fn who_must_not_wait_gives_up() {
        let cpus = Cpus::new(&NODES, 1);
        let (place, slot) = share(&cpus, 7);
        assert_eq!(cpus.share(8, Side::Threads, Wait::Never).map(drop), Err(Busy));
        let again = cpus.share(7, Side::Threads, Wait::Never).unwrap().unwrap();
        assert_eq!(again.0, place, "nobody waits for itself");
        again.1.leave();
        slot.leave();
        assert_eq!(cpus.share(8, Side::Threads, Wait::Never).unwrap().unwrap().0, place);
    }

    #[test]
    fn a_slot_that_is_kept_is_never_the_last_of_several() {
        let keep =
            |cpus: &Cpus, me| cpus.share(me, Side::Threads, Wait::Kept).map(|kept| kept.map(|kept| kept.0.cpu.0));
        let cpus = Cpus::new(&NODES, 2);
        assert_eq!([7, 8].map(|me| keep(&cpus, me)), [Ok(Some(2)), Err(Busy)]);
        share(&cpus, 8);
        assert_eq!(keep(&cpus, 8), Err(Busy), "not even by the thread that has it for a call");
        assert_eq!(keep(&Cpus::new(&NODES, 1), 7), Ok(None));
        let single = Cpus::new(&NODES[..1], 1);
        assert_eq!([7, 8].map(|me| keep(&single, me)), [Ok(Some(0)), Err(Busy)]);
    }

    #[test]
    fn what_a_thread_forgot_is_free_when_it_is_gone() {
        let cpus = Cpus::new(&NODES, 2);
        let leased = cpus.lease(7, NodeId(0)).unwrap();
        (0..3).for_each(|_| _ = share(&cpus, 7));
        let other = share(&cpus, 8);
        cpus.end_lease(leased);
        cpus.release(7);
        assert!(other.1.is_of(8));
        assert_eq!(cpus.lease(9, NodeId(0)), Some(leased));
        assert_ne!(cpus.share(9, Side::Threads, Wait::Never).unwrap().unwrap().0, other.0);
    }

    #[test]
    fn no_cpus_no_slot() {
        assert!(Cpus::new(&[], 1).share(7, Side::Threads, Wait::Always).unwrap().is_none());
        assert_eq!(Cpus::new(&[], 1).lease(7, NodeId(0)), None);
    }

    #[test]
    fn slots_do_not_share_lines() {
        assert_eq!((size_of::<Slot>(), std::mem::offset_of!(Slot, owner)), (128, 0));
    }
}

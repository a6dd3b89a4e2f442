//! The slot of each thread in a ledger, from its first call until it exits.
//!
//! A thread remembers its slots of the ledgers that it used last, in a constant-initialised thread-local. Otherwise it
//! looks for its mark ([`crate::current::mark`]) among the lines of the ledger, and takes a free one if it has none.
//! Signal handlers of [`crate::interrupts`] may come at any moment of that, so there is no lock: a line is taken by a
//! compare-and-swap, and a handler that was faster has taken it for its thread.
//!
//! A line is free again when its thread exits. Where that cannot be noticed, the next thread with the mark has it.
//!
//! Rejected: the CPU that the thread leases. Threads share CPUs, and a call is over before its block is returned.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};

use super::format::{JournalSlot, LINE, THREADS, Word};
use super::map::Map;
use crate::holder::Holder;
use crate::words::NativeWord;
use crate::{current, interrupts};

/// Ledgers of which a thread remembers its slots.
const REMEMBERED: usize = 4;
/// Spreads marks over the lines: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A thread's line of a ledger: the ledger's number, 0 for none, and the line.
type Known = Cell<(u64, u32)>;

thread_local! {
    static KNOWN: [[Known; REMEMBERED]; 2] = const { [const { [const { Cell::new((0, 0)) }; REMEMBERED] }; 2] };
    static TAKEN: RefCell<Taken> = const { RefCell::new(Taken(Vec::new())) };
}

/// The lines that a thread gives back when it exits.
struct Taken(Vec<(Weak<Slots>, usize)>);

impl Drop for Taken {
    fn drop(&mut self) {
        KNOWN.with(|known| known.iter().flatten().for_each(|known| known.set((0, 0))));
        for (slots, line) in self.0.drain(..) {
            if let Some(slots) = slots.upgrade() {
                slots.give_back(line);
            }
        }
    }
}

/// Which thread has which line of a ledger.
#[derive(Debug)]
pub(super) struct Slots {
    /// Number of the ledger in this process.
    pub(super) id: u64,
    pub(super) map: Map,
    /// A fork's child has the map as well, and leaves it to its parent.
    process: u32,
    /// Mark of the thread that has the line; 0 for none.
    owners: Box<[Holder<NativeWord<AtomicUsize>>]>,
}

impl Slots {
    pub(super) fn new(map: Map) -> Arc<Slots> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let owners = (0..THREADS).map(|_| Holder::default()).collect();
        Arc::new(Slots { id: IDS.fetch_add(1, Relaxed), map, process: std::process::id(), owners })
    }

    /// The calling context's slot; none if all lines are taken.
    #[inline]
    pub(super) fn own(self: &Arc<Self>) -> Option<JournalSlot> {
        let side = usize::from(interrupts::is_in());
        let (id, line) = KNOWN.with(|known| known[side][self.remembered()].get());
        let line = if id == self.id { line } else { self.find(side)? };
        Some(JournalSlot(2 * line + side as u32))
    }

    const fn remembered(&self) -> usize {
        (self.id % REMEMBERED as u64) as usize
    }

    #[cold]
    fn find(self: &Arc<Self>, side: usize) -> Option<u32> {
        let mark = current::mark();
        let own = self.owners.iter().position(|owner| owner.mark() == mark);
        let line = match own {
            Some(line) => line,
            None => self.take(mark)?,
        };
        // A handler does not register its thread, because that takes memory. The thread does at its own first call.
        if side == 0 {
            let _ = TAKEN.try_with(|taken| self.register(&mut *taken.try_borrow_mut().ok()?, line));
        }
        KNOWN.with(|known| known[side][self.remembered()].set((self.id, line as u32)));
        Some(line as u32)
    }

    fn register(self: &Arc<Self>, Taken(taken): &mut Taken, line: usize) -> Option<()> {
        taken.retain(|(slots, _)| slots.strong_count() != 0);
        let own = Arc::downgrade(self);
        if !taken.iter().any(|(slots, _)| slots.ptr_eq(&own)) {
            taken.push((own, line));
        }
        Some(())
    }

    fn take(&self, mark: usize) -> Option<usize> {
        let start = ((mark as u64).wrapping_mul(SPREAD) >> 32) as usize;
        let is_mine = |&line: &usize| self.owners[line].take(mark).err().is_none_or(|owner| owner == mark);
        (0..THREADS).map(|look| start.wrapping_add(look) % THREADS).find(is_mine)
    }

    /// Frees the line of a thread that exits: its last call has returned.
    fn give_back(&self, line: usize) {
        if self.process != std::process::id() {
            return;
        }
        let words = self.map.words().get(line * LINE..).unwrap_or_default();
        words.iter().take(LINE).for_each(|word| word.store(Word::Nothing.bits(), Relaxed));
        if let Some(owner) = self.owners.get(line) {
            // The line is empty by then, which the next thread sees.
            owner.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use framewright::{Order, Pfn};

    use super::*;
    use crate::ledger::format::Form;
    use crate::os::sealed_memfd;

    /// Lines are the threads' as long as they live. One thread too many has none, and gets the next one that is free.
    #[test]
    fn a_thread_has_a_line_until_it_exits() {
        let max_order = Order(9);
        let form = Form { page_shift: 12, max_order, first: Pfn(0), movable: 0, limit: None, nodes: vec![2 << 20] };
        let file = sealed_memfd("framewright-test", form.file() as usize).unwrap();
        let slots = Slots::new(Map::new(file.as_fd(), &form).unwrap());
        let own = slots.own().unwrap();
        assert_eq!((slots.own(), own.0 % 2), (Some(own), 0));
        let other = || std::thread::scope(|scope| scope.spawn(|| slots.own()).join().unwrap());
        assert!(other().is_some_and(|other| other != own));
        assert_eq!(slots.owners.iter().filter(|owner| owner.mark() != 0).count(), 1, "the other was given back");
        for owner in slots.owners.iter().filter(|owner| owner.mark() == 0) {
            let _ = owner.take(1);
        }
        assert_eq!((other(), slots.own()), (None, Some(own)));
        slots.give_back(7);
        assert_eq!(other(), Some(JournalSlot(14)));
        // Another ledger at the place where the thread remembers this one, and this one again.
        let more: Vec<_> = (0..REMEMBERED).map(|_| Slots::new(Map::new(file.as_fd(), &form).unwrap())).collect();
        assert!(more.iter().all(|slots| slots.own().is_some()));
        assert_eq!(slots.own(), Some(own));
    }
}

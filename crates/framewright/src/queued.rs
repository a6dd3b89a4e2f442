//! A fair lock whose waiters wait apart: each on a word of its own.
//!
//! Who waits for a [`TicketLock`](crate::lock::TicketLock) looks at the word that the holder will write. When that is written,
//! every waiter fetches the line anew, one after the other, although only one of them may go on: the more wait, the longer a
//! turn takes. Here waiters form a queue (Mellor-Crummey and Scott, 1991). Only its *head* looks at the lock; the
//! others look at their own [`QueueNode`], which their predecessor writes once, when it has got the lock.
//!
//! A node is needed while its CPU waits, not while it holds the lock: the head leaves the queue as soon as the lock is
//! its own. So one node for each CPU is enough for any number of locks that it holds, and a release needs to know nothing.
//! That is the shape of Linux's queued spin lock; there both words and a bit for the second in line share one word.
//!
//! # Who goes first
//!
//! A lock that is free and that nobody waits for is taken by one exchange, and given up by one addition. Whoever finds it
//! otherwise joins the queue. The head marks the lock [`QUEUED`], and a marked lock is not free to newcomers when it is given up.
//! Between the moment that one head has the lock and the moment that the next marks it, a newcomer may go first; it takes
//! the mark away from nobody, so that each waiter is passed at most once while it is the head. If the first head saw that
//! somebody stands behind it, it leaves the mark, and nobody passes.

use crate::machine::{Machine, Ordering, Patience, Word};

/// The lock is held.
const HELD: u32 = 1;
/// Somebody waits for it: newcomers shall not take it.
const QUEUED: u32 = 2;

/// What a node's `turn` says. Its CPU is in no queue.
const UNUSED: u32 = 0;
/// Others stand before it.
const BEHIND: u32 = 1;
/// Nobody stands before it.
const HEAD: u32 = 2;

/// One CPU's place in a queue.
///
/// Invariant N1: outside of [`QueuedLock::take`] both words are 0.
pub(crate) struct QueueNode<M: Machine> {
    /// Who stands behind, as a CPU's number + 1.
    next: M::U32,
    turn: M::U32,
}

impl<M: Machine> Default for QueueNode<M> {
    fn default() -> Self {
        QueueNode { next: Word::new(0), turn: Word::new(UNUSED) }
    }
}

impl<M: Machine> QueueNode<M> {
    /// Its words by name.
    pub(crate) fn words(&self) -> [(&'static str, &M::U32); 2] {
        [("next", &self.next), ("turn", &self.turn)]
    }

    /// Takes the node out of whatever queue it was in when it was copied.
    pub(crate) fn forget(&self) {
        self.next.store(0, Ordering::Relaxed);
        self.turn.store(UNUSED, Ordering::Relaxed);
    }
}

/// Where the nodes of all CPUs are.
pub(crate) trait Nodes<M: Machine> {
    /// The node of the CPU with that number.
    fn node(&self, cpu: usize) -> Option<&QueueNode<M>>;
}

/// Who asks for a lock: one of the CPUs that the nodes belong to, or nobody of them.
pub(crate) struct Asker<'q, N: ?Sized> {
    nodes: &'q N,
    /// The CPU's number + 1; 0 for none of them.
    name: u32,
}

impl<'q, N: ?Sized> Asker<'q, N> {
    /// The CPU with that number, to which the caller is pinned with interrupts held off.
    pub(crate) fn cpu(nodes: &'q N, cpu: u16) -> Self {
        Asker { nodes, name: u32::from(cpu) + 1 }
    }

    /// Somebody who is on no CPU, and waits without a place in the queue.
    pub(crate) fn stranger(nodes: &'q N) -> Self {
        Asker { nodes, name: 0 }
    }

    fn node<M: Machine>(&self, name: u32) -> Option<&'q QueueNode<M>>
    where
        N: Nodes<M>,
    {
        self.nodes.node((name as usize).checked_sub(1)?)
    }
}

/// See the module's description.
///
/// Invariants:
/// - Q1 who changed `locked` from a value without [`HELD`] to one with it holds the lock
/// - Q2 `tail` is the last in the queue as a CPU's number + 1; 0 ⇔ the queue is empty
pub(crate) struct QueuedLock<M: Machine> {
    tail: M::U32,
    locked: M::U32,
}

impl<M: Machine> Default for QueuedLock<M> {
    fn default() -> Self {
        QueuedLock { tail: Word::new(0), locked: Word::new(0) }
    }
}

impl<M: Machine> QueuedLock<M> {
    /// Its words by name.
    pub(crate) fn words(&self) -> [(&'static str, &M::U32); 2] {
        [("tail", &self.tail), ("locked", &self.locked)]
    }

    /// Takes the lock, waiting for the turn.
    pub(crate) fn take<N: Nodes<M> + ?Sized>(&self, asker: &Asker<'_, N>) {
        // ORDER: Acquire. Sees what was done under the lock; partner: the Release in `QueuedLock::release`.
        // Model: lock_queued.
        if self.locked.cas(0, HELD, Ordering::Acquire).is_err() {
            self.wait(asker);
        }
    }

    /// Gives the lock up.
    pub(crate) fn release(&self) {
        // ORDER: Release. Publishes everything written under the lock; partners: the exchanges in `QueuedLock::take` and
        // `QueuedLock::take_waited`. Model: lock_queued.
        self.locked.add(HELD.wrapping_neg(), Ordering::Release);
    }

    /// The same in a copy of the lock that nobody waits for: who did is not there.
    pub(crate) fn release_copied(&self) {
        self.tail.store(0, Ordering::Relaxed);
        self.locked.store(0, Ordering::Release);
    }

    #[cold]
    fn wait<N: Nodes<M> + ?Sized>(&self, asker: &Asker<'_, N>) {
        let Some(node) = asker.node(asker.name).filter(|node| node.turn.load(Ordering::Relaxed) == UNUSED) else {
            // A stranger, or an interrupt of a wait: it tries its luck beside the queue, which goes on around it.
            self.take_waited(0);
            return;
        };
        node.turn.store(BEHIND, Ordering::Relaxed);
        // ORDER: AcqRel. Publishes the node's two words as they are now, to whoever writes them next: who comes behind;
        // partner: the same exchange of that one. Model: lock_queued_3.
        let before = self.tail.swap(asker.name, Ordering::AcqRel);
        if let Some(before) = asker.node(before) {
            // ORDER: Release. Says that this node's `turn` is set up; partner: the wait in `QueuedLock::leave`.
            // Model: lock_queued_3.
            before.next.store(asker.name, Ordering::Release);
            // ORDER: the wait acquires what its predecessor saw of the lock; partner: the Release in `QueuedLock::leave`.
            // Model: lock_queued_3.
            let _ = node.turn.wait_while(Patience::Turn, |turn| turn == BEHIND);
        }
        let is_last = self.take_waited(asker.name);
        self.leave(asker, node, is_last);
    }

    /// Takes the lock as the head of the queue, `name`, or beside it. Returns whether nobody stood behind.
    fn take_waited(&self, name: u32) -> bool {
        loop {
            let waits = |locked| locked == HELD | QUEUED;
            let Ok(seen) = self.locked.wait_while(Patience::Turn, waits) else { continue };
            let is_last = self.tail.load(Ordering::Relaxed) == name;
            // Either it is held and nobody waits as yet, or it is free.
            let marked = if seen & HELD == 0 && is_last { HELD } else { HELD | QUEUED };
            // ORDER: Acquire, as in `QueuedLock::take`. Model: lock_queued.
            let changed = self.locked.cas(seen, marked, Ordering::Acquire).is_ok();
            if changed && seen & HELD == 0 {
                return is_last;
            }
        }
    }

    /// Leaves the queue, with the lock held: who stands behind is its head now.
    fn leave<N: Nodes<M> + ?Sized>(&self, asker: &Asker<'_, N>, node: &QueueNode<M>, is_last: bool) {
        if !is_last || self.tail.cas(asker.name, 0, Ordering::Relaxed).is_err() {
            // Somebody is there, and about to say so. ORDER: the wait acquires that its `turn` is set up; partner: the
            // Release in `QueuedLock::wait`. Model: lock_queued_3.
            let next = node.next.wait_while(Patience::Turn, |next| next == 0);
            node.next.store(0, Ordering::Relaxed);
            if let Some(next) = next.ok().and_then(|next| asker.node(next)) {
                // ORDER: Release. The new head shall see no older lock than this one did; partner: the wait in
                // `QueuedLock::wait`. Model: lock_queued_3.
                next.turn.store(HEAD, Ordering::Release);
            }
        }
        node.turn.store(UNUSED, Ordering::Relaxed);
    }
}

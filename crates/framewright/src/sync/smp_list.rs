//! Lists that many CPUs change at once: remove a node anywhere, insert nodes at the front.
//!
//! A list is circular and doubly linked, by number. A [`Node`] is a number of the caller's choice, and [`Links`]
//! locates its two words; 0 means no node. The head is a node with two restrictions: it is never removed, and nodes are
//! inserted only directly after it. The words of a removed node are both 0; from then on it belongs to the thread that
//! removed it.
//!
//! There are two modes. While only [`add`], [`splice`] and [`del`] run, any number of CPUs may run them. A caller that
//! excludes all of them (the other side of a reader/writer lock) finds an ordinary list. It may walk it, cut it or
//! append nodes with plain loads and stores. No two threads may remove the same node: the caller knows the owner of
//! each node.
//!
//! # The protocol
//!
//! It is Lev's, Jordan's and Dice's of 2018, with one step corrected (`docs/decisions/0009-one-look-too-few.md`). The
//! word `next` of a node is its lock as well:
//!
//! | `next` of a node | meaning |
//! |---|---|
//! | the next node | unlocked |
//! | the previous node | being removed, by a thread that believes that this is the previous node |
//! | 0 | the next node is being removed, or (in a head) nodes are being inserted |
//!
//! Removal of E, between P and S:
//!
//! 1. Claim: E.next from S to P. From now on no thread can remove S, or lock E.
//! 2. Settle: fence, then read E.prev again. Until both agree, E.next is changed to the value of E.prev. Once they
//!    agree, P cannot leave: a thread that removes P must see that E.next names P.
//! 3. Lock: P.next from E to 0. If P.next is 0, another thread has locked P: wait until P is unlocked. If it is another
//!    node and P is not a head, P is being removed: wait until E.prev changes. If P is the head, other nodes were
//!    inserted in between. E.prev has then changed, perhaps twice, so that it names the head again; no thread may wait
//!    for that change. In each case settle *again*, and retry.
//! 4. Leave: S.prev from E to P, fence, and wait until S.next does not name E: S may be in its own step 2 or 3. Storing
//!    S in P.next removes E and unlocks P.
//!
//! Steps 2 and 4 are each a store, a fence and a load of the word that the other step stored. One of two neighbours
//! therefore always sees the other. Waits run towards the head, which never waits, so they end.
//!
//! A thread that inserts nodes locks the head likewise: head.next from the first node to 0.
//!
//! # Damage
//!
//! Every node is looked up before its words are touched. The operations that change the two neighbours also check that
//! they agree. A line that another CPU holds is therefore fetched once, for writing. A wait that damage could make
//! endless ends after `PATIENCE`. Each failure is [`Broken`], and restores the words that were changed.
//!
//! # What it costs
//!
//! Removal: three read-modify-writes, two fences, and the lines of three nodes. Insertion: two read-modify-writes, both
//! under the head's lock; the line of the first node is fetched before the lock is taken.

use crate::seam::field::record;
use crate::seam::machine::{Busy, Machine, Ordering, Patience, Word};

/// Number of polls after which a wait counts as damage.
///
/// No thread holds a node for longer than a few cache misses take. A thread that holds one may be preempted, however,
/// and polls of a native machine are about 20 ns apart.
const PATIENCE: Patience = Patience::Tries(1 << 24);

/// Number of attempts after which an operation counts as damage.
///
/// Each attempt fails because another thread succeeded.
const ROUNDS: u32 = 1 << 20;

record! {
    /// Neighbours of a node on its list.
    pub struct Link<M: Machine> {
        pub(crate) word next: M::U32,
        pub(crate) word prev: M::U32,
    }
}

impl<M: Machine> Link<M> {
    /// Returns its words with their names.
    pub fn words(&self) -> [(&'static str, &M::U32); 2] {
        [("next", &self.next), ("prev", &self.prev)]
    }
}

/// A node of a list, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Node(pub u32);

impl Node {
    /// No node.
    pub const NOBODY: Node = Node(0);
}

/// Node and its words.
#[derive(Clone, Copy)]
struct Located<'l, M: Machine> {
    node: Node,
    link: &'l Link<M>,
}

/// Locations of the words of nodes.
pub trait Links<M: Machine> {
    /// Returns the words of a node; `None` if no node has this number.
    ///
    /// 0 is such a number.
    fn link(&self, node: Node) -> Option<&Link<M>>;

    /// Returns whether a node is a list's head.
    fn is_head(&self, node: Node) -> bool;
}

/// Damage: neighbours disagree, a word names no node, or a wait lasted too long.
///
/// It names the node where the damage was found. The list is as it was before. A wait that lasted too long is only a
/// suspicion: the other thread may have been stopped inside its operation. A caller that excludes all others can decide
/// that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken(pub Node);

/// Removes a node from its list; its words are 0 afterwards.
///
/// # Errors
/// [`Broken`]; also if the node is on no list.
pub fn del<M: Machine, L: Links<M> + ?Sized>(machine: &M, links: &L, node: Node) -> Result<(), Broken> {
    let link = links.link(node).ok_or(Broken(node))?;
    let (next, prev) = claim(link, node)?;
    let taken = lock_before(machine, links, Located { node, link }, prev)
        .and_then(|before| leave(machine, links, node, before, next));
    if taken.is_err() {
        // ORDER: Release, as in `settle`: from here on no word of the previous node is touched.
        // Model: smp_list_patience.
        link.next.store(next.0, Ordering::Release);
        return taken;
    }
    link.next.store(Node::NOBODY.0, Ordering::Relaxed);
    link.prev.store(Node::NOBODY.0, Ordering::Relaxed);
    Ok(())
}

/// Step 1: claims a node; returns its next node and a previous one.
///
/// The next node stays in place from now on. The previous node may have changed since.
fn claim<M: Machine>(link: &Link<M>, node: Node) -> Result<(Node, Node), Broken> {
    loop {
        // A stale value does no harm: step 2 reads the word again, after a fence.
        let prev = link.prev.load(Ordering::Relaxed);
        if prev == Node::NOBODY.0 || prev == node.0 {
            return Err(Broken(node));
        }
        // ORDER: the wait acquires what made the next node this one's neighbour; partners: the Releases of `next` in
        // `leave` and `splice`. The neighbour can then leave, but not come back. Model: smp_list_stale_again.
        let next = link.next.wait_while(PATIENCE, |next| next == Node::NOBODY.0).map_err(|Busy| Broken(node))?;
        if link.next.cas(next, prev, Ordering::Relaxed).is_ok() {
            return Ok((Node(next), Node(prev)));
        }
        // A thread that removes the next node has locked this one.
    }
}

/// Step 2: makes `next` of a claimed node name its previous node; returns that node.
///
/// The previous node cannot leave until `next` names another.
fn settle<M: Machine>(machine: &M, link: &Link<M>, mut prev: Node) -> Node {
    loop {
        // ORDER: the store of `next` (above or below, or the CAS in `claim`) before the load of `prev`; partner: the
        // fence in `leave`. Model: smp_list_neighbours, smp_list_reuse.
        machine.fence();
        // ORDER: Acquire. Sees `next` of the previous node as it was made; partner: the Release of `prev` in `leave`
        // and `splice`. Model: smp_list_del_add.
        let now = Node(link.prev.load(Ordering::Acquire));
        if now == prev {
            return now;
        }
        prev = now;
        // ORDER: the fence above. No load of the former previous node's words comes later; partner: the wait in
        // `let_go`. Model: smp_list_reuse.
        link.next.store(prev.0, Ordering::Relaxed);
    }
}

/// Steps 2 and 3: locks the node before a claimed one; returns it.
fn lock_before<'l, M: Machine, L: Links<M> + ?Sized>(
    machine: &M,
    links: &'l L,
    claimed: Located<'_, M>,
    mut prev: Node,
) -> Result<Located<'l, M>, Broken> {
    let Located { node, link } = claimed;
    for _ in 0..ROUNDS {
        prev = settle(machine, link, prev);
        let before = links.link(prev).filter(|_| prev != node).ok_or(Broken(node))?;
        // ORDER: Acquire. A CPU that finds other nodes inserted in between finds `prev` changed too; partner: the
        // Release of `next` in `splice`. Model: smp_list_del_add.
        match before.next.cas(node.0, Node::NOBODY.0, Ordering::Acquire) {
            Ok(_) => return Ok(Located { node: prev, link: before }),
            // Locked: a node in between is being removed, or (in a head) nodes are being inserted.
            Err(0) => before.next.wait_while(PATIENCE, |next| next == Node::NOBODY.0),
            // Others were inserted in between. The store of `prev` that belongs to them is visible from here on.
            Err(other) if links.is_head(prev) => Ok(other),
            // The previous node is being removed.
            Err(_) => link.prev.wait_while(PATIENCE, |now| now == prev.0),
        }
        .map_err(|Busy| Broken(node))?;
    }
    Err(Broken(node))
}

/// Step 4: removes a node whose previous node is locked, and unlocks that.
fn leave<M: Machine, L: Links<M> + ?Sized>(
    machine: &M,
    links: &L,
    node: Node,
    before: Located<'_, M>,
    next: Node,
) -> Result<(), Broken> {
    let left = links.link(next).ok_or(Broken(node)).and_then(|after| {
        // ORDER: Release. A thread that reads this finds `next` of the previous node locked, or later; partner: the
        // Acquire in `settle`. Model: smp_list_neighbours.
        after.prev.cas(node.0, before.node.0, Ordering::Release).map_err(|_| Broken(next))?;
        let_go(machine, after, node, before.node).map_err(|Busy| Broken(next))
    });
    let new = if left.is_ok() { next } else { node };
    // ORDER: Release. Commits. A later CAS of this word finds `prev` of the next node; partner: `claim`, `lock_head`.
    before.link.next.store(new.0, Ordering::Release);
    left
}

/// Waits until `next` of the next node does not name `node`.
///
/// If that lasts too long, `prev` of the next node names `node` again.
fn let_go<M: Machine>(machine: &M, after: &Link<M>, node: Node, prev: Node) -> Result<(), Busy> {
    loop {
        // ORDER: the store of `prev` (below, or the CAS in `leave`) before the load of `next`; partner: the fence in
        // `settle`. Model: smp_list_reuse.
        machine.fence();
        // ORDER: the wait acquires that all loads of this node's words are over; partner: the Release in `settle`.
        // Model: smp_list_reuse.
        if after.next.wait_while(PATIENCE, |next| next == node.0).is_ok() {
            return Ok(());
        }
        // ORDER: the fences before and after the store: as above, in the other direction. Model: smp_list_patience.
        after.prev.store(node.0, Ordering::Relaxed);
        machine.fence();
        if after.next.load(Ordering::Relaxed) == node.0 {
            return Err(Busy);
        }
        // The next node proceeded at the last moment.
        after.prev.store(prev.0, Ordering::Relaxed);
    }
}

/// Inserts a node at the front of a list.
///
/// # Errors
/// [`Broken`]
pub fn add<M: Machine, L: Links<M> + ?Sized>(machine: &M, links: &L, head: Node, node: Node) -> Result<(), Broken> {
    splice(machine, links, head, node, node)
}

/// Inserts a chain of nodes, linked by [`chain`], at the front of a list.
///
/// Until then the chain belongs to the caller.
///
/// # Errors
/// [`Broken`]
pub fn splice<M: Machine, L: Links<M> + ?Sized>(
    _: &M,
    links: &L,
    head: Node,
    first: Node,
    last: Node,
) -> Result<(), Broken> {
    let top = links.link(head).ok_or(Broken(head))?;
    let front = links.link(first).filter(|_| first != head).ok_or(Broken(first))?;
    let back = links.link(last).filter(|_| last != head).ok_or(Broken(last))?;
    // Both lines are in the cache before the head is locked.
    front.prev.store(head.0, Ordering::Relaxed);
    back.next.store(Node::NOBODY.0, Ordering::Relaxed);
    let put = lock_head(top).map_err(|Busy| Broken(head)).and_then(|next| {
        back.next.store(next.0, Ordering::Relaxed);
        let after = links.link(next).ok_or(Broken(head));
        // ORDER: Release. A thread that reads this finds `next` of the last node; partner: the Acquire in `settle`.
        // Model: smp_list_del_add.
        let put = after.and_then(|after| after.prev.cas(head.0, last.0, Ordering::Release).map_err(|_| Broken(next)));
        let new = if put.is_ok() { first } else { next };
        // ORDER: Release. Commits; partner: the CAS in `lock_head`, the CAS and the wait in `lock_before`.
        // Model: smp_list_adds, smp_list_del_add.
        top.next.store(new.0, Ordering::Release);
        put.map(drop)
    });
    if put.is_err() {
        front.prev.store(Node::NOBODY.0, Ordering::Relaxed);
        back.next.store(Node::NOBODY.0, Ordering::Relaxed);
    }
    put
}

/// Locks a head; returns its first node.
fn lock_head<M: Machine>(top: &Link<M>) -> Result<Node, Busy> {
    loop {
        let first = top.next.wait_while(PATIENCE, |next| next == Node::NOBODY.0)?;
        // ORDER: Acquire. `prev` of the first node is the value of the thread that inserted it; partner: the Release of
        // `next` in `splice` and `leave`. Model: smp_list_adds.
        if top.next.cas(first, Node::NOBODY.0, Ordering::Acquire).is_ok() {
            return Ok(Node(first));
        }
    }
}

/// Links two nodes that belong to the caller.
///
/// Does nothing for a number that no node has.
pub fn chain<M: Machine, L: Links<M> + ?Sized>(links: &L, before: Node, after: Node) {
    if let (Some(front), Some(back)) = (links.link(before), links.link(after)) {
        front.next.store(after.0, Ordering::Relaxed);
        back.prev.store(before.0, Ordering::Relaxed);
    }
}

/// Empties a list, without looking at its nodes.
///
/// Context: the caller excludes all others.
pub fn make_empty<M: Machine, L: Links<M> + ?Sized>(links: &L, head: Node) {
    chain(links, head, head);
}

/// Returns whether a node is on a list.
///
/// Context: the caller owns the node, or excludes all others.
pub fn is_linked<M: Machine, L: Links<M> + ?Sized>(links: &L, node: Node) -> bool {
    next(links, node) != Node::NOBODY
}

/// Returns the next node; for a head, the first node.
///
/// Context: the caller excludes all others.
pub fn next<M: Machine, L: Links<M> + ?Sized>(links: &L, node: Node) -> Node {
    links.link(node).map_or(Node::NOBODY, |link| Node(link.next.load(Ordering::Relaxed)))
}

/// Returns the previous node; for a head, the last node.
///
/// Context: the caller excludes all others.
pub fn prev<M: Machine, L: Links<M> + ?Sized>(links: &L, node: Node) -> Node {
    links.link(node).map_or(Node::NOBODY, |link| Node(link.prev.load(Ordering::Relaxed)))
}

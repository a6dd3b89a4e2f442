//! Lists that many CPUs change at once: take a node off anywhere, put nodes on at the front.
//!
//! Circular and doubly linked, by number. A [`Node`] is a number of the caller's choice, and [`Links`] says where its two words
//! are; 0 is nobody. The head is a node like any other, but for two things: it is never taken off, and nodes are put on
//! behind it alone. A node off its list holds 0 twice and belongs to whoever took it off, at once.
//!
//! There are two modes. While only [`add`], [`splice`] and [`del`] run, any number of CPUs may run them. Whoever keeps all
//! of them out (the other side of a reader/writer lock) finds an ordinary list, and may walk it, cut it or put nodes at its
//! end with plain loads and stores. No two may take the same node off: who owns a node is for the caller to know.
//!
//! # The protocol
//!
//! It is Lev's, Jordan's and Dice's of 2018, with one step mended (`docs/decisions/0009-one-look-too-few.md`). The word
//! `next` of a node is its lock as well:
//!
//! | `next` of a node | says |
//! |---|---|
//! | the node behind it | it is free |
//! | the node before it | it is being taken off, by somebody who believes that this is the node before it |
//! | 0 | the node behind it is being taken off, or (in a head) nodes are being put on |
//!
//! Taking off E, between P and S:
//!
//! 1. Claim: E.next from S to P. From here on nobody can take off S, or lock E.
//! 2. Settle: fence, then read E.prev again. Until both agree, E.next is changed to what E.prev says. Once they agree, P
//!    cannot leave: its own taker has to see that E.next names it.
//! 3. Lock: P.next from E to 0. If it is 0, somebody has locked P: wait until P is free. If it is another node, either P is
//!    being taken off: wait until E.prev changes. Or P is the head and others came in between: E.prev has changed, perhaps
//!    twice, so that it names the head again, and nobody may wait for that. In each case settle *again*, and try again.
//! 4. Leave: S.prev from E to P, fence, and wait until S.next does not name E: S may be in its own step 2 or 3.
//!    Storing S in P.next takes E off and frees P.
//!
//! Steps 2 and 4 are each a store, a fence and a load of what the other stored, so one of two neighbours always sees the other.
//! Waits run towards the head, which never waits, so they end.
//!
//! Who puts nodes on locks the head in the same way: head.next from the first node to 0.
//!
//! # Damage
//!
//! Every node is looked up before its words are touched. Both neighbours are asked whether they agree, by the very
//! operations that change them, so that a line that another CPU has is fetched once, for writing. A wait that damage could make
//! endless ends after `PATIENCE`. Each failure is [`Broken`], and puts back what was changed.
//!
//! # What it costs
//!
//! Taking off: three read-modify-writes, two fences, and the lines of three nodes. Putting on: two read-modify-writes, both
//! under the head's lock; the line of the first node is fetched before it is taken.

use crate::seam::machine::{Busy, Machine, Ordering, Patience, Word};

/// Looks after which a wait is taken for damage. Nobody holds a node for longer than a few misses take; but a thread that
/// does may be preempted, and looks of a native machine are about 20 ns apart.
const PATIENCE: Patience = Patience::Tries(1 << 24);

/// The same for tries of which each fails because somebody else has succeeded.
const ROUNDS: u32 = 1 << 20;

/// Neighbours of a node on its list.
pub struct Link<M: Machine> {
    pub(crate) next: M::U32,
    pub(crate) prev: M::U32,
}

impl<M: Machine> Default for Link<M> {
    fn default() -> Self {
        Link { next: Word::new(0), prev: Word::new(0) }
    }
}

impl<M: Machine> Link<M> {
    /// Its words by name.
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

/// Where the words of nodes are.
pub trait Links<M: Machine> {
    /// The words of a node; none for a number that no node has, such as 0.
    fn link(&self, node: Node) -> Option<&Link<M>>;

    /// Whether a node is a list's head.
    fn is_head(&self, node: Node) -> bool;
}

/// Neighbours disagree, a word names nobody, or a wait has lasted too long; names the node where that showed.
///
/// The list is as it was before. That a wait took too long is a suspicion: the other side may have been stopped in
/// the middle. Who keeps all others out knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken(pub Node);

/// Takes a node off the list it is on. Its words are 0 then.
///
/// # Errors
/// [`Broken`]; also if the node is on no list.
pub fn del<M: Machine, L: Links<M> + ?Sized>(machine: &M, links: &L, node: Node) -> Result<(), Broken> {
    let link = links.link(node).ok_or(Broken(node))?;
    let (next, prev) = claim(link, node)?;
    let taken = lock_before(machine, links, (node, link), prev)
        .and_then(|(prev, before)| leave(machine, links, node, (prev, before), next));
    if taken.is_err() {
        // ORDER: Release, as in `settle`: from here on no word of the node before is touched. Model: smp_list_patience.
        link.next.store(next.0, Ordering::Release);
        return taken;
    }
    link.next.store(Node::NOBODY.0, Ordering::Relaxed);
    link.prev.store(Node::NOBODY.0, Ordering::Relaxed);
    Ok(())
}

/// Step 1. Returns the node behind, which stays where it is from now on, and one that was before it.
fn claim<M: Machine>(link: &Link<M>, node: Node) -> Result<(Node, Node), Broken> {
    loop {
        // Old news do no harm: step 2 looks again, behind a fence.
        let prev = link.prev.load(Ordering::Relaxed);
        if prev == Node::NOBODY.0 || prev == node.0 {
            return Err(Broken(node));
        }
        // ORDER: the wait acquires what made the node behind this one's neighbour; partner: the Release in `leave`.
        let next = link.next.wait_while(PATIENCE, |next| next == Node::NOBODY.0).map_err(|Busy| Broken(node))?;
        // ORDER: Acquire, for the same, should the word have been another in between. Model: smp_list_neighbours.
        if link.next.cas(next, prev, Ordering::Acquire).is_ok() {
            return Ok((Node(next), Node(prev)));
        }
        // Whoever takes off the node behind has locked this one.
    }
}

/// Step 2: makes `next` of a claimed node name the node before it, and returns that. It cannot leave until `next` names another.
fn settle<M: Machine>(machine: &M, link: &Link<M>, mut prev: Node) -> Node {
    loop {
        // ORDER: the store of `next` (above or below, or the CAS in `claim`) before the load of `prev`; partner: the fence
        // in `leave`. Model: smp_list_neighbours, smp_list_reuse.
        machine.fence();
        // ORDER: Acquire. Sees `next` of the node before as it was made; partner: the Release of `prev` in `leave` and
        // `splice`. Model: smp_list_del_add.
        let now = Node(link.prev.load(Ordering::Acquire));
        if now == prev {
            return now;
        }
        prev = now;
        // ORDER: Release. No look at the node that was before comes later; partner: the wait in `let_go`.
        // Model: smp_list_reuse.
        link.next.store(prev.0, Ordering::Release);
    }
}

/// Steps 2 and 3: locks the node before a claimed one, and returns it.
fn lock_before<'l, M: Machine, L: Links<M> + ?Sized>(
    machine: &M,
    links: &'l L,
    (node, link): (Node, &Link<M>),
    mut prev: Node,
) -> Result<(Node, &'l Link<M>), Broken> {
    for _ in 0..ROUNDS {
        prev = settle(machine, link, prev);
        let before = links.link(prev).filter(|_| prev != node).ok_or(Broken(node))?;
        // ORDER: Acquire. A CPU that finds other nodes put on in between finds `prev` changed too; partner: the Release
        // of `next` in `splice`. Model: smp_list_del_add.
        match before.next.cas(node.0, Node::NOBODY.0, Ordering::Acquire) {
            Ok(_) => return Ok((prev, before)),
            // Locked: a node in between is leaving, or (in a head) nodes are being put on.
            Err(0) => before.next.wait_while(PATIENCE, |next| next == Node::NOBODY.0),
            // Others have come in between. Their stores of `prev` are seen behind this.
            Err(other) if links.is_head(prev) => Ok(other),
            // The node before is being taken off.
            Err(_) => link.prev.wait_while(PATIENCE, |now| now == prev.0),
        }
        .map_err(|Busy| Broken(node))?;
    }
    Err(Broken(node))
}

/// Step 4, with the node before locked.
fn leave<M: Machine, L: Links<M> + ?Sized>(
    machine: &M,
    links: &L,
    node: Node,
    (prev, before): (Node, &Link<M>),
    next: Node,
) -> Result<(), Broken> {
    let left = links.link(next).ok_or(Broken(node)).and_then(|after| {
        // ORDER: Release. Who reads this finds `next` of the node before locked, or later; partner: the Acquire in `settle`.
        // Model: smp_list_neighbours.
        after.prev.cas(node.0, prev.0, Ordering::Release).map_err(|_| Broken(next))?;
        let_go(machine, after, node, prev).map_err(|Busy| Broken(next))
    });
    let new = if left.is_ok() { next } else { node };
    // ORDER: Release. Commits. Who takes it from here finds `prev` of the node behind; partner: `claim`, `lock_head`.
    before.next.store(new.0, Ordering::Release);
    left
}

/// Waits until the node behind does not name `node` as the one before it. If that lasts too long, makes it do so again.
fn let_go<M: Machine>(machine: &M, after: &Link<M>, node: Node, prev: Node) -> Result<(), Busy> {
    loop {
        // ORDER: the store of `prev` (below, or the CAS in `leave`) before the load of `next`; partner: the fence in
        // `settle`. Model: smp_list_reuse.
        machine.fence();
        // ORDER: the wait acquires that all looks at this node's words are over; partner: the Release in `settle`.
        // Model: smp_list_reuse.
        if after.next.wait_while(PATIENCE, |next| next == node.0).is_ok() {
            return Ok(());
        }
        // ORDER: Release, and the fence behind it: as above, the other way round. Model: smp_list_patience.
        after.prev.store(node.0, Ordering::Release);
        machine.fence();
        if after.next.load(Ordering::Relaxed) == node.0 {
            return Err(Busy);
        }
        // It has gone on at the last moment.
        after.prev.store(prev.0, Ordering::Release);
    }
}

/// Puts a node at the front of a list.
///
/// # Errors
/// [`Broken`]
pub fn add<M: Machine, L: Links<M> + ?Sized>(machine: &M, links: &L, head: Node, node: Node) -> Result<(), Broken> {
    splice(machine, links, head, node, node)
}

/// Puts a chain of nodes, which [`chain`] has linked, at the front of a list. The caller's own until then.
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
    // Both lines are there before the head is locked.
    front.prev.store(head.0, Ordering::Relaxed);
    back.next.store(Node::NOBODY.0, Ordering::Relaxed);
    let put = lock_head(top).map_err(|Busy| Broken(head)).and_then(|next| {
        back.next.store(next.0, Ordering::Relaxed);
        let after = links.link(next).ok_or(Broken(head));
        // ORDER: Release. Who reads this finds `next` of the last node; partner: the Acquire in `settle`.
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

/// Locks a head, and returns the node that is first.
fn lock_head<M: Machine>(top: &Link<M>) -> Result<Node, Busy> {
    loop {
        let first = top.next.wait_while(PATIENCE, |next| next == Node::NOBODY.0)?;
        // ORDER: Acquire. `prev` of the first node is that of who put it there; partner: the Release of `next` in `splice`
        // and `leave`. Model: smp_list_adds.
        if top.next.cas(first, Node::NOBODY.0, Ordering::Acquire).is_ok() {
            return Ok(Node(first));
        }
    }
}

/// Links two nodes of the caller's own to each other. Does nothing for a number that no node has.
pub fn chain<M: Machine, L: Links<M> + ?Sized>(links: &L, before: Node, after: Node) {
    if let (Some(front), Some(back)) = (links.link(before), links.link(after)) {
        front.next.store(after.0, Ordering::Relaxed);
        back.prev.store(before.0, Ordering::Relaxed);
    }
}

/// Makes a list empty, without a look at what was on it. For who keeps all others out.
pub fn make_empty<M: Machine, L: Links<M> + ?Sized>(links: &L, head: Node) {
    chain(links, head, head);
}

/// Whether a node is on a list. Its owner knows, or who keeps all others out.
pub fn is_linked<M: Machine, L: Links<M> + ?Sized>(links: &L, node: Node) -> bool {
    next(links, node) != Node::NOBODY
}

/// The node behind another one; of a head, the first. For who keeps all others out.
pub fn next<M: Machine, L: Links<M> + ?Sized>(links: &L, node: Node) -> Node {
    links.link(node).map_or(Node::NOBODY, |link| Node(link.next.load(Ordering::Relaxed)))
}

/// The node before another one; of a head, the last. For who keeps all others out.
pub fn prev<M: Machine, L: Links<M> + ?Sized>(links: &L, node: Node) -> Node {
    links.link(node).map_or(Node::NOBODY, |link| Node(link.prev.load(Ordering::Relaxed)))
}

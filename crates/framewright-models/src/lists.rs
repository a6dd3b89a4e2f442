//! What a model of `smp_list` runs on: one list, and a few nodes that are on it or belong to a thread.
//!
//! A thread owns a node from the return of the call that took it off until it puts the node on a list. Meanwhile it may
//! write anything into the node's words. Here it writes the most harmful values, the numbers of other nodes. At the end
//! it must find them unchanged, or another thread has written into a node that it does not own. Without this almost
//! nothing would show: a list whose fences are missing still ends up whole.
//!
//! Each node also has a payload of plain memory, which its owner writes, and which every access to the node's words
//! reads. So loom reports a race if a thread may still look at a node that has another owner. No value would show that:
//! loom lets no load pass a later store.
//!
//! At the end the list must have exactly the nodes that were left on it, in the same order both ways.

use framewright::machine::{Ordering, Patience, Word};
use framewright::smp_list::{self, Node};
use framewright::{Link, Machine};

use crate::kept::{Note, Payload};
use crate::loom_machine::LoomMachine;
use crate::{published, session};

/// The list's head.
pub const HEAD: Node = Node(1);
/// The first node, if it is on the list at the start.
pub const A: Node = Node(2);
/// The node after [`A`].
pub const B: Node = Node(3);
/// The node after [`B`].
pub const C: Node = Node(4);
/// A node that is not on the list at the start.
pub const N: Node = Node(5);
/// A second such node.
pub const O: Node = Node(6);
const NUMBERS: usize = 7;

/// The owner of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    List,
    /// A thread, which left these values in the node's words.
    Thread(u32, u32),
}

/// The words of all nodes and their payloads; those at 0 belong to none.
#[derive(Default)]
pub struct Links([(Link<LoomMachine>, Payload); NUMBERS]);

impl smp_list::Links<LoomMachine> for Links {
    fn link(&self, node: Node) -> Option<&Link<LoomMachine>> {
        self.0.get(node.0 as usize).filter(|_| node != Node::NOBODY).map(|(link, _)| link)
    }

    fn is_head(&self, node: Node) -> bool {
        node == HEAD
    }
}

/// A list, its nodes and their owners.
pub struct Lists {
    links: Links,
    owners: [Note<Owner>; NUMBERS],
    /// A word by which one thread tells another that a node is on the list.
    flag: <LoomMachine as Machine>::U32,
}

const MACHINE: LoomMachine = LoomMachine { bypass_pcp: &[], drains: false };

impl Lists {
    /// A list of these nodes, in this order.
    pub fn of(nodes: &[Node]) -> Lists {
        let lists = Lists {
            links: Default::default(),
            owners: std::array::from_fn(|_| Note::new(Owner::Thread(0, 0))),
            flag: Word::new(0),
        };
        for (link, payload) in &lists.links.0 {
            link.words().into_iter().for_each(|(_, word)| word.guard(payload));
        }
        smp_list::make_empty(&lists.links, HEAD);
        nodes.iter().rev().for_each(|&node| lists.add(node));
        lists
    }

    /// Like [`Lists::of`], but waits that only damage could make endless end early.
    pub fn impatient(nodes: &[Node]) -> Lists {
        session::with(|session| session.impatient.set(true));
        Lists::of(nodes)
    }

    fn write(&self, node: Node) {
        self.links.0[node.0 as usize].1.write();
    }

    fn set_owner(&self, node: Node, owner: Owner) {
        self.owners[node.0 as usize].set(owner);
    }

    fn words(&self, node: Node) -> [u32; 2] {
        self.links.0[node.0 as usize].0.words().map(|(_, word)| word.load(Ordering::Relaxed))
    }

    /// Takes a node off.
    pub fn del(&self, node: Node) {
        assert_eq!(smp_list::del(&MACHINE, &self.links, node), Ok(()));
        self.own(node);
    }

    /// Like [`Lists::del`], by the published protocol.
    pub fn del_as_published(&self, node: Node) {
        published::del(&MACHINE, &self.links, node);
        self.own(node);
    }

    fn own(&self, node: Node) {
        self.write(node);
        self.set_owner(node, Owner::Thread(0, 0));
    }

    /// Takes a node off, or gives up; returns whether the node is off.
    pub fn try_del(&self, node: Node) -> bool {
        let is_off = smp_list::del(&MACHINE, &self.links, node).is_ok();
        if is_off {
            self.own(node);
        }
        is_off
    }

    /// Takes a node off and fills its words, or gives up.
    pub fn try_reuse(&self, node: Node) {
        if self.try_del(node) {
            self.fill(node, (C, C));
        }
    }

    /// Puts a node of the running thread on.
    pub fn add(&self, node: Node) {
        self.disown(node);
        assert_eq!(smp_list::add(&MACHINE, &self.links, HEAD, node), Ok(()));
    }

    fn disown(&self, node: Node) {
        self.write(node);
        self.set_owner(node, Owner::List);
    }

    /// Like [`Lists::add`], but may give up.
    pub fn try_add(&self, node: Node) {
        self.disown(node);
        if smp_list::add(&MACHINE, &self.links, HEAD, node).is_err() {
            self.set_owner(node, Owner::Thread(0, 0));
        }
    }

    /// Puts a chain of two on.
    pub fn splice(&self, first: Node, last: Node) {
        [first, last].into_iter().for_each(|node| self.disown(node));
        smp_list::chain(&self.links, first, last);
        assert_eq!(smp_list::splice(&MACHINE, &self.links, HEAD, first, last), Ok(()));
    }

    /// Writes these values into the words of a node that the running thread owns.
    pub fn fill(&self, node: Node, (next, prev): (Node, Node)) {
        let words = self.links.0[node.0 as usize].0.words();
        for ((_, word), value) in words.into_iter().zip([next, prev]) {
            word.store(value.0, Ordering::Relaxed);
        }
        self.set_owner(node, Owner::Thread(next.0, prev.0));
    }

    /// Tells another thread that it may take off the node that was put on.
    pub fn signal(&self) {
        self.flag.store(1, Ordering::Release);
    }

    /// Waits for [`Lists::signal`].
    pub fn await_signal(&self) {
        let _ = self.flag.wait_while(Patience::Turn, |flag| flag == 0);
    }

    /// Checks the list, and the words of the nodes that threads own.
    ///
    /// # Panics
    /// The list is not whole, or a node was written by a thread that does not own it.
    pub fn check(&self) {
        let nodes = (A.0..NUMBERS as u32).map(Node);
        let (on, off): (Vec<_>, Vec<_>) = nodes.partition(|node| self.owners[node.0 as usize].get() == Owner::List);
        for node in off {
            let [next, prev] = self.words(node);
            let left = Owner::Thread(next, prev);
            assert_eq!(
                left,
                self.owners[node.0 as usize].get(),
                "somebody wrote into {node:?}, which has another owner"
            );
        }
        let along = |step: fn(&Links, Node) -> Node| {
            let nodes = std::iter::successors(Some(HEAD), |&node| Some(step(&self.links, node)));
            nodes.skip(1).take_while(|&node| node != HEAD).take(NUMBERS).collect::<Vec<_>>()
        };
        let (mut forwards, mut backwards) = (along(smp_list::next), along(smp_list::prev));
        backwards.reverse();
        assert_eq!(forwards, backwards, "the list is not the same both ways");
        forwards.sort_unstable();
        assert_eq!(forwards, on, "nodes are lost or doubled");
    }
}

//! What a model of `smp_list` plays on: one list, and a few nodes that are on it or belong to a thread.
//!
//! A thread owns a node from the moment in which taking it off has returned until it puts it on again, and may do with its words
//! whatever it likes. Here it writes into them what does most harm, the numbers of other nodes, and finds the same there when
//! the model ends, or else somebody has touched what is not theirs. Without that, almost nothing would show: a list whose fences
//! are missing still ends up whole.
//!
//! Each node has a payload of plain memory as well, which its owner writes.
//!
//! At the end the list must have exactly the nodes that were left on it, the same both ways.

use framewright::machine::{Ordering, Patience, Word};
use framewright::smp_list::{self, Node};
use framewright::{Link, Machine};

use crate::kept::{Note, Payload};
use crate::loom_machine::LoomMachine;
use crate::{published, session};

/// The list's head.
pub const HEAD: Node = Node(1);
/// Nodes, as they stand on the list in the beginning if all are there.
pub const A: Node = Node(2);
/// See [`A`].
pub const B: Node = Node(3);
/// See [`A`].
pub const C: Node = Node(4);
/// Never on the list in the beginning.
pub const N: Node = Node(5);
/// See [`N`].
pub const O: Node = Node(6);
const NUMBERS: usize = 7;

/// Who has a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    List,
    /// A thread, which left these in its words.
    Thread(u32, u32),
}

/// Words of nodes; those at 0 are nobody's.
#[derive(Default)]
pub struct Links([Link<LoomMachine>; NUMBERS]);

impl smp_list::Links<LoomMachine> for Links {
    fn link(&self, node: Node) -> Option<&Link<LoomMachine>> {
        if node == Node::NOBODY { None } else { self.0.get(node.0 as usize) }
    }

    fn is_head(&self, node: Node) -> bool {
        node == HEAD
    }
}

/// See the module's description.
pub struct Lists {
    links: Links,
    payloads: [Payload; NUMBERS],
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
            payloads: std::array::from_fn(|_| Payload::new()),
            owners: std::array::from_fn(|_| Note::new(Owner::Thread(0, 0))),
            flag: Word::new(0),
        };
        smp_list::make_empty(&lists.links, HEAD);
        nodes.iter().rev().for_each(|&node| lists.add(node));
        lists
    }

    /// The same, and waits that only damage could make endless end early.
    pub fn impatient(nodes: &[Node]) -> Lists {
        session::with(|session| session.impatient.set(true));
        Lists::of(nodes)
    }

    fn write(&self, node: Node) {
        self.payloads[node.0 as usize].write();
    }

    fn set_owner(&self, node: Node, owner: Owner) {
        self.owners[node.0 as usize].set(owner);
    }

    fn words(&self, node: Node) -> [u32; 2] {
        self.links.0[node.0 as usize].words().map(|(_, word)| word.load(Ordering::Relaxed))
    }

    /// Takes a node off.
    pub fn del(&self, node: Node) {
        assert_eq!(smp_list::del(&MACHINE, &self.links, node), Ok(()));
        self.own(node);
    }

    /// The same as it was published.
    pub fn del_as_published(&self, node: Node) {
        published::del(&MACHINE, &self.links, node);
        self.own(node);
    }

    fn own(&self, node: Node) {
        self.write(node);
        self.set_owner(node, Owner::Thread(0, 0));
    }

    /// Takes a node off, or gives up; says whether it did.
    pub fn try_del(&self, node: Node) -> bool {
        let is_off = smp_list::del(&MACHINE, &self.links, node).is_ok();
        if is_off {
            self.own(node);
        }
        is_off
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

    /// Puts one on, or gives up.
    pub fn try_add(&self, node: Node) {
        if smp_list::add(&MACHINE, &self.links, HEAD, node).is_ok() {
            self.disown(node);
        }
    }

    /// Puts a chain of two on.
    pub fn splice(&self, first: Node, last: Node) {
        [first, last].into_iter().for_each(|node| self.disown(node));
        smp_list::chain(&self.links, first, last);
        assert_eq!(smp_list::splice(&MACHINE, &self.links, HEAD, first, last), Ok(()));
    }

    /// The owner of a node writes these into its words.
    pub fn fill(&self, node: Node, (next, prev): (Node, Node)) {
        let words = self.links.0[node.0 as usize].words();
        for ((_, word), value) in words.into_iter().zip([next, prev]) {
            word.store(value.0, Ordering::Relaxed);
        }
        self.set_owner(node, Owner::Thread(next.0, prev.0));
    }

    /// Tells another thread that it may take off what was put on.
    pub fn signal(&self) {
        self.flag.store(1, Ordering::Release);
    }

    /// Waits for that.
    pub fn await_signal(&self) {
        let _ = self.flag.wait_while(Patience::Turn, |flag| flag == 0);
    }

    /// What must hold at the end.
    ///
    /// # Panics
    /// It does not.
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

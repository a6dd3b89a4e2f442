//! Lists that many virtual CPUs change at once, in random schedules, with stores that are kept back and without.
//!
//! A CPU takes off nodes that it has won by an exchange on the node's flag, writes into their words what does most harm
//! there, and later finds it unchanged, puts them on a list again, and sets the flag. That is how an allocator does it:
//! the state word of a block is its flag.
//!
//! `LIST_OPERATIONS=10000000` in the environment makes it as many operations on each number of CPUs.

use std::cell::{Cell, RefCell};

use framewright::machine::{Ordering, Word};
use framewright::smp_list::{self, Links, Node};
use framewright::{Link, Machine};
use framewright_sim::Sim;
use framewright_sim::arena::{Arena, Packing};
use framewright_sim::machine::named;
use framewright_sim::run::{Options, Schedule, Simulation, here};

/// Numbers from 1 up are heads, then come nodes.
const HEADS: u32 = 3;
/// Nodes for each CPU, so few that neighbours meet, and how many of them a CPU takes off at most.
const NODES_PER_CPU: u32 = 3;
const MOST_OWN: usize = 2;
const ROUNDS: usize = 10;

type Flag = <Sim as Machine>::U32;

struct Words<'a> {
    links: &'a [Link<Sim>],
    /// Of each node, whether it is on a list and nobody is taking it off.
    flags: &'a [Flag],
    nodes: u32,
}

impl Links<Sim> for Words<'_> {
    fn link(&self, node: Node) -> Option<&Link<Sim>> {
        if node == Node::NOBODY { None } else { self.links.get(node.0 as usize) }
    }

    fn is_head(&self, node: Node) -> bool {
        (1..=HEADS).contains(&node.0)
    }
}

/// A node that a CPU took off, and what it wrote into it.
#[derive(Clone, Copy)]
struct Own {
    node: Node,
    left: [u32; 2],
}

fn random(below: u32) -> u32 {
    (here::random() % u64::from(below)) as u32
}

impl<'a> Words<'a> {
    fn words(&self, node: Node) -> [&Flag; 2] {
        self.links[node.0 as usize].words().map(|(_, word)| word)
    }

    /// Takes off a node, if one is easily found.
    fn take(&self) -> Option<Own> {
        let mut tries = (0..8).map(|_| Node(1 + HEADS + random(self.nodes)));
        let node = tries.find(|node| self.flags[node.0 as usize].cas(1, 0, Ordering::Acquire).is_ok())?;
        // Perhaps: its neighbours come and go.
        let neighbours = [smp_list::next(self, node).0, smp_list::prev(self, node).0];
        smp_list::del(&Sim, self, node).expect("the node is on its list");
        assert_eq!(self.words(node).map(|word| word.load(Ordering::Relaxed)), [0, 0]);
        let left = if random(2) == 0 { neighbours } else { [random(1 + HEADS + self.nodes), neighbours[0]] };
        self.words(node).into_iter().zip(left).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        Some(Own { node, left })
    }

    /// Puts nodes on a list together.
    fn put(&self, nodes: &[Own]) {
        for &Own { node, left } in nodes {
            let found = self.words(node).map(|word| word.load(Ordering::Relaxed));
            assert_eq!(found, left, "somebody wrote into {node:?}, which has another owner");
        }
        nodes.windows(2).for_each(|pair| smp_list::chain(self, pair[0].node, pair[1].node));
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return };
        smp_list::splice(&Sim, self, Node(1 + random(HEADS)), first.node, last.node).expect("the list is whole");
        nodes.iter().for_each(|own| self.flags[own.node.0 as usize].store(1, Ordering::Release));
    }

    /// The nodes on all lists, which must be the same both ways.
    fn walk(&self) -> Vec<Node> {
        let along = |head: Node, step: fn(&Words<'a>, Node) -> Node| {
            let nodes = std::iter::successors(Some(head), |&node| Some(step(self, node)));
            nodes.skip(1).take_while(|&node| node != head).take(self.nodes as usize + 1).collect::<Vec<_>>()
        };
        let lists = (1..=HEADS).map(Node).map(|head| {
            let (forwards, mut backwards) = (along(head, smp_list::next), along(head, smp_list::prev));
            backwards.reverse();
            assert_eq!(forwards, backwards, "list {head:?} is not the same both ways");
            forwards
        });
        lists.flatten().collect()
    }
}

/// Runs operations and returns how many nodes were removed.
fn run(cpus: usize, seed: u64, delays: bool, operations: usize) -> usize {
    let arena = Arena::new(1 << 20);
    let nodes = NODES_PER_CPU * cpus as u32;
    let count = (1 + HEADS + nodes) as usize;
    let links = arena.place("links", (true, Packing::Spread(8)), count, |_| Link::default());
    let flags: &[Flag] = arena.place("flags", (true, Packing::Spread(4)), count, |_| Word::new(0));
    let words = Words { links, flags, nodes };
    (1..=HEADS).for_each(|head| smp_list::make_empty(&words, Node(head)));
    for node in (1 + HEADS..).take(nodes as usize) {
        smp_list::add(&Sim, &words, Node(1 + node % HEADS), Node(node)).unwrap();
        flags[node as usize].store(1, Ordering::Relaxed);
    }
    let model = named("skylake-2x28").unwrap().model();
    let schedule = Schedule::Random([2, 10, 50][seed as usize % 3]);
    let options = Options { cpus, seed, schedule, warm_up: 0, window: 1 << 50, trace: false };
    let mut simulation = Simulation::new(&model, &arena, &options).unwrap();
    simulation.take_chances(delays, None, Vec::new());
    let owned: Vec<RefCell<Vec<Own>>> = (0..cpus).map(|_| RefCell::default()).collect();
    let taken = Cell::new(0);
    for _ in 0..ROUNDS {
        let body = |cpu: usize| {
            let mut own = owned[cpu].borrow_mut();
            for _ in 0..operations / ROUNDS / cpus {
                if own.len() < MOST_OWN && random(2) == 0 {
                    let one = words.take();
                    taken.set(taken.get() + usize::from(one.is_some()));
                    own.extend(one);
                } else {
                    let keep = own.len() - own.len().min(1 + random(3) as usize);
                    words.put(&own.split_off(keep));
                }
            }
        };
        simulation.run(body).unwrap_or_else(|deadlock| panic!("seed {seed}: {deadlock:?}"));
        let mut found = words.walk();
        found.extend(owned.iter().flat_map(|own| own.borrow().iter().map(|own| own.node).collect::<Vec<_>>()));
        found.sort_unstable();
        assert!(found.into_iter().eq((1 + HEADS..).take(nodes as usize).map(Node)), "nodes are lost or doubled");
    }
    taken.get()
}

#[test]
fn random_schedules_leave_whole_lists() {
    let operations = std::env::var("LIST_OPERATIONS").map_or(1_000_000, |number| number.parse().expect("a number"));
    const RUNS: usize = 6;
    for cpus in [8, 112] {
        let mut taken = 0;
        for seed in 0..RUNS {
            taken += run(cpus, seed as u64, seed % 2 == 1, operations / RUNS);
        }
        println!("{cpus} CPUs: {operations} operations, {taken} nodes taken off");
        assert!(taken > operations / 10, "{taken} of {operations}");
    }
}

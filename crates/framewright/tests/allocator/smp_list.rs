//! `smp_list` with one CPU: it is the list that a deque is, and damage is an error that changes nothing.

use std::collections::VecDeque;

use framewright::machine::{Ordering, Word};
use framewright::smp_list::{self, Broken, Link, Links, Node};
use framewright_rt::Solo;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

/// Words of nodes; those at 0 belong to no list.
struct Words(Vec<Link<Solo<'static>>>);

impl Links<Solo<'static>> for Words {
    fn link(&self, node: Node) -> Option<&Link<Solo<'static>>> {
        if node == Node::NOBODY { None } else { self.0.get(node.0 as usize) }
    }

    fn is_head(&self, node: Node) -> bool {
        HEADS.contains(&node)
    }
}

const HEADS: [Node; 2] = [Node(1), Node(2)];
const NODES: u32 = 12;

/// Two empty lists, and nodes on none.
fn lists() -> Words {
    let words = Words((0..=HEADS.len() as u32 + NODES).map(|_| Link::default()).collect());
    HEADS.into_iter().for_each(|head| smp_list::make_empty(&words, head));
    words
}

fn node(number: u32) -> Node {
    Node(HEADS.len() as u32 + 1 + number % NODES)
}

/// The values of all words.
fn values(words: &Words) -> Vec<u32> {
    let value = |word: &<Solo<'static> as framewright::Machine>::U32| word.load(Ordering::Relaxed);
    words.0.iter().flat_map(|link| link.words().map(|(_, word)| value(word))).collect()
}

/// The nodes of a list, walked forwards; walked backwards they must be the same.
fn walk(words: &Words, head: Node) -> Vec<Node> {
    let along = |step: fn(&Words, Node) -> Node| {
        let nodes = std::iter::successors(Some(head), |&node| Some(step(words, node)));
        nodes.skip(1).take_while(|&node| node != head).take(words.0.len()).collect::<Vec<_>>()
    };
    let (forwards, mut backwards) = (along(smp_list::next), along(smp_list::prev));
    backwards.reverse();
    assert_eq!(forwards, backwards, "the list is not the same both ways");
    forwards
}

#[derive(Clone, Debug)]
enum Deed {
    Del(u32),
    Add(usize, u32),
    Splice(usize, Vec<u32>),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let list = 0..HEADS.len();
    vec(
        prop_oneof![
            3 => any::<u32>().prop_map(Deed::Del),
            2 => (list.clone(), any::<u32>()).prop_map(|(list, node)| Deed::Add(list, node)),
            2 => (list, vec(any::<u32>(), 1..6)).prop_map(|(list, nodes)| Deed::Splice(list, nodes)),
        ],
        0..60,
    )
}

proptest! {
    #[test]
    fn it_is_a_deque(deeds in deeds()) {
        let (machine, words) = (Solo::new(&[]), lists());
        let mut deques = [VecDeque::new(), VecDeque::new()];
        for deed in deeds {
            let is_free = |deques: &[VecDeque<Node>; 2], node: Node| deques.iter().all(|deque| !deque.contains(&node));
            match deed {
                Deed::Del(number) => {
                    let node = node(number);
                    let expected = if is_free(&deques, node) { Err(Broken(node)) } else { Ok(()) };
                    prop_assert_eq!(smp_list::del(&machine, &words, node), expected);
                    deques.iter_mut().for_each(|deque| deque.retain(|&other| other != node));
                }
                Deed::Add(list, number) if is_free(&deques, node(number)) => {
                    prop_assert_eq!(smp_list::add(&machine, &words, HEADS[list], node(number)), Ok(()));
                    deques[list].push_front(node(number));
                }
                Deed::Add(..) => {}
                Deed::Splice(list, numbers) => {
                    let mut nodes: Vec<Node> = numbers.into_iter().map(node).filter(|&node| is_free(&deques, node)).collect();
                    nodes.sort_unstable();
                    nodes.dedup();
                    nodes.windows(2).for_each(|pair| smp_list::chain(&words, pair[0], pair[1]));
                    if let [first, .., last] | [first @ last] = nodes[..] {
                        prop_assert_eq!(smp_list::splice(&machine, &words, HEADS[list], first, last), Ok(()));
                    }
                    nodes.into_iter().rev().for_each(|node| deques[list].push_front(node));
                }
            }
            for (deque, head) in deques.iter().zip(HEADS) {
                prop_assert_eq!(walk(&words, head), Vec::from_iter(deque.iter().copied()));
            }
            for node in (0..NODES).map(node) {
                prop_assert_eq!(smp_list::is_linked(&words, node), !is_free(&deques, node));
                let off = (Node::NOBODY, Node::NOBODY);
                prop_assert_eq!((smp_list::next(&words, node), smp_list::prev(&words, node)) == off, is_free(&deques, node));
            }
        }
    }

    /// One word is damaged: a call that meets it fails and changes nothing, or is right without it.
    #[test]
    fn damage_changes_nothing(
        at in 0..2 * (HEADS.len() + 4),
        value in prop_oneof![0..20_u32, Just(u32::MAX), any::<u32>()],
        takes in any::<bool>(),
        number in 0..6_u32,
    ) {
        let (machine, words) = (Solo::new(&[]), lists());
        for number in 0..4 {
            smp_list::add(&machine, &words, HEADS[number as usize % 2], node(number)).unwrap();
        }
        let (_, word) = words.0[1 + at / 2].words()[at % 2];
        let was = word.load(Ordering::Relaxed);
        word.store(value, Ordering::Relaxed);
        let before = values(&words);
        let result = match takes {
            true => smp_list::del(&machine, &words, node(number)),
            false if number < 4 => Ok(()),
            false => smp_list::add(&machine, &words, HEADS[0], node(number)),
        };
        if result.is_err() {
            prop_assert_eq!(values(&words), before);
        } else if values(&words) != before && word.load(Ordering::Relaxed) == value {
            // The damage is where it was, and all else is as if it had never been there.
            word.store(was, Ordering::Relaxed);
            HEADS.into_iter().for_each(|head| drop(walk(&words, head)));
        }
    }
}

#[test]
fn numbers_that_no_node_has_are_errors() {
    let (machine, words) = (Solo::new(&[]), lists());
    let (head, inside, outside) = (HEADS[0], node(0), Node(99));
    let before = values(&words);
    for nobody in [Node::NOBODY, outside] {
        assert_eq!(smp_list::del(&machine, &words, nobody), Err(Broken(nobody)));
        assert_eq!(smp_list::add(&machine, &words, nobody, inside), Err(Broken(nobody)));
        assert_eq!(smp_list::add(&machine, &words, head, nobody), Err(Broken(nobody)));
        assert_eq!(smp_list::splice(&machine, &words, head, inside, nobody), Err(Broken(nobody)));
        smp_list::chain(&words, inside, nobody);
        smp_list::make_empty(&words, nobody);
        assert_eq!(smp_list::next(&words, nobody), Node::NOBODY);
    }
    assert_eq!(smp_list::add(&machine, &words, head, head), Err(Broken(head)));
    assert_eq!(smp_list::del(&machine, &words, node(0)), Err(Broken(node(0))), "a node on no list");
    assert_eq!(values(&words), before);
}

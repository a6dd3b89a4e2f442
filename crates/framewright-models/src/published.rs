//! Taking a node off a list as it was published in 2018: with one check too few, for models to find.
//!
//! The difference to `smp_list.rs` of the core is in step 3. When the node before leaves, the claimed node names the
//! next one before it and passes a fence. Then it changes the word of *that* node without checking again that the node
//! still is the one before. Step 2 does check, but step 3 relies on the answer after the fence: by then it may be out
//! of date, and the node may have another owner.

use framewright::Machine;
use framewright::machine::{Ordering, Patience, Word};
use framewright::smp_list::{Links as _, Node};

use crate::lists::Links;
use crate::loom_machine::LoomMachine;

type U32 = <LoomMachine as Machine>::U32;

fn words(links: &Links, node: u32) -> [&U32; 2] {
    let link = links.link(Node(node)).expect("a node of the list");
    link.words().map(|(_, word)| word)
}

fn wait_while(word: &U32, waiting: impl FnMut(u32) -> bool) -> u32 {
    word.wait_while(Patience::Turn, waiting).unwrap_or_default()
}

/// Takes a node off the list it is on.
pub fn del(machine: &LoomMachine, links: &Links, Node(node): Node) {
    let [own_next, own_prev] = words(links, node);
    // Step 1.
    let (next, mut prev) = loop {
        let next = wait_while(own_next, |next| next == 0);
        let prev = own_prev.load(Ordering::Acquire);
        if own_next.cas(next, prev, Ordering::AcqRel).is_ok() {
            break (next, prev);
        }
    };
    let republish = |prev: u32| {
        own_next.store(prev, Ordering::Release);
        machine.fence();
    };
    // Step 2.
    machine.fence();
    loop {
        let now = own_prev.load(Ordering::Acquire);
        if now == prev {
            break;
        }
        prev = now;
        republish(prev);
    }
    // Step 3.
    loop {
        let [before_next, _] = words(links, prev);
        match before_next.cas(node, 0, Ordering::AcqRel) {
            Ok(_) => break,
            Err(0) => _ = wait_while(before_next, |next| next == 0),
            Err(_) => _ = wait_while(own_prev, |now| now == prev),
        }
        let now = own_prev.load(Ordering::Acquire);
        if now != prev {
            prev = now;
            republish(prev);
        }
    }
    // Step 4.
    let ([before_next, _], [after_next, after_prev]) = (words(links, prev), words(links, next));
    after_prev.store(prev, Ordering::Release);
    machine.fence();
    wait_while(after_next, |next| next == node);
    before_next.store(next, Ordering::Release);
    own_next.store(0, Ordering::Relaxed);
    own_prev.store(0, Ordering::Relaxed);
}

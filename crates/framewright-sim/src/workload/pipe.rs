//! `producer-consumer` and `page-bench05`: one CPU of a pair allocates, a ring carries, the other frees.
//!
//! The ring is what the kernel's `ptr_ring` is between one producer and one consumer: an array of words, each empty or
//! a page. Its two ends are private to the sides, so what moves between the CPUs is the array's lines and the pages'
//! own data. A side that finds the ring full or empty waits for that word. The consumer begins when half of the ring is
//! filled, so that the sides are far apart, as in the module; the faster side catches up later.
//!
//! A CPU without a partner fills its ring and empties it by turns.

use framewright::machine::{Ordering, Patience, Word};
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::{Pfn, Request};

use super::floor::{Floor, Trouble};
use super::memory_map::FIRST;
use super::page_bench::atomic;
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::words::SimWord;
use crate::memory::arena::Packing;
use crate::model::Topology;
use crate::settings::settings;

/// No page yet, and the end of the stream.
const EMPTY: u32 = 0;
const CLOSED: u32 = u32::MAX;

settings! {
    /// Options of `page-bench05`.
    PageBench05 {
        ring: u32 = 256, 2..=65536, "pages that a ring has room for; the module's has 64000";
        order: u32 = 0, 0..=10, "order of the blocks";
    }
}

settings! {
    /// Options of `producer-consumer`.
    ProducerConsumer {
        ring: u32 = 256, 2..=65536, "pages that a ring has room for";
        work: u32 = 0, 0..=1_000_000, "cycles that each side works on a page";
        far: bool = false, 0..=1, "whether pairs are made of CPUs of different sockets, as far as there are such";
    }
}

impl WorkloadKind for PageBench05 {
    const NAME: &'static str = "page-bench05";
    const SUMMARY: &'static str =
        "even CPUs allocate, odd ones free what comes through a ring (page_bench05_cross_cpu)";
    const UNIT: &'static str = "block";

    fn needs(&self, cpus: usize) -> Needs {
        needs(self.ring, 1 << self.order, cpus)
    }

    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        Ok(Box::new(Pipes::new(ground, (self.ring, 0, false), atomic(self.order))))
    }
}

impl WorkloadKind for ProducerConsumer {
    const NAME: &'static str = "producer-consumer";
    const SUMMARY: &'static str = "one CPU of each pair allocates pages, the other frees what comes through a ring";
    const UNIT: &'static str = "page";

    fn needs(&self, cpus: usize) -> Needs {
        needs(self.ring, 1, cpus)
    }

    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let request = Request::page(GFP_HIGHUSER_MOVABLE);
        Ok(Box::new(Pipes::new(ground, (self.ring, self.work, self.far), request)))
    }
}

fn needs(ring: u32, frames: u64, cpus: usize) -> Needs {
    // All producers may be on one node, and each end of a ring may hold one block more.
    let frames = (u64::from(ring) + 1) * frames;
    let bytes = cpus * (ring as usize * size_of::<u32>()).next_multiple_of(128);
    Needs { frames, bytes: (bytes, 0), length: Length::of_rounds(ring as usize) }
}

/// The role of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Produces,
    Consumes,
    Both,
}

struct Pipes<'a> {
    request: Request,
    work: u32,
    /// The role and the ring of each CPU.
    ends: Vec<(Role, usize)>,
    ring: usize,
    /// Words from one ring to the next: rings share no line, nor a pair of lines.
    stride: usize,
    words: &'a [SimWord<u32>],
}

/// Returns the role and ring of each CPU.
///
/// Pairs are neighbours, or CPUs of different sockets.
fn ends(topology: Topology, cpus: usize, far: bool) -> Vec<(Role, usize)> {
    let mut order: Vec<usize> = (0..cpus).collect();
    let pairs = cpus / 2;
    if far {
        order.sort_by_key(|&cpu| (topology.socket_of(cpu), cpu));
    }
    let mut ends = vec![(Role::Both, pairs); cpus];
    for pair in 0..pairs {
        let (producer, consumer) = if far { (pair, pairs + pair) } else { (2 * pair, 2 * pair + 1) };
        ends[order[producer]] = (Role::Produces, pair);
        ends[order[consumer]] = (Role::Consumes, pair);
    }
    ends
}

impl<'a> Pipes<'a> {
    fn new(ground: &Ground<'a>, (ring, work, far): (u32, u32, bool), request: Request) -> Pipes<'a> {
        let topology = ground.model.topology;
        let ends = ends(topology, ground.cpus, far);
        let ring = ring as usize;
        let stride = ring.next_multiple_of(32);
        let words = ground
            .arena
            .place("ring", (false, Packing::Natural), ground.cpus.div_ceil(2) * stride, |_| Word::new(EMPTY));
        let producer = |pipe| ends.iter().position(|&(role, of)| of == pipe && role != Role::Consumes).unwrap_or(0);
        let homes: Vec<usize> = (0..ground.cpus.div_ceil(2)).map(|pipe| topology.socket_of(producer(pipe))).collect();
        ground.arena.set_homes("ring", |word| homes[word / stride]);
        Pipes { request, work, ends, ring, stride, words }
    }

    /// Returns the `at`-th word of a ring, counted round and round.
    fn word(&self, pipe: usize, at: usize) -> &SimWord<u32> {
        &self.words[pipe * self.stride + at % self.ring]
    }

    /// Allocates a block and puts it into the ring.
    fn produce(&self, floor: &Floor<'_>, word: &SimWord<u32>) -> Result<(), Trouble> {
        let pfn = floor.alloc(&self.request)?;
        floor.work(self.work);
        put(word, (pfn.0 - FIRST) as u32 + 1);
        Ok(())
    }

    /// Takes a block from the ring and frees it; returns false at the end of the stream.
    fn consume(&self, floor: &Floor<'_>, word: &SimWord<u32>) -> Result<bool, Trouble> {
        let value = word.wait_while(Patience::Turn, |value| value == EMPTY).unwrap_or(CLOSED);
        word.store(EMPTY, Ordering::Release);
        if value == CLOSED {
            return Ok(false);
        }
        floor.work(self.work);
        floor.free(Pfn(FIRST + u64::from(value) - 1), self.request.order)?;
        Ok(true)
    }
}

/// Waits until a word is empty and fills it.
fn put(word: &SimWord<u32>, value: u32) {
    let _ = word.wait_while(Patience::Turn, |value| value != EMPTY);
    word.store(value, Ordering::Release);
}

impl Play for Pipes<'_> {
    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let (role, pipe) = self.ends[cpu];
        let half = self.ring / 2;
        let mut at = 0;
        match role {
            Role::Produces => {
                while floor.goes_on() || at < half {
                    self.produce(floor, self.word(pipe, at))?;
                    at += 1;
                    if at % self.ring == 0 {
                        floor.done_round(0);
                    }
                }
                put(self.word(pipe, at), CLOSED);
            }
            Role::Consumes => {
                let _ = self.word(pipe, half - 1).wait_while(Patience::Turn, |value| value == EMPTY);
                while self.consume(floor, self.word(pipe, at))? {
                    at += 1;
                    if at % self.ring == 0 {
                        floor.done_round(self.ring);
                    }
                    floor.goes_on();
                }
            }
            Role::Both => {
                while floor.goes_on() {
                    (0..self.ring).try_for_each(|n| self.produce(floor, self.word(pipe, n)))?;
                    (0..self.ring).try_for_each(|n| self.consume(floor, self.word(pipe, n)).map(drop))?;
                    floor.done_round(self.ring);
                }
            }
        }
        Ok(())
    }
}

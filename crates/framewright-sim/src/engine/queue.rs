//! Which CPU runs next: the one with the least clock, or one drawn by lot.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use framewright_ops::rng::Rng;

use crate::model::Ps;

/// Bits of an entry that are the CPU's number.
const CPU_BITS: u32 = 11;
/// Most CPUs of a machine.
pub(crate) const MAX_CPUS: usize = 1 << 10;

/// CPUs that may go on now or at some time.
pub(crate) struct Queue {
    /// By time: ready CPUs, and waiting CPUs that have a deadline.
    heap: BinaryHeap<Reverse<u64>>,
    /// By lot: ready CPUs; the heap has the others.
    lot: Option<Lot>,
    /// The CPU that is already chosen, and the time from which it may run.
    next: Option<(Ps, u16)>,
    rng: Rng,
}

/// The random schedule.
struct Lot {
    ready: Vec<(Ps, u16)>,
    /// Mean number of accesses between two switches.
    switch_in: u64,
    /// Accesses until the next does.
    left: u64,
}

fn entry(at: Ps, cpu: u16) -> Reverse<u64> {
    Reverse(at << CPU_BITS | u64::from(cpu))
}

fn parts(Reverse(entry): Reverse<u64>) -> (Ps, u16) {
    (entry >> CPU_BITS, (entry & ((1 << CPU_BITS) - 1)) as u16)
}

impl Queue {
    /// Makes a queue by time, or by lot with one switch in `switch_in` accesses.
    pub(crate) fn new(seed: u64, switch_in: Option<u64>) -> Queue {
        let lot = switch_in.map(|switch_in| Lot { ready: Vec::new(), switch_in: switch_in.max(1), left: 1 });
        Queue { heap: BinaryHeap::new(), lot, next: None, rng: Rng::new(seed) }
    }

    /// Draws a number from the seed of the run.
    pub(crate) fn random(&mut self) -> u64 {
        self.rng.draw()
    }

    /// Returns the time up to which the running CPU need not look at the others.
    #[inline]
    pub(crate) fn horizon(&self, slack: Ps) -> Ps {
        if self.lot.is_some() {
            return 0;
        }
        self.heap.peek().map_or(Ps::MAX, |&top| parts(top).0 + slack)
    }

    /// Returns whether another CPU must run before the running one.
    ///
    /// The running CPU's clock may be `slack` ahead.
    pub(crate) fn must_wait(&mut self, clock: Ps, cpu: u16, slack: Ps) -> bool {
        if self.goes_on_by_lot() {
            return false;
        }
        let dice = if self.lot.is_some() { self.random() } else { 0 };
        match &mut self.lot {
            Some(lot) => {
                // Most turns are short and one in eight is long; their mean is `switch_in`.
                let most = lot.switch_in * if dice & 7 == 0 { 9 } else { 1 };
                lot.left = 1 + (dice >> 3) % most;
                !lot.ready.is_empty()
            }
            None => self.heap.peek().is_some_and(|top| top.0 < entry(clock.saturating_sub(slack), cpu).0),
        }
    }

    /// Returns whether the running CPU's turn by lot has another access left.
    #[inline]
    pub(crate) fn goes_on_by_lot(&mut self) -> bool {
        match &mut self.lot {
            Some(lot) if lot.left > 1 => {
                lot.left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Queues a CPU that may run from `at`.
    pub(crate) fn push_ready(&mut self, at: Ps, cpu: u16) {
        match &mut self.lot {
            Some(lot) => lot.ready.push((at, cpu)),
            None => self.heap.push(entry(at, cpu)),
        }
    }

    /// Queues the deadline of a waiting CPU.
    pub(crate) fn push_timed(&mut self, at: Ps, cpu: u16) {
        self.heap.push(entry(at, cpu));
    }

    /// Removes the deadline of a CPU that something else woke.
    pub(crate) fn remove(&mut self, cpu: u16) {
        self.heap.retain(|&entry| parts(entry).1 != cpu);
    }

    /// Lets the next CPU run before the running one, whose clock is `clock`.
    pub(crate) fn swap(&mut self, clock: Ps, cpu: u16) {
        if self.lot.is_some() {
            let number = self.random();
            let Some(lot) = &mut self.lot else { return };
            let at = (number % lot.ready.len().max(1) as u64) as usize;
            self.next = lot.ready.get_mut(at).map(|other| std::mem::replace(other, (clock, cpu)));
        } else if let Some(mut top) = self.heap.peek_mut() {
            self.next = Some(parts(*top));
            *top = entry(clock, cpu);
        }
    }

    /// Takes the next CPU, and the time from which it may run.
    pub(crate) fn pop(&mut self) -> Option<(Ps, u16)> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        let number = if self.lot.is_some() { self.random() } else { 0 };
        match &mut self.lot {
            Some(lot) if !lot.ready.is_empty() => {
                let at = (number % lot.ready.len() as u64) as usize;
                Some(lot.ready.swap_remove(at))
            }
            _ => self.heap.pop().map(parts),
        }
    }
}

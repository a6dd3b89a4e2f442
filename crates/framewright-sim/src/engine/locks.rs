//! How long CPUs waited for each lock, and how long they held it.
//!
//! Locks are the core's own code. The core says when a lock is wanted, taken and released; the times are read off the
//! CPU's clock. A wait inside another lock's wait belongs to the outer wait and is not counted again.
//!
//! An acquisition counts if it is in the window, with the whole of its wait. Sums of times are of the window alone: of
//! a wait that begins before it or ends after it, they have the part in between.

use std::collections::BTreeMap;
use std::fmt;

use framewright::machine::LockName;
use hdrhistogram::Histogram;

use crate::model::{Ps, ns};
use crate::report::{Distribution, LockSpan};

/// Most spans that are kept for a trace.
const MOST_SPANS: usize = 1 << 20;

/// A time, and the window of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockTime {
    pub(crate) clock: Ps,
    pub(crate) window: (Ps, Ps),
}

impl LockTime {
    fn counts(self) -> bool {
        (self.window.0..self.window.1).contains(&self.clock)
    }

    /// Returns the part of the time since `begin` that lies in the window.
    fn since(self, begin: Ps) -> Ps {
        self.clock.min(self.window.1).saturating_sub(begin.max(self.window.0))
    }
}

/// A lock that a CPU waits for or holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taking {
    lock: LockName,
    wanted: Ps,
    taken: Option<Ps>,
    /// The CPU wanted it while it waited for another lock.
    is_nested: bool,
}

impl fmt::Display for Taking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.taken.is_some() { "holds" } else { "wants" }, self.lock)
    }
}

/// Statistics of one lock.
pub(crate) struct LockStats {
    pub(crate) contended: u64,
    /// Time that was waited where the lock was found taken.
    pub(crate) contended_wait: Ps,
    waiting: Histogram<u64>,
    holding: Histogram<u64>,
    waited: Ps,
    held: Ps,
}

impl LockStats {
    fn new() -> LockStats {
        let histogram = || {
            let mut histogram = Histogram::new(3).expect("three digits are possible");
            histogram.auto(true);
            histogram
        };
        LockStats { contended: 0, contended_wait: 0, waiting: histogram(), holding: histogram(), waited: 0, held: 0 }
    }

    pub(crate) fn taken(&self) -> u64 {
        self.waiting.len()
    }

    pub(crate) fn waiting(&self) -> Distribution {
        distribution(&self.waiting, self.waited)
    }

    pub(crate) fn holding(&self) -> Distribution {
        distribution(&self.holding, self.held)
    }
}

/// Adds a time to a histogram, which grows as it must.
fn note(histogram: &mut Histogram<u64>, ps: Ps) {
    histogram.record(ps).expect("a histogram that grows takes every number");
}

fn distribution(histogram: &Histogram<u64>, total: Ps) -> Distribution {
    let quantile = |q| ns(histogram.value_at_quantile(q));
    if histogram.is_empty() {
        return Distribution::default();
    }
    Distribution {
        count: histogram.len(),
        total_ns: ns(total),
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        max_ns: ns(histogram.max()),
    }
}

/// All locks.
#[derive(Default)]
pub(crate) struct Locks {
    pub(crate) stats: BTreeMap<LockName, LockStats>,
    /// Each span, if a trace is wanted.
    pub(crate) spans: Option<Vec<LockSpan>>,
}

impl Locks {
    /// Notes that a CPU wants a lock.
    pub(crate) fn wanted(taking: &mut Vec<Taking>, lock: LockName, now: Ps) {
        let is_nested = taking.iter().any(|taking| taking.taken.is_none());
        taking.push(Taking { lock, wanted: now, taken: None, is_nested });
    }

    /// Notes that a CPU has the lock; `spun` if it had to wait.
    pub(crate) fn taken(&mut self, taking: &mut [Taking], lock: LockName, spun: bool, now: LockTime) {
        let Some(this) = taking.iter_mut().rev().find(|taking| taking.lock == lock && taking.taken.is_none()) else {
            return;
        };
        this.taken = Some(now.clock);
        let waited = now.since(this.wanted);
        if this.is_nested || !now.counts() && waited == 0 {
            return;
        }
        let stats = self.stats.entry(lock).or_insert_with(LockStats::new);
        stats.waited += waited;
        stats.contended_wait += if spun { waited } else { 0 };
        if now.counts() {
            note(&mut stats.waiting, now.clock - this.wanted);
            stats.contended += u64::from(spun);
        }
    }

    /// Notes that a CPU released the lock, or gave up waiting for it.
    pub(crate) fn released(
        &mut self,
        taking: &mut Vec<Taking>,
        lock: LockName,
        (cpu, node): (usize, usize),
        now: LockTime,
    ) {
        let Some(at) = taking.iter().rposition(|taking| taking.lock == lock) else { return };
        let Taking { wanted, taken, .. } = taking.remove(at);
        let Some(taken) = taken.filter(|&taken| now.counts() || now.since(taken) != 0) else { return };
        let stats = self.stats.entry(lock).or_insert_with(LockStats::new);
        stats.held += now.since(taken);
        if !now.counts() {
            return;
        }
        note(&mut stats.holding, now.clock - taken);
        if let Some(spans) = self.spans.as_mut().filter(|spans| spans.len() < MOST_SPANS) {
            let (wanted_ns, taken_ns, released_ns) = (wanted / 1000, taken / 1000, now.clock / 1000);
            spans.push(LockSpan { cpu, node, lock: lock.to_string(), wanted_ns, taken_ns, released_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use framewright::machine::LockName;
    use framewright::units::{CpuId, NodeId, ZoneIdx, ZoneKind};

    use super::{LockTime, Locks};

    fn at(clock: u64) -> LockTime {
        LockTime { clock, window: (0, 1000) }
    }

    #[test]
    fn sums_are_of_the_window_alone() {
        let lock = LockName::zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal));
        let (mut locks, mut one) = (Locks::default(), Vec::new());
        for (wanted, taken, released) in [(0, 2, 4), (3, 8, 10), (990, 1100, 1200), (1300, 1400, 1500)] {
            Locks::wanted(&mut one, lock, wanted);
            let [taken, released] = [taken, released].map(|clock| LockTime { clock, window: (5, 1000) });
            locks.taken(&mut one, lock, true, taken);
            locks.released(&mut one, lock, (0, 0), released);
        }
        let stats = &locks.stats[&lock];
        assert_eq!((stats.taken(), stats.contended), (1, 1));
        assert_eq!((stats.contended_wait, stats.waited, stats.held), (3 + 10, 3 + 10, 2));
        assert_eq!((stats.waiting().max_ns, stats.holding().max_ns), (0.005, 0.002), "a length is that of the whole");
    }

    #[test]
    fn cpus_that_share_a_lock_each_hold_it() {
        let lock = LockName::zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal));
        let (mut locks, mut first, mut second) = (Locks::default(), Vec::new(), Vec::new());
        Locks::wanted(&mut first, lock, 0);
        locks.taken(&mut first, lock, false, at(10));
        Locks::wanted(&mut second, lock, 20);
        locks.taken(&mut second, lock, true, at(50));
        locks.released(&mut first, lock, (0, 0), at(110));
        locks.released(&mut second, lock, (1, 0), at(120));
        let stats = &locks.stats[&lock];
        assert_eq!((stats.contended, stats.contended_wait, stats.taken()), (1, 30, 2));
        let (waiting, holding) = (stats.waiting(), stats.holding());
        assert_eq!((waiting.count, waiting.total_ns, waiting.max_ns), (2, 0.04, 0.03));
        assert_eq!((holding.count, holding.total_ns, holding.max_ns), (2, 0.17, 0.1));
        assert!(first.is_empty() && second.is_empty());
    }

    #[test]
    fn who_gives_up_waiting_waits_no_longer() {
        let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
        let (lists, lock) = (LockName::pcp(zone, CpuId(1)), LockName::zone(zone));
        let (mut locks, mut taking) = (Locks::default(), Vec::new());
        Locks::wanted(&mut taking, lists, 10);
        locks.released(&mut taking, lists, (0, 0), at(20));
        assert!(taking.is_empty() && locks.stats.is_empty());
        // So the next wait is no part of that one.
        Locks::wanted(&mut taking, lock, 30);
        locks.taken(&mut taking, lock, true, at(40));
        locks.released(&mut taking, lock, (0, 0), at(60));
        let stats = &locks.stats[&lock];
        assert_eq!((stats.contended, stats.contended_wait), (1, 10));
        assert_eq!((stats.waiting().count, stats.holding().count), (1, 1));
        assert!(taking.is_empty());
    }
}

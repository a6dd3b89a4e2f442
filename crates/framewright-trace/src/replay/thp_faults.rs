//! Huge page faults among the requests of a trace.
//!
//! A fault is not an event, so its requests have to reveal it. The kernels make them differently:
//!
//! | kernel | requests of a fault |
//! |---|---|
//! | since 5.4, several nodes | its own node (`__GFP_THISNODE`, `__GFP_NORETRY`), then any node with neither flag |
//! | older | one with `__GFP_THISNODE` |
//! | for one node only | one with neither flag |
//!
//! khugepaged and others ask for huge pages too, with at most one of the flags. These are no faults.
//!
//! The requests of a trace show its row: the rule with the most flags that any request satisfies holds for all of it.
//! It is known only at the end of the first pass, so that pass counts by all three ([`Candidates`]).
//!
//! Rejected: going by the task's name, which a tracer may have forgotten (`<...>`). Also rejected: taking an unmarked
//! request for the retry of a failed unmarked one, since no kernel without the flags tries twice.

use std::collections::HashSet;

use framewright::request::{__GFP_DIRECT_RECLAIM, __GFP_NORETRY, __GFP_THISNODE, Gfp};
use framewright::units::{MigrateType, Order, Pfn};

/// The rule that tells the first try of a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstTry {
    /// Every request for a huge page is one: no request has `__GFP_THISNODE`.
    Any,
    /// By `__GFP_THISNODE`: no request has `__GFP_NORETRY` as well.
    ThisNode,
    /// By `__GFP_THISNODE` and `__GFP_NORETRY` together.
    ThisNodeNoRetry,
}

/// The role of a request for a huge page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Try {
    First,
    Again,
    NoFault,
}

impl FirstTry {
    const ALL: [FirstTry; 3] = [FirstTry::Any, FirstTry::ThisNode, FirstTry::ThisNodeNoRetry];

    const fn flags(self) -> Gfp {
        match self {
            FirstTry::Any => Gfp::NONE,
            FirstTry::ThisNode => __GFP_THISNODE,
            FirstTry::ThisNodeNoRetry => Gfp(__GFP_THISNODE.0 | __GFP_NORETRY.0),
        }
    }

    /// The rule with the most flags that `gfp` satisfies.
    const fn of(gfp: Gfp) -> FirstTry {
        match (gfp.contains(__GFP_THISNODE), gfp.contains(__GFP_NORETRY)) {
            (true, true) => FirstTry::ThisNodeNoRetry,
            (true, false) => FirstTry::ThisNode,
            (false, _) => FirstTry::Any,
        }
    }

    /// The role of a request with `gfp`; `open` if its task has a fault that failed so far.
    pub(super) const fn classify(self, gfp: Gfp, open: bool) -> Try {
        if gfp.contains(self.flags()) {
            Try::First
        } else if open && !gfp.contains(__GFP_THISNODE) {
            Try::Again
        } else {
            Try::NoFault
        }
    }

    /// The flags of the second try after a failed one with `gfp`, if there is one.
    pub(super) fn second(self, gfp: Gfp) -> Option<Gfp> {
        let twice = self == FirstTry::ThisNodeNoRetry && gfp.contains(self.flags() | __GFP_DIRECT_RECLAIM);
        twice.then_some(gfp & !self.flags())
    }
}

/// Whether a request is one for a huge page of a process.
pub(super) fn is_huge(order: Order, migratetype: MigrateType, pageblock_order: Order) -> bool {
    order == pageblock_order && order.0 > 3 && migratetype == MigrateType::Movable
}

/// The kernel's faults by one rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) requests: u64,
    pub(super) count: u64,
    pub(super) served: u64,
    pub(super) peak_held: u64,
    /// Tasks with a fault whose tries all failed so far.
    open: HashSet<u32>,
    /// Huge pages that were served, of which no part has been freed.
    held: HashSet<Pfn>,
}

impl Faults {
    fn request(&mut self, rule: FirstTry, pid: u32, pfn: Option<Pfn>, gfp: Gfp) {
        let this = rule.classify(gfp, self.open.contains(&pid));
        if this == Try::NoFault {
            return;
        }
        self.requests += 1;
        self.count += u64::from(this == Try::First);
        match pfn {
            Some(pfn) => {
                self.open.remove(&pid);
                self.served += 1;
                self.held.insert(pfn);
                self.peak_held = self.peak_held.max(self.held.len() as u64);
            }
            None => {
                self.open.insert(pid);
            }
        }
    }
}

/// The kernel's faults by every rule, until it is known which one holds.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    faults: [Faults; 3],
    holds: FirstTry,
}

impl Candidates {
    pub(super) fn new() -> Candidates {
        Candidates { faults: Default::default(), holds: FirstTry::Any }
    }

    /// Counts a request for a huge page, with the kernel's answer.
    pub(super) fn request(&mut self, pid: u32, pfn: Option<Pfn>, gfp: Gfp) {
        self.holds = self.holds.max(FirstTry::of(gfp));
        for (faults, rule) in self.faults.iter_mut().zip(FirstTry::ALL) {
            faults.request(rule, pid, pfn, gfp);
        }
    }

    /// Some of the huge page that starts at `pfn` was freed.
    pub(super) fn freed(&mut self, pfn: Pfn) {
        for faults in &mut self.faults {
            if !faults.held.is_empty() {
                faults.held.remove(&pfn);
            }
        }
    }

    /// A whole huge page was moved.
    pub(super) fn moved(&mut self, old: Pfn, new: Pfn) {
        for faults in &mut self.faults {
            if faults.held.remove(&old) {
                faults.held.insert(new);
            }
        }
    }

    /// The rule that holds for the trace, and its counts.
    pub(super) fn settle(self) -> (FirstTry, Faults) {
        let [any, this_node, no_retry] = self.faults;
        let faults = match self.holds {
            FirstTry::Any => any,
            FirstTry::ThisNode => this_node,
            FirstTry::ThisNodeNoRetry => no_retry,
        };
        (self.holds, faults)
    }
}

#[cfg(test)]
mod tests {
    use framewright::request::{GFP_TRANSHUGE, GFP_TRANSHUGE_LIGHT};

    use super::*;

    const FIRST: Gfp = Gfp(GFP_TRANSHUGE.0 | __GFP_THISNODE.0 | __GFP_NORETRY.0);
    const NODE: Gfp = Gfp(GFP_TRANSHUGE.0 | __GFP_THISNODE.0);
    const PLAIN: Gfp = GFP_TRANSHUGE;

    #[test]
    fn requests_are_told_by_their_flags() {
        use FirstTry::{Any, ThisNode, ThisNodeNoRetry};
        let table = [
            // Rule, flags, the task has an open fault, what it is.
            (ThisNodeNoRetry, FIRST, false, Try::First),
            (ThisNodeNoRetry, FIRST, true, Try::First),
            (ThisNodeNoRetry, PLAIN, true, Try::Again),
            (ThisNodeNoRetry, PLAIN, false, Try::NoFault),
            (ThisNodeNoRetry, NODE, false, Try::NoFault),
            (ThisNodeNoRetry, NODE, true, Try::NoFault),
            (ThisNode, NODE, true, Try::First),
            (ThisNode, PLAIN, true, Try::Again),
            (ThisNode, PLAIN, false, Try::NoFault),
            (Any, PLAIN, false, Try::First),
            (Any, PLAIN, true, Try::First),
        ];
        for (rule, gfp, open, expected) in table {
            assert_eq!(rule.classify(gfp, open), expected, "{rule:?} {gfp} {open}");
        }
    }

    #[test]
    fn only_a_fault_of_two_tries_that_may_wait_has_a_second() {
        let light = GFP_TRANSHUGE_LIGHT | __GFP_THISNODE | __GFP_NORETRY;
        let table = [
            (FirstTry::ThisNodeNoRetry, FIRST, Some(PLAIN)),
            (FirstTry::ThisNodeNoRetry, light, None),
            (FirstTry::ThisNode, NODE, None),
            (FirstTry::Any, PLAIN, None),
        ];
        for (rule, gfp, second) in table {
            assert_eq!(rule.second(gfp), second, "{rule:?} {gfp}");
        }
    }

    /// Requests as (task, flags, answer), and the rule, faults, requests, served and peak that they make.
    #[test]
    fn a_trace_is_counted_by_the_rule_with_most_flags() {
        let got = |block: u64| Some(Pfn(block << 9));
        type Row<'a> = (&'a [(u32, Gfp, Option<Pfn>)], FirstTry, [u64; 4]);
        let table: [Row<'_>; 5] = [
            (
                &[(1, FIRST, None), (1, PLAIN, None), (1, FIRST, None), (1, PLAIN, got(1))],
                FirstTry::ThisNodeNoRetry,
                [2, 4, 1, 1],
            ),
            // Another task's unmarked request, and one of khugepaged's with one flag.
            (&[(1, FIRST, None), (2, PLAIN, got(1)), (3, NODE, got(2))], FirstTry::ThisNodeNoRetry, [1, 1, 0, 0]),
            (&[(1, NODE, None), (1, NODE, got(1)), (2, PLAIN, got(2))], FirstTry::ThisNode, [2, 2, 1, 1]),
            (
                &[(1, PLAIN, None), (1, PLAIN, None), (1, PLAIN, got(1)), (2, PLAIN, got(2))],
                FirstTry::Any,
                [4, 4, 2, 2],
            ),
            // The rule is known from the last request only.
            (&[(1, PLAIN, got(1)), (2, FIRST, got(2))], FirstTry::ThisNodeNoRetry, [1, 1, 1, 1]),
        ];
        for (requests, rule, counts) in table {
            let mut candidates = Candidates::new();
            requests.iter().for_each(|&(pid, gfp, pfn)| candidates.request(pid, pfn, gfp));
            let (holds, faults) = candidates.settle();
            let found = [faults.count, faults.requests, faults.served, faults.peak_held];
            assert_eq!((holds, found), (rule, counts), "{requests:?}");
        }
    }

    #[test]
    fn held_pages_follow_moves_until_they_are_freed() {
        let mut candidates = Candidates::new();
        candidates.request(1, Some(Pfn(512)), FIRST);
        candidates.moved(Pfn(512), Pfn(1024));
        candidates.freed(Pfn(512));
        candidates.request(1, Some(Pfn(512)), FIRST);
        candidates.freed(Pfn(1024));
        candidates.request(1, Some(Pfn(1024)), FIRST);
        let (_, faults) = candidates.settle();
        assert_eq!((faults.peak_held, faults.held.len()), (2, 2));
    }
}

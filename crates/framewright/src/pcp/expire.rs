//! Expires per-CPU lists of other nodes' zones: idle lists are emptied.
//!
//! A CPU fetches a batch of another node's memory for a single block, when its own node is short or a request names the
//! node. It may never need that memory again. Blocks that remain in its lists are lost for that node. So each refresh
//! ([`crate::Allocator::refresh_statistics`]) checks whether the lists were used since the previous one. The third
//! refresh since the last use frees all their blocks; the refresh that notices the use is the first. With a refresh
//! each second these are Linux's three seconds (`expire`). Lists of zones of the CPU's own node are not emptied.
//!
//! Rejected: Linux's test for use, which is whether the CPU kept something of the zone's counters. That depends on
//! thresholds. Traffic that stays within the lists goes unnoticed, and so does a batch that is reported at once. Here
//! blocks that were allocated and freed are counted anyway.

use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};

/// Refreshes until lists are emptied.
const ROUNDS: u32 = 3;
/// Bits that count the refreshes that are left.
const LEFT: u32 = 0b11;

/// The state of the lists at a refresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Round {
    /// They are empty, or were not used since they were last emptied.
    Nothing,
    /// They hold blocks and may still be used.
    Wait,
    /// They hold blocks and were idle for long enough.
    Expire,
}

record! {
    /// State of one CPU's lists of a zone at the last refresh.
    pub(crate) struct Expiry<M: Machine> {
        /// Traffic and refreshes left.
        ///
        /// The low two bits are the refreshes left until the lists are emptied. The bits above are the traffic through
        /// the lists by then, of which the low bits are enough. (Lists with a traffic of exactly 2^30 meanwhile would
        /// be taken for idle.)
        word("") seen: M::U32,
    }
}

impl<M: Machine> Expiry<M> {
    /// Returns how the next refresh will find the lists, after `traffic` in all.
    pub(crate) fn look(&self, traffic: u64, holds_blocks: bool) -> Round {
        next(self.seen.load(Ordering::Relaxed), traffic, holds_blocks).1
    }

    /// Makes that refresh; does nothing if another refresh runs at the same time.
    ///
    /// `empty` empties the lists, and returns whether it could claim them.
    pub(crate) fn refresh(&self, traffic: u64, holds_blocks: bool, empty: impl FnOnce() -> bool) -> Round {
        let before = self.seen.load(Ordering::Relaxed);
        let (after, round) = next(before, traffic, holds_blocks);
        if after != before && self.seen.cas(before, after, Ordering::Relaxed).is_err() {
            return Round::Nothing;
        }
        if round == Round::Expire && !empty() {
            // The next refresh tries again, unless another one has changed the word meanwhile.
            let _ = self.seen.cas(after, after | 1, Ordering::Relaxed);
            return Round::Wait;
        }
        round
    }
}

/// Returns the word after a refresh, and the state of the lists.
fn next(word: u32, traffic: u64, holds_blocks: bool) -> (u32, Round) {
    let seen = (traffic as u32) << LEFT.count_ones();
    let left = if word & !LEFT == seen { word & LEFT } else { ROUNDS };
    match left {
        0 => (seen, Round::Nothing),
        left if !holds_blocks => (seen | left, Round::Nothing),
        1 => (seen, Round::Expire),
        left => (seen | left.saturating_sub(1), Round::Wait),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::Round::{Expire, Nothing, Wait};
    use super::*;

    /// A case: its name; traffic and holdings before each refresh; what each refresh does.
    type Row = (&'static str, &'static [(u64, bool)], &'static [Round]);

    const TABLE: &[Row] = &[
        ("never used", &[(0, false), (0, true)], &[Nothing, Nothing]),
        ("used once", &[(5, true), (0, true), (0, true), (0, false)], &[Wait, Wait, Expire, Nothing]),
        ("used in each round", &[(1, true), (1, true), (1, true), (1, true)], &[Wait, Wait, Wait, Wait]),
        (
            "used again while it waits",
            &[(1, true), (0, true), (1, true), (0, true), (0, true)],
            &[Wait, Wait, Wait, Wait, Expire],
        ),
        ("used and empty", &[(2, false), (0, false), (0, false)], &[Nothing, Nothing, Nothing]),
        (
            "emptied, and used later",
            &[(1, true), (0, true), (0, true), (0, false), (9, true), (0, true), (0, true)],
            &[Wait, Wait, Expire, Nothing, Wait, Wait, Expire],
        ),
        (
            "far beyond what the word has bits for",
            &[(1 << 40, true), (3, true), (0, true), (0, true)],
            &[Nothing, Wait, Wait, Expire],
        ),
    ];

    #[test]
    fn the_third_refresh_since_the_last_use_empties_lists() {
        for (name, refreshes, expected) in TABLE {
            let (mut word, mut traffic) = (0, 0);
            let rounds = refreshes.iter().map(|(more, holds_blocks)| {
                traffic += more;
                let (after, round) = next(word, traffic, *holds_blocks);
                word = after;
                round
            });
            assert_eq!(rounds.collect::<Vec<_>>(), *expected, "{name}");
        }
    }
}

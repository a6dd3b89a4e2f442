//! What a campaign has covered so far, and its text on the disk.
//!
//! ```text
//! framewright-campaign 1
//! next 31000                       # the first seed that was not run
//! seeds 31000
//! operations 1015808000
//! accesses 238000000000
//! calls 92000000000                # of these, by schedule
//! switches 1200000000
//! sums 3700000                     # checks of the sums
//! full 240000                      # checks of every invariant
//! digest 9f3c...
//! failures 0
//! hit double-free 512000           # times that a kind took effect
//! pair double-free nmi-frees 7000  # seeds in which both did
//! ```

use std::fmt::Write as _;

use crate::kind::{COUNT, Kind, Kinds};
use crate::play::Played;
use crate::schedule::Schedule;

/// Name and version of the text.
const FORMAT: &str = "framewright-campaign 1";

/// Sums over all seeds that were run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// The first seed that was not run.
    pub next: u64,
    /// Seeds that were run.
    pub seeds: u64,
    /// Sums of what the seeds did; its digest is that of all digests, in the order of the seeds.
    pub played: Played,
    /// Seeds that failed.
    pub failures: u64,
    /// Seeds in which two kinds both took effect.
    pub pairs: Box<[[u32; COUNT]; COUNT]>,
}

impl Coverage {
    /// Returns the coverage before the first seed.
    pub fn before(seed: u64) -> Coverage {
        Coverage { next: seed, seeds: 0, played: Played::default(), failures: 0, pairs: Box::new([[0; COUNT]; COUNT]) }
    }

    /// Adds a seed that was run; returns whether it covered a pair of kinds for the first time.
    pub fn add(&mut self, played: Option<&Played>) -> bool {
        self.next += 1;
        self.seeds += 1;
        let Some(more) = played else {
            self.failures += 1;
            return false;
        };
        let sum = &mut self.played;
        sum.operations += more.operations;
        sum.accesses += more.accesses;
        sum.switches += more.switches;
        sum.by_schedule.iter_mut().zip(more.by_schedule).for_each(|(sum, more)| *sum += more);
        sum.checks.iter_mut().zip(more.checks).for_each(|(sum, more)| *sum += more);
        sum.longest.iter_mut().zip(more.longest).for_each(|(sum, more)| *sum = (*sum).max(more));
        sum.hits.add(&more.hits);
        sum.digest = (sum.digest ^ more.digest).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let kinds = more.hits.kinds();
        let mut is_new = false;
        for one in kinds.iter() {
            for other in kinds.iter().filter(|other| *other >= one) {
                let count = &mut self.pairs[one as usize][other as usize];
                is_new |= *count == 0;
                *count += 1;
            }
        }
        is_new
    }

    /// Returns the number of pairs of two different kinds that at least `least` seeds had.
    pub fn pairs_with(&self, least: u32) -> usize {
        let pairs = self.pairs.iter().enumerate().flat_map(|(one, row)| row[one + 1..].iter());
        pairs.filter(|count| **count >= least).count()
    }

    /// Number of pairs of two different kinds.
    pub const PAIRS: usize = COUNT * (COUNT - 1) / 2;

    /// Returns the kinds with fewer than `least` hits.
    pub fn rare(&self, least: u64) -> Kinds {
        let hits = &self.played.hits.0;
        Kinds(Kinds::ALL.iter().filter(|kind| hits[*kind as usize] < least).fold(0, |set, kind| set | 1 << kind as u8))
    }

    /// Returns the text for the disk.
    pub fn to_text(&self) -> String {
        let Played { operations, accesses, switches, checks, digest, longest, .. } = self.played;
        let mut text = format!(
            "{FORMAT}\nnext {}\nseeds {}\noperations {operations}\naccesses {accesses}\nswitches {switches}\nsums {}\nfull {}\n\
             digest {digest:016x}\nfailures {}\nlongest {} {} {}\n",
            self.next, self.seeds, checks[0], checks[1], self.failures, longest[0], longest[1], longest[2]
        );
        // Writing to a string cannot fail.
        for (name, accesses) in Schedule::NAMES.iter().zip(self.played.by_schedule) {
            let _ = writeln!(text, "{name} {accesses}");
        }
        for kind in Kind::ALL {
            let _ = writeln!(text, "hit {kind} {}", self.played.hits.0[*kind as usize]);
        }
        for one in Kind::ALL {
            for other in Kind::ALL {
                let count = self.pairs[*one as usize][*other as usize];
                if count != 0 {
                    let _ = writeln!(text, "pair {one} {other} {count}");
                }
            }
        }
        text
    }

    /// Reads the text.
    ///
    /// # Errors
    /// Number of the line that cannot be read, and why.
    pub fn read(text: &str) -> Result<Coverage, String> {
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, line)| line != FORMAT) {
            return Err(format!("line 1: expected {FORMAT:?}"));
        }
        let mut coverage = Coverage::before(0);
        for (number, line) in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            coverage.read_line(&words).map_err(|error| format!("line {number}: {error}"))?;
        }
        Ok(coverage)
    }

    fn read_line(&mut self, words: &[&str]) -> Result<(), String> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        let played = &mut self.played;
        match *words {
            ["hit", kind, count] => played.hits.0[kind.parse::<Kind>()? as usize] = number(count)?,
            ["pair", one, other, count] => {
                let (one, other) = (one.parse::<Kind>()? as usize, other.parse::<Kind>()? as usize);
                self.pairs[one][other] = u32::try_from(number(count)?).map_err(|_| "too many seeds".to_owned())?;
            }
            ["longest", one, two, three] => played.longest = [number(one)?, number(two)?, number(three)?],
            ["digest", digest] => {
                played.digest = u64::from_str_radix(digest, 16).map_err(|_| format!("{digest:?} is no digest"))?;
            }
            [name, count] => {
                let count = number(count)?;
                let schedule = Schedule::NAMES.iter().position(|schedule| *schedule == name);
                match name {
                    "next" => self.next = count,
                    "seeds" => self.seeds = count,
                    "operations" => played.operations = count,
                    "accesses" => played.accesses = count,
                    "switches" => played.switches = count,
                    "sums" => played.checks[0] = count,
                    "full" => played.checks[1] = count,
                    "failures" => self.failures = count,
                    _ => match schedule {
                        Some(at) => played.by_schedule[at] = count,
                        None => return Err(format!("{name:?} is no part of a campaign's state")),
                    },
                }
            }
            _ => return Err("expected a name and a number".to_owned()),
        }
        Ok(())
    }

    /// Returns a table of the kinds: name, hits, seeds, and what happens.
    pub fn table(&self) -> String {
        let mut text = format!("{:<22} {:>13} {:>8}  what happens\n", "kind", "hits", "seeds");
        for kind in Kind::ALL {
            let at = *kind as usize;
            let (hits, seeds) = (self.played.hits.0[at], self.pairs[at][at]);
            let _ = writeln!(text, "{kind:<22} {hits:>13} {seeds:>8}  {}", kind.what().trim());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Hits;

    #[test]
    fn coverage_is_read_back() {
        let mut coverage = Coverage::before(7);
        let mut hits = Hits::default();
        (hits.0[0], hits.0[3], hits.0[COUNT - 1]) = (5, 1, 9);
        let played = Played {
            operations: 10,
            accesses: 999,
            by_schedule: [0, 999, 0, 0],
            switches: 4,
            hits,
            digest: 0xdead_beef,
            longest: [1, 20, 300],
            checks: [8, 2],
        };
        assert!(coverage.add(Some(&played)), "a pair is new");
        assert!(!coverage.add(Some(&played)));
        assert!(!coverage.add(None));
        assert_eq!((coverage.next, coverage.seeds, coverage.failures), (10, 3, 1));
        assert_eq!((coverage.pairs_with(1), coverage.pairs_with(2), coverage.pairs_with(3)), (3, 3, 0));
        assert_eq!(coverage.rare(10), Kinds::ALL.without(Kind::ALL[0]).without(Kind::ALL[COUNT - 1]));
        assert_eq!(Coverage::read(&coverage.to_text()).unwrap(), coverage);
    }

    #[test]
    fn wrong_state_is_refused_by_its_line() {
        for (text, error) in [
            ("", "line 1: "),
            ("framewright-campaign 2\n", "line 1: "),
            ("framewright-campaign 1\nnext x\n", "line 2: \"x\" is no number"),
            ("framewright-campaign 1\nseeds 1\nhit nothing 3\n", "line 3: \"nothing\" is no kind"),
            ("framewright-campaign 1\nmore 1\n", "line 2: \"more\" is no part"),
            ("framewright-campaign 1\npair double-free\n", "line 2: \"double-free\" is no number"),
            ("framewright-campaign 1\n\n", "line 2: expected"),
        ] {
            let found = Coverage::read(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}

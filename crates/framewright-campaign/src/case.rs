//! A case: a seed, and what of it is run. It is one line of text.
//!
//! ```text
//! seed=77
//! seed=77 operations=0..300,812..813 without=nmi-frees,retyped schedule=calls cpus=2 plant=lost-free:3
//! ```
//!
//! Everything follows from the seed: the machine, its mechanisms, the kinds of fault, the schedule, and for each number
//! of an operation what it does. Each operation draws from a generator of its own, so leaving one out changes no other.
//! A shrunk case is therefore the seed with fewer operations and fewer kinds.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use framewright::Mechanisms;

use crate::kind::{Kind, Kinds};
use crate::plant::Plant;
use crate::schedule::Schedule;

/// Operations of a whole seed.
pub const OPERATIONS: u64 = 1 << 15;

/// A seed, and what of it is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// The operations that are carried out, ascending.
    pub operations: Vec<Range<u64>>,
    /// Kinds that are left out, whatever the seed enables.
    pub without: Kinds,
    /// The schedule, if it is not the seed's.
    pub schedule: Option<Schedule>,
    /// The mechanisms, if they are not the seed's.
    pub mechanisms: Option<Mechanisms>,
    /// The number of CPUs, if it is not the seed's.
    pub cpus: Option<u16>,
    /// A planted bug.
    pub plant: Option<Plant>,
}

impl Case {
    /// Returns the whole case of a seed.
    pub fn of(seed: u64) -> Case {
        Case {
            seed,
            operations: vec![Range { start: 0, end: OPERATIONS }],
            without: Kinds(0),
            schedule: None,
            mechanisms: None,
            cpus: None,
            plant: None,
        }
    }

    /// Returns the machine, the schedule and the kinds of fault that follow from the seed, as text.
    pub fn described(&self) -> String {
        crate::plan::Plan::new(self).text()
    }

    /// Returns the number of operations.
    pub fn length(&self) -> u64 {
        self.operations.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns a case with the operations of these numbers, which ascend.
    pub fn with_operations(&self, numbers: &[u64]) -> Case {
        let mut operations: Vec<Range<u64>> = Vec::new();
        for &number in numbers {
            match operations.last_mut().filter(|last| last.end == number) {
                Some(last) => last.end += 1,
                None => operations.push(number..number + 1),
            }
        }
        Case { operations, ..self.clone() }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        if self.operations != Case::of(0).operations {
            let ranges: Vec<String> =
                self.operations.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
            write!(f, " operations={}", ranges.join(","))?;
        }
        if self.without != Kinds(0) {
            let names: Vec<&str> = self.without.iter().map(Kind::name).collect();
            write!(f, " without={}", names.join(","))?;
        }
        if let Some(schedule) = self.schedule {
            write!(f, " schedule={schedule}")?;
        }
        if let Some(mechanisms) = self.mechanisms {
            write!(f, " mechanisms={mechanisms}")?;
        }
        if let Some(cpus) = self.cpus {
            write!(f, " cpus={cpus}")?;
        }
        self.plant.as_ref().map_or(Ok(()), |plant| write!(f, " plant={plant}"))
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let mut case = Case::of(0);
        let mut has_seed = false;
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is not KEY=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{value:?} is no number for {key}"));
            match key {
                "seed" => (case.seed, has_seed) = (number()?, true),
                "operations" => case.operations = ranges(value)?,
                "without" => {
                    let kinds = value.split(',').map(str::parse::<Kind>).collect::<Result<Vec<_>, _>>()?;
                    case.without = Kinds(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u8));
                }
                "schedule" => case.schedule = Some(value.parse()?),
                "mechanisms" => {
                    case.mechanisms =
                        Some(Mechanisms::parse(value).map_err(|(word, _)| format!("{word:?} is no mechanism"))?)
                }
                "cpus" => match number()? {
                    cpus @ 1..=512 => case.cpus = Some(cpus as u16),
                    cpus => return Err(format!("{cpus} CPUs are not 1 to 512")),
                },
                "plant" => case.plant = Some(value.parse()?),
                _ => return Err(format!("{key:?} is no part of a case")),
            }
        }
        if has_seed { Ok(case) } else { Err("a case begins with seed=N".to_owned()) }
    }
}

/// Reads ascending ranges of numbers below [`OPERATIONS`].
fn ranges(text: &str) -> Result<Vec<Range<u64>>, String> {
    let wrong = || format!("{text:?} is no list of ascending ranges below {OPERATIONS}, as 0..300,812..813");
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for part in text.split(',') {
        let (start, end) = part.split_once("..").ok_or_else(wrong)?;
        let (start, end) = (start.parse().map_err(|_| wrong())?, end.parse().map_err(|_| wrong())?);
        let least = ranges.last().map_or(0, |last| last.end);
        if start < least || end <= start || end > OPERATIONS {
            return Err(wrong());
        }
        ranges.push(start..end);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_parse_back() {
        let texts = [
            "seed=77",
            "seed=77 operations=0..300,812..813 without=nmi-frees,retyped schedule=calls cpus=2 plant=lost-free:3",
            "seed=0 schedule=pct:3 plant=skipped-drain",
        ];
        for text in texts {
            assert_eq!(text.parse::<Case>().unwrap().to_string(), text);
        }
        let case = Case { mechanisms: Some(Mechanisms::DEFAULT), ..Case::of(3) };
        assert_eq!(case.to_string().parse(), Ok(case));
        for text in ["", "seed", "seed=x", "operations=0..1", "seed=1 operations=3..1", "seed=1 cpus=0", "seed=1 to=2"]
        {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_become_ranges() {
        let case = Case::of(1).with_operations(&[0, 1, 2, 7, 9, 10]);
        assert_eq!(case.operations, [0..3, 7..8, 9..11]);
        assert_eq!(case.length(), 6);
    }
}

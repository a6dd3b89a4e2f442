//! Why a stress test ended early.

use std::fmt;

use super::case::{Case, Conditions};
use super::stress_settings::Settings;
use super::wrong::Wrong;
use crate::engine::run::SetupError;

/// Why a stress test ended early.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StressError {
    /// The allocator did something wrong.
    #[error(transparent)]
    Failed(Box<StressFailure>),
    /// The machine cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The case describes no machine that an allocator boots on.
    #[error("the allocator cannot be set up: {0}")]
    Boot(String),
    /// The allocator has no words of the planted bug's name.
    #[error("no word of the allocator is called {0:?}; framewright sim has their names in its report")]
    NoField(String),
}

/// A failure and the case that shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StressFailure {
    /// The fault.
    pub wrong: Wrong,
    /// Points of rest that were passed before.
    pub rests: usize,
    /// The case.
    pub case: Case,
    /// Settings of a run that begins with the case; `None` if it came from a file.
    pub settings: Option<Settings>,
}

impl fmt::Display for StressFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions { seed, switch_in, interrupts, nmis, delays, pool, plant } = &self.case.conditions;
        writeln!(f, "wrong: {}", self.wrong)?;
        writeln!(f, "where: after {} points of rest, seed {seed}", self.rests)?;
        write!(f, "under: {} CPUs, one switch in {switch_in} accesses", self.case.shape.cpus.len())?;
        if let Some(every) = interrupts {
            write!(f, ", interrupts every {} us", every / 1_000_000)?;
        }
        if let Some(every) = nmis {
            write!(f, ", NMIs every {} ns", every / 1_000)?;
        }
        f.write_str(if *delays { ", stores kept back" } else { "" })?;
        f.write_str(if *pool { ", a pool" } else { "" })?;
        plant.as_ref().map_or(Ok(()), |plant| write!(f, ", planted {plant}"))?;
        writeln!(f, "\n       {}", self.case.shape.mechanisms)
    }
}

impl std::error::Error for StressFailure {}

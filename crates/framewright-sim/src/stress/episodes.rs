//! Runs a stress test episode by episode, until all are done or one fails.

use super::case::Case;
use super::generate;
use super::play_case::{Played, Stopped, play};
use super::player::Counts;
use super::stress_failure::{StressError, StressFailure};
use super::stress_settings::Settings;

/// Points of rest in an episode.
const RESTS: u64 = 4;

/// Counts of a stress test without a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Fresh machines.
    pub episodes: u64,
    /// Times that everything was checked while all CPUs rested.
    pub quiescent: u64,
    /// Accesses to shared words.
    pub accesses: u64,
    /// Switches between CPUs.
    pub switches: u64,
    /// Counts of what happened.
    pub counts: Counts,
}

/// Runs a stress test; `progress` hears how many operations are done.
///
/// # Errors
/// The allocator did something wrong, or the settings are wrong.
pub fn run(settings: &Settings, mut progress: impl FnMut(u64)) -> Result<Summary, StressError> {
    let (rests, episodes) = (settings.quiescent.max(1), settings.quiescent.max(1).div_ceil(RESTS));
    let share = |episode: u64, all: u64| all / episodes + u64::from(episode < all % episodes);
    let mut summary = Summary::default();
    let mut behind = 0;
    for episode in 0..episodes {
        let (operations, quiescent) = (share(episode, settings.operations), share(episode, rests));
        let seed = settings.seed.wrapping_add(episode);
        let settings = Settings { seed, operations, quiescent, ..settings.clone() };
        let case = generate::case(&settings, operations, quiescent);
        let played = match play(&case)? {
            Ok(played) => played,
            Err(Stopped { wrong, rests }) => {
                let failure = StressFailure { wrong, rests, case, settings: Some(settings) };
                return Err(StressError::Failed(Box::new(failure)));
            }
        };
        behind += operations;
        progress(behind);
        summary.episodes += 1;
        summary.quiescent += quiescent;
        summary.accesses += played.accesses;
        summary.switches += played.switches;
        summary.counts = summary.counts.plus(played.counts);
    }
    Ok(summary)
}

/// Runs a case.
///
/// # Errors
/// The allocator did something wrong, or the case is wrong.
pub fn replay(case: &Case) -> Result<Summary, StressError> {
    match play(case)? {
        Ok(Played { counts, accesses, switches }) => {
            Ok(Summary { episodes: 1, quiescent: case.segments.len() as u64, accesses, switches, counts })
        }
        Err(Stopped { wrong, rests }) => {
            let failure = StressFailure { wrong, rests, case: case.clone(), settings: None };
            Err(StressError::Failed(Box::new(failure)))
        }
    }
}

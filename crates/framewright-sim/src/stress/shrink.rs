//! Makes a failing case small.
//!
//! Delta debugging, in this order:
//!
//! 1. drop the segments after the failure, then those before it;
//! 2. let a planted bug show as early as it can;
//! 3. drop whole CPUs;
//! 4. drop operations, in chunks that become smaller;
//! 5. drop interrupts, NMIs and delayed stores, if the failure shows without them.
//!
//! An attempt counts if it fails with the same kind of finding. Fewer operations make another schedule, so each attempt
//! is made under a few seeds. The effort is bounded by operations, not by time, so that the result is the same on every
//! host.

use framewright_ops::Op;

use super::case::{Case, Conditions, Segment};
use super::play_case::{Stopped, play};
use super::stress_failure::{StressError, StressFailure};
use super::wrong::Kind;
use crate::engine::plant::Plant;

/// Cost of an attempt besides its operations, in operations: a machine is booted.
const BOOT: u64 = 2_000;
/// Seeds of an attempt, if the case is small.
const SEEDS: u64 = 8;

/// An operation, and its segment and CPU.
type OpPlace = (usize, usize, Op);

struct Shrinker<P> {
    best: Case,
    stopped: Stopped,
    kind: Kind,
    left: u64,
    progress: P,
}

/// Makes a failing case small, by attempts of about `effort` operations in all.
///
/// `progress` hears how many operations the case still has.
///
/// # Errors
/// As [`crate::stress::replay`], but for the failure itself.
pub fn shrink(failure: &StressFailure, effort: u64, progress: impl FnMut(usize)) -> Result<StressFailure, StressError> {
    let stopped = Stopped { wrong: failure.wrong.clone(), rests: failure.rests };
    let (best, kind) = (failure.case.clone(), failure.wrong.kind);
    let mut shrinker = Shrinker { best, stopped, kind, left: effort, progress };
    shrinker.cut_segments()?;
    shrinker.hasten_plant()?;
    shrinker.drop_cpus()?;
    shrinker.drop_operations()?;
    shrinker.simplify()?;
    let Shrinker { best, stopped: Stopped { wrong, rests }, .. } = shrinker;
    Ok(StressFailure { wrong, rests, case: best, settings: failure.settings.clone() })
}

impl<P: FnMut(usize)> Shrinker<P> {
    /// Keeps a case if it fails with the same kind of finding.
    fn try_case(&mut self, mut case: Case) -> Result<bool, StressError> {
        let cost = case.operations() as u64 + BOOT;
        let seed = case.conditions.seed;
        let seeds = if cost < 4 * BOOT { SEEDS } else { 2 };
        for offset in 0..seeds {
            let Some(left) = self.left.checked_sub(cost) else { return Ok(false) };
            self.left = left;
            case.conditions.seed = seed.wrapping_add(offset);
            if let Err(stopped) = play(&case)?
                && stopped.wrong.kind == self.kind
            {
                case.segments.truncate(stopped.rests + 1);
                (self.best, self.stopped) = (case, stopped);
                (self.progress)(self.best.operations());
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops the segments after the failure, then those before it, from the front.
    fn cut_segments(&mut self) -> Result<(), StressError> {
        self.best.segments.truncate(self.stopped.rests + 1);
        let mut at = 0;
        while at < self.best.segments.len() && self.best.segments.len() > 1 {
            let mut case = self.best.clone();
            case.segments.remove(at);
            at += usize::from(!self.try_case(case)?);
        }
        Ok(())
    }

    /// Makes the planted bug show as early as it can.
    fn hasten_plant(&mut self) -> Result<(), StressError> {
        let nth = |case: &mut Case| case.conditions.plant.as_mut().and_then(Plant::nth).copied();
        while let Some(now) = nth(&mut self.best) {
            let less = now / 4;
            let mut case = self.best.clone();
            if let Some(nth) = case.conditions.plant.as_mut().and_then(Plant::nth) {
                *nth = less.max(1);
            }
            if less == 0 || !self.try_case(case)? {
                break;
            }
        }
        Ok(())
    }

    fn drop_cpus(&mut self) -> Result<(), StressError> {
        let cpus = self.best.shape.cpus.len();
        let mut chunk = cpus.div_ceil(2);
        loop {
            for first in (0..cpus).step_by(chunk) {
                let chosen = first..cpus.min(first + chunk);
                let mut case = self.best.clone();
                case.segments.iter_mut().for_each(|segment| segment[chosen.clone()].fill(Vec::new()));
                if case.operations() != self.best.operations() {
                    self.try_case(case)?;
                }
            }
            if chunk == 1 {
                return Ok(());
            }
            chunk = chunk.div_ceil(2);
        }
    }

    fn drop_operations(&mut self) -> Result<(), StressError> {
        let mut chunk = self.best.operations().div_ceil(2);
        while chunk > 0 {
            let (mut at, before) = (0, self.best.operations());
            while at < self.best.operations() && self.left > BOOT {
                let mut places = places(&self.best);
                places.drain(at..places.len().min(at + chunk));
                let case = with_places(&self.best, places);
                at += if self.try_case(case)? { 0 } else { chunk };
            }
            // Single operations are tried again as long as that helps.
            let helped = self.best.operations() < before;
            chunk = if chunk == 1 && helped { 1 } else { chunk / 2 };
            if self.left <= BOOT {
                return Ok(());
            }
        }
        Ok(())
    }

    fn simplify(&mut self) -> Result<(), StressError> {
        let without: [fn(&mut Conditions); 3] =
            [|now| now.interrupts = None, |now| now.nmis = None, |now| now.delays = false];
        for simplify in without {
            let mut case = self.best.clone();
            simplify(&mut case.conditions);
            if case.conditions != self.best.conditions {
                self.try_case(case)?;
            }
        }
        Ok(())
    }
}

fn places(case: &Case) -> Vec<OpPlace> {
    let lists = case.segments.iter().enumerate();
    let by_cpu = lists.flat_map(|(segment, lists)| lists.iter().enumerate().map(move |(cpu, ops)| (segment, cpu, ops)));
    by_cpu.flat_map(|(segment, cpu, ops)| ops.iter().map(move |op| (segment, cpu, op.clone()))).collect()
}

fn with_places(case: &Case, places: Vec<OpPlace>) -> Case {
    let cpus = case.shape.cpus.len();
    let mut segments: Vec<Segment> = vec![vec![Vec::new(); cpus]; case.segments.len()];
    for (segment, cpu, op) in places {
        segments[segment][cpu].push(op);
    }
    Case { conditions: case.conditions.clone(), shape: case.shape.clone(), segments }
}

//! A CPU that follows pointers through lines.

use std::cell::Cell;

use framewright::machine::Word;

use super::lines::{Link, MANY, MlcError, RELAXED, options, place_cycle};
use crate::engine::here;
use crate::engine::run::Simulation;
use crate::memory::arena::Arena;
use crate::model::{Model, Ps};

/// Lines of a chase that does not depend on how much caches keep.
const SOME: usize = 256;

/// Time after which the last store is visible and no line is in transit.
const SETTLED: Ps = 10_000_000;

/// Access of another CPU to the lines before the chase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Before {
    Read,
    Write,
}

/// CPU 0 follows pointers through lines.
pub(super) struct Chase {
    lines: usize,
    /// Node of the lines.
    home: usize,
    /// Whether the CPU has followed them before.
    again: bool,
    /// The other CPU that has touched them, and how.
    other: Option<(usize, Before)>,
}

impl Chase {
    /// Makes a chase through cached lines; `None` if they are too many.
    pub(super) fn again(lines: usize) -> Option<Chase> {
        (lines <= MANY).then(|| Chase { lines: lines.max(1), home: 0, again: true, other: None })
    }

    pub(super) fn fresh(home: usize) -> Chase {
        Chase { lines: SOME, home, again: false, other: None }
    }

    pub(super) fn after(cpu: usize, before: Before, home: usize) -> Chase {
        Chase { lines: SOME, home, again: false, other: Some((cpu, before)) }
    }

    /// Runs the chase; returns nanoseconds for a line.
    pub(super) fn run(&self, model: &Model) -> Result<f64, MlcError> {
        let arena = Arena::new(Arena::bytes_of::<Link>(self.lines));
        let links = place_cycle(&arena, self.lines);
        arena.set_homes("lines", |_| self.home);
        let mut simulation = Simulation::new(model, &arena, &options(model))?;
        if let Some((other, before)) = self.other {
            let body = |cpu: usize| match before {
                _ if cpu != other => {}
                Before::Read => follow(links, self.lines),
                Before::Write => links.iter().for_each(|link| link[0].store(link[0].load(RELAXED), RELAXED)),
            };
            simulation.run(body)?;
        }
        let took = Cell::new(0);
        let start = simulation.clock() + SETTLED;
        let body = |cpu: usize| {
            if cpu == 0 {
                here::idle(start - here::clock());
                if self.again {
                    follow(links, self.lines);
                }
                let began = here::clock();
                follow(links, self.lines);
                took.set(here::clock() - began);
            }
        };
        simulation.run(body)?;
        Ok(took.get() as f64 / self.lines as f64 / 1000.0)
    }
}

/// Follows the pointers once through all lines.
fn follow(links: &[Link], lines: usize) {
    let mut at = 0;
    for _ in 0..lines {
        at = links[at][0].load(RELAXED) as usize;
    }
}

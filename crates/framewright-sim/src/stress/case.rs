//! A case: a machine, conditions, and what each CPU does between points of rest.
//!
//! It prints as text and parses back:
//!
//! ```text
//! seed 7                                   # of the schedule
//! switch-in 4                              # one in so many accesses lets another CPU go on
//! interrupts 50000                         # on each CPU, so many nanoseconds apart on average
//! nmis 2000                                # the same, of those that nothing holds off
//! delay-stores
//! pool                                     # single pages alone, and none may fail while a frame is free
//! plant lost-store:lock.serving:1000
//! max-order 6                              # the machine, as in every list of operations
//! memory 0x0..0x400 node 0
//! cpus 0 0
//! run-on 0                                 # what CPU 0 does,
//! a0 = alloc order 0 GFP_KERNEL
//! run-on 1                                 # and CPU 1 at the same time
//! free a0
//! validate                                 # until all rest, and everything is checked
//! ```
//!
//! A handle is known to all CPUs: `free a0` on another CPU frees it if it is held at that moment, and otherwise does
//! nothing.

use std::fmt;
use std::str::FromStr;

use framewright::CpuId;
use framewright_ops::{Op, Scenario, Shape};

use crate::engine::plant::Plant;
use crate::machine::{self, MOST_CPUS};
use crate::model::{Model, NS, Ps};

/// Allowed mean time between interrupts, in nanoseconds: shorter ones would leave no time for other work.
const INTERRUPTS: std::ops::RangeInclusive<u64> = 20_000..=1_000_000_000_000;
/// Allowed mean time between NMIs, in nanoseconds. NMIs never wait, so they always leave time.
const NMIS: std::ops::RangeInclusive<u64> = 10..=1_000_000_000_000;
/// Most frames of a case's machine: all of them are checked at each point of rest.
const MOST_FRAMES: u64 = 1 << 20;

/// The conditions that a case runs under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conditions {
    /// Seed of the schedule.
    pub seed: u64,
    /// Mean number of accesses between two switches.
    pub switch_in: u64,
    /// Mean time between two interrupts of a CPU, in picoseconds.
    pub interrupts: Option<Ps>,
    /// Mean time between two NMIs of a CPU, in picoseconds.
    pub nmis: Option<Ps>,
    /// Whether stores are delayed.
    pub delays: bool,
    /// Whether memory is a pool that CPUs keep full: single pages alone, and no request may fail while a frame is free.
    pub pool: bool,
    /// A planted bug of the machine.
    pub plant: Option<Plant>,
}

/// Operations of each CPU until the next point of rest.
pub type Segment = Vec<Vec<Op>>;

/// A machine, conditions and operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Conditions of the run.
    pub conditions: Conditions,
    /// The allocator's machine.
    pub shape: Shape,
    /// Operations, segment by segment.
    pub segments: Vec<Segment>,
}

/// Returns a simulated machine with `cpus` CPUs, on two sockets if there are two or more.
pub(crate) fn model(cpus: usize) -> Model {
    let sockets = cpus.clamp(1, 2);
    let name = format!("generic:{sockets}x{}x1", cpus.div_ceil(sockets).max(1));
    machine::named(&name).expect("a machine of that shape exists").model()
}

impl Case {
    /// Returns the number of operations of all CPUs.
    pub fn operations(&self) -> usize {
        self.segments.iter().flatten().map(Vec::len).sum()
    }

    /// Returns the number of CPUs that do anything.
    pub fn busy_cpus(&self) -> usize {
        let is_busy = |&cpu: &usize| self.segments.iter().any(|segment| !segment[cpu].is_empty());
        (0..self.shape.cpus.len()).filter(is_busy).count()
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}\nswitch-in {}", self.seed, self.switch_in)?;
        if let Some(every) = self.interrupts {
            writeln!(f, "interrupts {}", every / NS)?;
        }
        if let Some(every) = self.nmis {
            writeln!(f, "nmis {}", every / NS)?;
        }
        if self.delays {
            f.write_str("delay-stores\n")?;
        }
        if self.pool {
            f.write_str("pool\n")?;
        }
        self.plant.as_ref().map_or(Ok(()), |plant| writeln!(f, "plant {plant}"))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.conditions, self.shape)?;
        for segment in &self.segments {
            for (cpu, ops) in segment.iter().enumerate().filter(|(_, ops)| !ops.is_empty()) {
                writeln!(f, "{}", Op::RunOn(CpuId(cpu as u16)))?;
                ops.iter().try_for_each(|op| writeln!(f, "{op}"))?;
            }
            writeln!(f, "{}", Op::Validate)?;
        }
        Ok(())
    }
}

/// A text that is no case: what is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaseError(pub String);

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(text: &str) -> Result<Case, CaseError> {
        let mut conditions =
            Conditions { seed: 0, switch_in: 4, interrupts: None, nmis: None, delays: false, pool: false, plant: None };
        let mut rest = String::with_capacity(text.len());
        for (number, line) in (1..).zip(text.lines()) {
            let content = line.split_once('#').map_or(line, |(content, _)| content).trim();
            let is_ours = conditions.read(content).map_err(|what| CaseError(format!("line {number}: {what}")))?;
            rest.push_str(if is_ours { "" } else { line });
            rest.push('\n');
        }
        let scenario: Scenario = rest.parse().map_err(|error| CaseError(format!("{error}")))?;
        let segments = segments(&scenario)?;
        let case = Case { conditions, shape: scenario.shape, segments };
        case.check()?;
        Ok(case)
    }
}

impl Conditions {
    /// Reads a line; returns false if it is no condition.
    fn read(&mut self, line: &str) -> Result<bool, String> {
        let (key, value) = line.split_once(char::is_whitespace).map_or((line, ""), |(key, rest)| (key, rest.trim()));
        let number = || value.parse::<u64>().map_err(|_| format!("`{value}` is no number for `{key}`"));
        match key {
            "seed" => self.seed = number()?,
            "switch-in" => self.switch_in = number()?.max(1),
            "interrupts" => self.interrupts = Some(apart("interrupts", number()?, INTERRUPTS)?),
            "nmis" => self.nmis = Some(apart("NMIs", number()?, NMIS)?),
            "delay-stores" if value.is_empty() => self.delays = true,
            "pool" if value.is_empty() => self.pool = true,
            "plant" => self.plant = Some(value.parse()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Returns a mean time in picoseconds, or the error if it is out of bounds.
fn apart(what: &str, every: u64, may_be: std::ops::RangeInclusive<u64>) -> Result<Ps, String> {
    if may_be.contains(&every) {
        return Ok(every * NS);
    }
    Err(format!("{what} must be {} to {} ns apart", may_be.start(), may_be.end()))
}

/// Returns the lists of a scenario by segment and CPU.
fn segments(scenario: &Scenario) -> Result<Vec<Segment>, CaseError> {
    let cpus = scenario.shape.cpus.len();
    let mut segments = vec![vec![Vec::new(); cpus]];
    let mut cpu = 0;
    for step in &scenario.steps {
        let wrong = |what: &str| Err(CaseError(format!("`{}`: {what}", step.op)));
        match step.op {
            Op::RunOn(to) if to.index() < cpus => cpu = to.index(),
            Op::RunOn(_) => return wrong("there is no such CPU"),
            Op::Validate => {
                segments.push(vec![Vec::new(); cpus]);
                cpu = 0;
            }
            Op::Fault { .. } | Op::OnReclaim(_) | Op::OnMigrate(_) | Op::Expect(_) | Op::Assert(_) => {
                return wrong("is not for CPUs that run at the same time");
            }
            _ => segments.last_mut().expect("there is one").get_mut(cpu).expect("it exists").push(step.op.clone()),
        }
    }
    segments.pop_if(|last| last.iter().all(Vec::is_empty));
    Ok(segments)
}

impl Case {
    fn check(&self) -> Result<(), CaseError> {
        let cpus = self.shape.cpus.len();
        let end = self.shape.regions.iter().map(|region| region.range.end.0).max().unwrap_or(0);
        if cpus > MOST_CPUS {
            return Err(CaseError(format!("{cpus} CPUs are more than {MOST_CPUS}")));
        }
        if end > MOST_FRAMES {
            return Err(CaseError(format!("memory ends above frame {MOST_FRAMES:#x}")));
        }
        let topology = model(cpus).topology;
        let nodes: Vec<usize> = (0..cpus).map(|cpu| topology.socket_of(cpu)).collect();
        if self.shape.cpus.iter().zip(&nodes).any(|(node, &socket)| node.index() != socket) {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            return Err(CaseError(format!("`cpus` must be {} for as many CPUs", nodes.join(" "))));
        }
        Ok(())
    }
}

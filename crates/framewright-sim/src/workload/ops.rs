//! `ops:FILE`: any list of operations, on the memory that it describes.
//!
//! Without `run-on` every CPU plays the whole list again and again, each with handles of its own. With `run-on` the
//! list is divided: each CPU plays the operations that `run-on` gives it, in order. An operation on a handle waits
//! until another CPU has made it. All CPUs begin the next round together. At the end of a round each CPU frees what it
//! allocated and still holds.
//!
//! Memory, zones and sizes are the list's. CPUs are the simulated machine's first ones, on their nodes there.
//! Mechanisms are the run's. A request that is not served is counted and the round goes on. What a list states after
//! `->` or `#!` is ignored, because other CPUs are at work too. `validate` follows every run anyway. `local` and
//! `trace` change nothing: every call is a plain one, and there are no tracepoints. Operations that need an oracle or a
//! machine that fails on purpose are refused; the table is [`act`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use framewright::machine::{Ordering, Patience, Word};
use framewright::{CpuId, Order, Pfn, Request};
use framewright_ops::{Handle, Op, ParseError, Scenario, Shape};

use super::floor::{Floor, Trouble};
use super::gate::Barrier;
use super::play::{Ground, Length, Needs, Play};
use crate::engine::words::SimWord;
use crate::memory::arena::Packing;
use crate::report::{Figure, Report};
use crate::settings::SpecError;

/// Most bytes of a file.
const LONGEST: u64 = 16 << 20;

/// A list of operations that CPUs can play.
#[derive(Clone, PartialEq, Debug)]
pub struct Ops {
    path: String,
    scenario: Arc<Scenario>,
    list: Arc<OpList>,
}

/// A list as CPUs play it.
#[derive(PartialEq, Debug)]
struct OpList {
    acts: Vec<Step>,
    /// Handles, by their numbers in the list.
    handles: usize,
    /// Whether `run-on` divides it.
    is_divided: bool,
    /// The highest CPU that is named.
    cpus: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Step {
    cpu: CpuId,
    act: Act,
}

/// An operation, with handles by their position.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Act {
    Alloc { slot: usize, request: Request },
    Bulk { slot: usize, count: u32, request: Request },
    Free(usize),
    Split { slot: usize, to: Order },
    DrainAll,
    DrainCpu(CpuId),
}

impl Ops {
    pub(crate) const NAME: &'static str = "ops";
    pub(crate) const UNIT: &'static str = "operation";
    pub(crate) const ABOUT: &'static str =
        "ops:FILE: a list of operations, such as every test of the allocator is, on \
         the memory that it describes
  operation: one operation of the list
  without `run-on` each CPU plays the whole list by itself; with it, each plays what `run-on` gives it
  played are alloc, bulk, free, split, drain and validate (which follows every run); others are refused
";

    /// Reads the list in a file.
    ///
    /// # Errors
    /// The file cannot be read, is no list of operations, or has operations that are not played here.
    pub fn load(path: &str) -> Result<Ops, SpecError> {
        let wrong = |reason: String| SpecError::Ops { path: path.to_owned(), reason };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        if text.len() as u64 > LONGEST {
            return Err(wrong(format!("the file has more than {} MiB", LONGEST >> 20)));
        }
        Ops::parse(path, &text)
    }

    /// Reads the list in a text; errors call it `name`.
    ///
    /// # Errors
    /// It is no list of operations, or has operations that are not played here.
    pub fn parse(name: &str, text: &str) -> Result<Ops, SpecError> {
        let wrong = |error: ParseError| SpecError::Ops { path: name.to_owned(), reason: error.to_string() };
        Ops::new(name, text.parse().map_err(wrong)?)
    }

    /// Makes a list that is called `name`.
    ///
    /// # Errors
    /// It has operations that are not played here, or none.
    pub fn new(name: &str, scenario: Scenario) -> Result<Ops, SpecError> {
        let wrong = |reason: String| SpecError::Ops { path: name.to_owned(), reason };
        let list = OpList::of(&scenario).map_err(wrong)?;
        Ok(Ops { path: name.to_owned(), scenario: Arc::new(scenario), list: Arc::new(list) })
    }

    /// Returns the list's name.
    pub fn name(&self) -> &str {
        &self.path
    }

    /// Returns a text that [`Ops::parse`] reads back.
    pub fn text(&self) -> String {
        self.scenario.to_string()
    }

    /// Returns the machine's memory.
    pub(crate) fn shape(&self) -> &Shape {
        &self.scenario.shape
    }

    pub(crate) fn needs(&self) -> Needs {
        // Each flag has a line of its own.
        let bytes = self.list.handles * 64;
        Needs { frames: 0, bytes: (bytes, 0), length: Length::of_rounds(self.list.acts.len()) }
    }

    pub(crate) fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let (nodes, sockets) = (self.scenario.shape.nodes(), usize::from(ground.model.topology.sockets));
        if nodes > sockets {
            return Err(format!("the list describes memory of {nodes} nodes, the machine has {sockets}"));
        }
        if self.list.cpus > ground.cpus {
            let most = self.list.cpus;
            return Err(format!("the list names CPU {}, so it takes {most} CPUs at least", most - 1));
        }
        let flags: &[Flag] = ground
            .arena
            .place("handles", (false, Packing::Natural), self.list.handles, |_| Flag { round: Word::new(0) });
        let slots = if self.list.is_divided { 1 } else { ground.cpus };
        let held = (0..slots).map(|_| RefCell::new(vec![Vec::new(); self.list.handles])).collect();
        let (list, barrier) = (self.list.clone(), Barrier::new(ground.arena));
        let frames = ground.map.frames() as usize;
        Ok(Box::new(Players { list, held, flags, frames, barrier, refused: Cell::new(0), asked: Cell::new(0) }))
    }
}

impl OpList {
    fn of(scenario: &Scenario) -> Result<OpList, String> {
        let mut slots: BTreeMap<Handle, usize> = BTreeMap::new();
        let mut acts = Vec::new();
        let (mut cpu, mut cpus, mut is_divided) = (CpuId(0), 1, false);
        for (number, step) in (1..).zip(&scenario.steps) {
            let next = slots.len();
            let mut slot = |handle| *slots.entry(handle).or_insert(next);
            match act(&step.op, &mut slot) {
                Fate::Acts(act) => {
                    if let Act::DrainCpu(CpuId(named)) = act {
                        cpus = cpus.max(usize::from(named) + 1);
                    }
                    acts.push(Step { cpu, act });
                }
                Fate::RunsOn(on) => {
                    (cpu, is_divided) = (on, true);
                    cpus = cpus.max(on.index() + 1);
                }
                Fate::Nothing => {}
                Fate::Refused => {
                    let op = &step.op;
                    return Err(format!("operation {number}, `{op}`, cannot be played on the simulated machine"));
                }
            }
        }
        if acts.is_empty() {
            return Err("there is no operation to play".to_owned());
        }
        Ok(OpList { acts, handles: slots.len(), is_divided, cpus })
    }
}

/// Treatment of an operation.
enum Fate {
    Acts(Act),
    RunsOn(CpuId),
    Nothing,
    Refused,
}

/// Returns what is done with an operation.
fn act(op: &Op, slot: &mut dyn FnMut(Handle) -> usize) -> Fate {
    Fate::Acts(match *op {
        Op::Alloc { name, order, terms } => Act::Alloc { slot: slot(name), request: terms.request(order) },
        Op::Bulk { name, count, order, terms } => Act::Bulk { slot: slot(name), count, request: terms.request(order) },
        Op::Free(handle) => Act::Free(slot(handle)),
        Op::Split { handle, to } => Act::Split { slot: slot(handle), to },
        Op::DrainAll => Act::DrainAll,
        Op::DrainCpu(cpu) => Act::DrainCpu(cpu),
        Op::RunOn(cpu) => return Fate::RunsOn(cpu),
        Op::Validate | Op::Assert(_) | Op::Local(_) | Op::Trace(_) => return Fate::Nothing,
        _ => return Fate::Refused,
    })
}

/// The round in which a handle was made last, for CPUs that wait for it.
#[repr(align(64))]
struct Flag {
    round: SimWord<u32>,
}

/// The blocks that a handle holds.
type SlotBlocks = Vec<(Pfn, Order)>;

struct Players<'a> {
    list: Arc<OpList>,
    /// By CPU (once, if the list is divided), and by handle.
    held: Vec<RefCell<Vec<SlotBlocks>>>,
    flags: &'a [Flag],
    frames: usize,
    barrier: Barrier<'a>,
    /// Requests that were not served, and all requests.
    refused: Cell<u64>,
    asked: Cell<u64>,
}

impl Play for Players<'_> {
    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let mut round = 0;
        loop {
            // With a divided list, all CPUs begin a round together.
            let goes_on = if self.list.is_divided { self.barrier.meet(floor) } else { floor.goes_on() };
            if !goes_on {
                return Ok(());
            }
            round += 1;
            let mut operations = 0;
            for (at, step) in self.list.acts.iter().enumerate().filter(|(_, step)| self.is_for(cpu, step)) {
                self.perform(floor, cpu, (at, step.act), round)?;
                operations += 1;
            }
            if self.list.is_divided {
                self.barrier.meet(floor);
            }
            self.free_rest(floor, cpu)?;
            floor.done_round(operations);
        }
    }

    fn figures(&self, _: &Report) -> Vec<Figure> {
        let percent = self.refused.get() as f64 * 100.0 / self.asked.get().max(1) as f64;
        vec![Figure::new("requests not served, with the warm-up", percent, "%")]
    }
}

impl Players<'_> {
    fn is_for(&self, cpu: usize, step: &Step) -> bool {
        !self.list.is_divided || step.cpu.index() == cpu
    }

    fn slots(&self, cpu: usize) -> &RefCell<Vec<SlotBlocks>> {
        &self.held[if self.list.is_divided { 0 } else { cpu }]
    }

    fn perform(&self, floor: &Floor<'_>, cpu: usize, (at, act): (usize, Act), round: u32) -> Result<(), Trouble> {
        match act {
            Act::Alloc { slot, request } => {
                let blocks = self.count(1, floor.pages.alloc(&request).map(|pfn| vec![pfn]).unwrap_or_default());
                self.hold(cpu, slot, blocks, request.order, round);
            }
            Act::Bulk { slot, count, request } => {
                // At most as many as there are frames.
                let mut blocks = vec![Pfn(0); (count as usize).min(self.frames)];
                let served = floor.pages.alloc_bulk(&request, &mut blocks).unwrap_or(0);
                blocks.truncate(served);
                self.hold(cpu, slot, self.count(u64::from(count), blocks), request.order, round);
            }
            Act::Free(slot) => {
                self.await_handle((at, slot), round);
                let blocks = std::mem::take(&mut self.slots(cpu).borrow_mut()[slot]);
                return free_all(floor, &blocks);
            }
            Act::Split { slot, to } => {
                self.await_handle((at, slot), round);
                return self.split(floor, cpu, slot, to);
            }
            Act::DrainAll => drop(floor.pages.drain_all()),
            Act::DrainCpu(of) => drop(floor.pages.drain_cpu(of)),
        }
        Ok(())
    }

    fn count(&self, asked: u64, blocks: Vec<Pfn>) -> Vec<Pfn> {
        self.asked.set(self.asked.get() + asked);
        self.refused.set(self.refused.get() + asked - blocks.len() as u64);
        blocks
    }

    /// Gives blocks to a handle, and tells CPUs that wait for it.
    fn hold(&self, cpu: usize, slot: usize, blocks: Vec<Pfn>, order: Order, round: u32) {
        self.slots(cpu).borrow_mut()[slot].extend(blocks.into_iter().map(|pfn| (pfn, order)));
        if self.list.is_divided {
            self.flags[slot].round.store(round, Ordering::Release);
        }
    }

    /// Waits until an earlier operation has made the handle, if there is one.
    fn await_handle(&self, (at, slot): (usize, usize), round: u32) {
        let makes =
            |step: &Step| matches!(step.act, Act::Alloc { slot: s, .. } | Act::Bulk { slot: s, .. } if s == slot);
        if self.list.is_divided && self.list.acts[..at].iter().any(makes) {
            let _ = self.flags[slot].round.wait_while(Patience::Turn, |made| made != round);
        }
    }

    /// Splits the larger blocks of a handle.
    fn split(&self, floor: &Floor<'_>, cpu: usize, slot: usize, to: Order) -> Result<(), Trouble> {
        // No other CPU finds them meanwhile.
        let blocks = std::mem::take(&mut self.slots(cpu).borrow_mut()[slot]);
        let mut parts = SlotBlocks::new();
        for (pfn, order) in blocks {
            if order <= to {
                parts.push((pfn, order));
                continue;
            }
            floor.pages.split(pfn, order, to).map_err(|error| Trouble::Free { cpu, pfn, error })?;
            let step = to.frames() as usize;
            parts.extend((0..order.frames()).step_by(step).map(|skip| (pfn.add(skip), to)));
        }
        self.slots(cpu).borrow_mut()[slot].extend(parts);
        Ok(())
    }

    /// Frees what the CPU has allocated and no CPU has freed.
    fn free_rest(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        for step in self.list.acts.iter().filter(|step| self.is_for(cpu, step)) {
            if let Act::Alloc { slot, .. } | Act::Bulk { slot, .. } = step.act {
                let blocks = std::mem::take(&mut self.slots(cpu).borrow_mut()[slot]);
                free_all(floor, &blocks)?;
            }
        }
        Ok(())
    }
}

/// Frees blocks; several of one order in bulk.
fn free_all(floor: &Floor<'_>, blocks: &[(Pfn, Order)]) -> Result<(), Trouble> {
    for alike in blocks.chunk_by(|one, other| one.1 == other.1) {
        let order = alike[0].1;
        if let [(pfn, _)] = alike {
            floor.free(*pfn, order)?;
        } else {
            let pfns: Vec<Pfn> = alike.iter().map(|&(pfn, _)| pfn).collect();
            floor.free_bulk(&pfns, order)?;
        }
    }
    Ok(())
}

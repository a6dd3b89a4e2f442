//! A machine with its CPUs, and the loop that runs them.
//!
//! ```text
//! Arena::new ── place regions ── boot an allocator in them      (no CPU runs: everything is free)
//!     └─ Simulation::new(model, arena, options)
//!            └─ run(body)   each CPU calls body(cpu) and ends with it; may be called again, clocks go on
//!            └─ report()
//! ```
//!
//! # Windows
//!
//! A run is measured between two times. An operation counts if it ends between them ([`here::done`]); so does an
//! acquisition of a lock and a transfer of a line. What began before the window makes up for what ends after it. A wait
//! may be longer than the window; its time is divided at the bounds. All
//! CPUs go on until each has left the window ([`here::goes_on`]), so that none is measured while others have stopped.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use thiserror::Error;

use crate::engine::chances::Chances;
use crate::engine::context::Interrupts;
use crate::engine::cpu::{Cpu, State};
pub use crate::engine::here;
use crate::engine::host::Host;
use crate::engine::plant::Plant;
use crate::engine::queue::{MAX_CPUS, Queue};
use crate::engine::running::await_turn;
use crate::engine::world::{Entered, World, with};
use crate::memory::arena::{Arena, Named, Region, chunk_of};
use crate::memory::counters::Counters;
use crate::memory::directory::Directory;
use crate::memory::names::Names;
use crate::model::{Model, Ps};

/// Bytes of a CPU's stack; the host backs only the pages that are used.
const STACK: usize = 256 << 10;

/// How the next CPU is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// By time: the CPU with the least clock.
    Time,
    /// By lot, with one switch in this many accesses; costs mean nothing then.
    Random(u64),
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Time => f.write_str("time"),
            Schedule::Random(_) => f.write_str("random"),
        }
    }
}

/// Accesses between two switches of a random schedule, unless the text says otherwise.
const SWITCH_IN: u64 = 16;

impl Schedule {
    /// Returns the text that parses back: `time`, or `random:` and the number of accesses.
    pub fn spelled(&self) -> String {
        match self {
            Schedule::Time => "time".to_owned(),
            Schedule::Random(accesses) => format!("random:{accesses}"),
        }
    }
}

/// A text that names no schedule.
#[derive(Clone, PartialEq, Eq, Error, Debug)]
pub enum ScheduleError {
    /// Its name is unknown.
    #[error("there are time, random and random:N")]
    Name,
    /// The text after `random:` is no number of at least 1.
    #[error("{0:?} is no number of accesses, as in random:100")]
    Accesses(String),
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleError> {
        match text.split_once(':') {
            None if text == "time" => Ok(Schedule::Time),
            None if text == "random" => Ok(Schedule::Random(SWITCH_IN)),
            Some(("random", accesses)) => match accesses.parse() {
                Ok(accesses @ 1..) => Ok(Schedule::Random(accesses)),
                _ => Err(ScheduleError::Accesses(accesses.to_owned())),
            },
            _ => Err(ScheduleError::Name),
        }
    }
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of CPUs that take part: the machine's first ones.
    pub cpus: usize,
    /// Seed of all that is random.
    pub seed: u64,
    /// How the next CPU is chosen.
    pub schedule: Schedule,
    /// Virtual time before the window.
    pub warm_up: Ps,
    /// Length of the window.
    pub window: Ps,
    /// Whether each acquisition of a lock is kept.
    pub trace: bool,
}

/// The machine cannot be set up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum SetupError {
    /// Too many CPUs, or none.
    #[error("there is no run on {asked} CPUs: {machine} has 1 to {has}")]
    Cpus { asked: usize, has: usize, machine: String },
    /// No memory for the stacks.
    #[error("no memory for the stack of CPU {0}")]
    Stack(usize),
}

/// All CPUs that are not done wait for each other.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("CPUs wait for what nobody will do: {}", .0.join("; "))]
pub struct Deadlock(pub Vec<String>);

/// Interrupts of one kind: the mean time between two on a CPU, and their handler, which gets the CPU's number.
pub type Arrivals<'h> = (Ps, &'h dyn Fn(usize));

type Task = Coroutine<(), (), (), DefaultStack>;

/// A simulated machine with an allocator's memory, ready to run.
pub struct Simulation<'a> {
    pub(crate) world: Box<World>,
    pub(crate) regions: Vec<Region>,
    pub(crate) options: Options,
    pub(crate) names: Names,
    stacks: Vec<DefaultStack>,
    _arena: PhantomData<&'a Arena>,
}

impl<'a> Simulation<'a> {
    /// Makes a machine whose shared memory is `arena`.
    ///
    /// Regions that are placed later do not belong to it.
    ///
    /// # Errors
    /// The machine has fewer CPUs, or there is no memory for their stacks.
    pub fn new(model: &Model, arena: &'a Arena, options: &Options) -> Result<Simulation<'a>, SetupError> {
        let has = model.topology.cpus();
        if options.cpus == 0 || options.cpus > has.min(MAX_CPUS) {
            return Err(SetupError::Cpus { asked: options.cpus, has, machine: model.name.clone() });
        }
        let regions = arena.regions();
        let (chunks, lines) = arena.chunks(model.pairs);
        let named = arena.names();
        let homes =
            homes(&regions, &named, model.pairs, lines, |region| chunks[chunk_of(region.start).0].line as usize);
        let directory = Directory::new(model, lines, |line| homes[line]);
        let topology = model.topology;
        let cpu = |number| {
            let (core, node) = (topology.core_of(number), topology.socket_of(number));
            Cpu::new(number as u16, core as u16, node as u16)
        };
        let cpus = (0..options.cpus).map(cpu).collect();
        let switch_in = match options.schedule {
            Schedule::Time => None,
            Schedule::Random(accesses) => Some(accesses),
        };
        let queue = Queue::new(options.seed, switch_in);
        let counters = Counters::new(&regions);
        let mut world = World::new(model.clone(), (arena.base(), chunks), (directory, counters), (cpus, queue));
        world.window = (options.warm_up, options.warm_up.saturating_add(options.window));
        world.locks.spans = options.trace.then(Vec::new);
        let stack = |cpu| DefaultStack::new(STACK).map_err(|_| SetupError::Stack(cpu));
        let stacks = (0..options.cpus).map(stack).collect::<Result<_, _>>()?;
        let mut names = Names::default();
        for Named { offset, bytes, part, name, .. } in named {
            names.add(offset, bytes, (part, name));
        }
        Ok(Simulation { world: Box::new(world), regions, options: *options, names, stacks, _arena: PhantomData })
    }

    /// Says which node frames belong to.
    ///
    /// `nodes` has, for runs of frames in ascending order, the first frame after the run and the run's node.
    pub(crate) fn set_frames(&mut self, nodes: Vec<(u64, u16)>) {
        self.world.nodes = nodes;
    }

    /// Returns the virtual time of the CPU that is farthest, in picoseconds.
    pub fn clock(&self) -> Ps {
        self.world.cpus.iter().map(|cpu| cpu.now.clock).max().unwrap_or(0)
    }

    /// Gives interrupts CPU numbers of their own from now on, if `apart`.
    ///
    /// An interrupt's number is that of the CPU that it hit, plus the number of all CPUs. The allocator must have been
    /// booted with them ([`crate::stage::contexts`]).
    pub(crate) fn keep_interrupts_apart(&mut self, apart: bool) {
        self.world.apart = if apart { self.world.cpus.len() } else { 0 };
    }

    /// Delays stores (`delays`) and shows a planted bug from now on.
    ///
    /// Only for a random schedule. `words` are the addresses of the words that have the name in `plant`.
    pub fn take_chances(&mut self, delays: bool, plant: Option<Plant>, words: Vec<usize>) {
        let cpus = self.world.cpus.len();
        self.world.chances = Some(Box::new(Chances::new(cpus, delays, plant, words)));
    }

    /// Runs `body` on every CPU, with the CPU's number.
    ///
    /// # Errors
    /// All CPUs that have not ended wait for each other. The machine must not be used again.
    ///
    /// # Panics
    /// If `body` panics, with its payload; and if a machine already runs on this thread.
    pub fn run(&mut self, body: impl Fn(usize)) -> Result<(), Deadlock> {
        self.run_met(body, None, None)
    }

    /// Like [`Simulation::run`], with interrupts.
    ///
    /// `handler` runs on each CPU at random times, `every` apart on average, wherever the CPU does not hold interrupts
    /// off.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    ///
    /// # Panics
    /// As [`Simulation::run`].
    pub fn run_interrupted(
        &mut self,
        body: impl Fn(usize),
        every: Ps,
        handler: impl Fn(usize),
    ) -> Result<(), Deadlock> {
        self.run_met(body, Some((every, &handler)), None)
    }

    /// Like [`Simulation::run`], with interrupts and NMIs.
    ///
    /// An NMI comes at any step: while interrupts are held off, in an interrupt, in an NMI. In an NMI the CPU has no
    /// number ([`framewright::Machine::pin`]), and no interrupt comes.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    ///
    /// # Panics
    /// As [`Simulation::run`].
    pub fn run_met(
        &mut self,
        body: impl Fn(usize),
        interrupts: Option<Arrivals<'_>>,
        nmis: Option<Arrivals<'_>>,
    ) -> Result<(), Deadlock> {
        self.run_all(body, (interrupts, nmis), None)
    }

    /// Like [`Simulation::run`], with a host that answers the allocator.
    ///
    /// Noted wake-ups of background threads are forgotten when the run begins.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    ///
    /// # Panics
    /// As [`Simulation::run`].
    pub fn run_hosted(&mut self, body: impl Fn(usize), host: &dyn Host) -> Result<(), Deadlock> {
        self.run_all(body, (None, None), Some(host))
    }

    fn run_all(
        &mut self,
        body: impl Fn(usize),
        (interrupts, nmis): (Option<Arrivals<'_>>, Option<Arrivals<'_>>),
        host: Option<&dyn Host>,
    ) -> Result<(), Deadlock> {
        for (number, cpu) in self.world.cpus.iter_mut().enumerate() {
            let first = |arrivals: &Option<Arrivals<'_>>| {
                let first = arrivals.map(|(every, _)| 1 + every * (number as u64 + 1) / 4);
                first.map_or(Ps::MAX, |first| cpu.now.clock + first)
            };
            (cpu.next_interrupt, cpu.next_nmi) = (first(&interrupts), first(&nmis));
        }
        let noted = |(every, handler): Arrivals<'_>| {
            // SAFETY: only the lifetime changes. The world forgets the handler when `turns` returns or unwinds
            // (`Entered`), so it is not called after its lifetime.
            let handler: &'static dyn Fn(usize) = unsafe { std::mem::transmute(handler) };
            Interrupts { handler, every }
        };
        (self.world.interrupts, self.world.nmis) = (interrupts.map(noted), nmis.map(noted));
        self.world.woken.clear();
        self.world.host = host.map(|host| {
            // SAFETY: as above.
            let host: &'static dyn Host = unsafe { std::mem::transmute(host) };
            std::ptr::from_ref(host)
        });
        let stack = || self.stacks.pop().or_else(|| DefaultStack::new(STACK).ok()).expect("memory for a stack");
        let stacks: Vec<DefaultStack> = std::iter::repeat_with(stack).take(self.world.cpus.len()).collect();
        let begin = |(number, stack)| Some(task(stack, number, &body));
        let mut tasks = Tasks(stacks.into_iter().enumerate().map(begin).collect());
        (0..tasks.0.len()).for_each(|number| self.world.admit(number as u16));
        self.turns(&mut tasks.0)
    }

    /// Runs CPUs until all are done.
    fn turns(&mut self, tasks: &mut [Option<Task>]) -> Result<(), Deadlock> {
        let world: *mut World = &raw mut *self.world;
        // SAFETY: the world lives as long as `self`, which is longer than the guard. Until that is dropped, the world
        // is used here by the raw pointer alone, and never while a CPU runs.
        let entered = unsafe { Entered::new(world) };
        // SAFETY: as above; the reference ends before a CPU runs.
        while let Some(number) = unsafe { (*world).next() } {
            let slot = &mut tasks[usize::from(number)];
            let task = slot.as_mut().expect("a CPU that is ready has something to do");
            if let CoroutineResult::Return(()) = task.resume(()) {
                self.stacks.extend(slot.take().map(Task::into_stack));
            }
        }
        drop(entered);
        let stuck = self.world.cpus.iter().enumerate().filter(|(_, cpu)| cpu.state != State::Done);
        let stuck: Vec<String> = stuck.map(|(number, cpu)| self.describe(number, cpu)).collect();
        if stuck.is_empty() { Ok(()) } else { Err(Deadlock(stuck)) }
    }

    fn describe(&self, number: usize, cpu: &Cpu) -> String {
        let held: Vec<String> = cpu.taking.iter().map(ToString::to_string).collect();
        let what = match cpu.state {
            State::Asleep => format!("sleeps as {:?}", cpu.waiter),
            _ => "spins".to_owned(),
        };
        let held = if held.is_empty() { String::new() } else { format!(" ({})", held.join(", ")) };
        format!("CPU {number} {what}{held}")
    }
}

/// The coroutines of one run.
///
/// Those that are left when the run fails end where they are. Unwinding would run their destructors, of which some take
/// locks, and no CPU would ever release these.
struct Tasks(Vec<Option<Task>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in self.0.iter_mut().flatten() {
            // SAFETY: nothing refers to what lies on the stack: no CPU of the run goes on, and the world notes a
            // yielder only for the CPU that runs. What the stack owns is leaked.
            unsafe { task.force_reset() };
        }
    }
}

/// Makes the coroutine that is one CPU for one run.
fn task<'b>(stack: DefaultStack, number: usize, body: &'b (impl Fn(usize) + 'b)) -> Task {
    // SAFETY: the coroutine borrows `body`; `run_met` drops it before it returns or unwinds.
    unsafe {
        Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
            with(|world| world.cpu().yielder = yielder);
            body(number);
            await_turn(true);
            with(|world| {
                world.settle();
                world.suspend(State::Done, None);
            });
        })
    }
}

/// Returns the home of each line.
///
/// It is the home of the named words in it, if they have one of their own, or else the region's.
fn homes(regions: &[Region], named: &[Named], pairs: bool, lines: usize, first: impl Fn(&Region) -> usize) -> Vec<u16> {
    let mut homes = vec![0; lines];
    for region in regions {
        let shift = region.line_shift() + u32::from(pairs);
        let count = region.bytes().div_ceil(1 << shift);
        for (i, home) in homes[first(region)..][..count].iter_mut().enumerate() {
            *home = region.home(i << shift);
        }
    }
    for words in named {
        let region = regions.iter().rfind(|region| region.start <= words.offset);
        let Some((region, home)) = region.zip(words.home) else { continue };
        let shift = region.line_shift() + u32::from(pairs);
        let [begin, end] = [words.offset, words.offset + words.bytes - 1].map(|at| (at - region.start) >> shift);
        homes[first(region) + begin..=first(region) + end].fill(home);
    }
    homes
}

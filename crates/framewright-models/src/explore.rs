//! Exploration of a model: every schedule of its threads, up to a bound.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use framewright::machine::{Machine, Ordering, Word};

use crate::device::{self, Device};
use crate::interrupt::{self, Fences};
use crate::loom_machine::LoomMachine;
use crate::running::{begin, run_on, switching};
use crate::session::{self, Call, Place, Plant, Verdict};
use crate::stage::Stage;

/// The part of one CPU.
pub type Part<S = Stage> = fn(&S);

/// A call of the core: the text of its line, which its file has once.
#[derive(Clone, Copy)]
pub struct Never {
    /// Seen from the core's sources.
    pub file: &'static str,
    /// The file's text.
    pub source: &'static str,
    /// A part of the line.
    pub text: &'static str,
}

impl Never {
    fn place(self) -> Place {
        let mut lines = (1..).zip(self.source.lines()).filter(|(_, line)| line.contains(self.text));
        let (Some((line, _)), None) = (lines.next(), lines.next()) else { panic!("`{}` is not there once", self.text) };
        Place { file: self.file, line, column: 0 }
    }
}

/// What two or three CPUs do at once on a stage, and what must hold under every schedule.
#[derive(Clone, Copy)]
pub struct Model<S: 'static = Stage> {
    /// The name that `// ORDER:` comments of the core give.
    pub name: &'static str,
    /// Preemptions of an execution: none for any number.
    pub bound: Option<usize>,
    /// Whether waits for a lock spin, as they do in production, instead of sleeping until the lock changes hands.
    ///
    /// Spinning multiplies the schedules; the model of the lock itself shows that both come to the same.
    pub spins: bool,
    /// Whether an exchange that fails may return an old value, as C11 permits.
    ///
    /// loom's exchanges always see the newest value. Otherwise a failing exchange is a load, which multiplies the
    /// schedules.
    pub stale: bool,
    /// A call of the core that no thread may make.
    pub never: Option<Never>,
    /// An interrupt that may come, if any.
    pub device: Option<Device<S>>,
    /// How the pair of fences is modelled.
    pub fences: Fences,
    /// Makes the stage, as the first CPU, before the threads start.
    pub stage: fn() -> S,
    /// The threads: which CPU each plays, and what it does there. The first one made the stage.
    pub threads: &'static [(u16, Part<S>)],
    /// Checks what must hold when all threads have finished.
    pub check: Part<S>,
}

impl<S> Model<S> {
    /// A model with any number of preemptions, without an interrupt.
    pub const fn new(
        name: &'static str,
        stage: fn() -> S,
        threads: &'static [(u16, Part<S>)],
        check: Part<S>,
    ) -> Model<S> {
        let fences = Fences::Promoted;
        Model {
            name,
            bound: None,
            spins: false,
            stale: false,
            never: None,
            device: None,
            fences,
            stage,
            threads,
            check,
        }
    }

    /// With at most `preemptions` in an execution.
    pub const fn bound(mut self, preemptions: usize) -> Model<S> {
        self.bound = Some(preemptions);
        self
    }

    /// With another check.
    pub const fn check(mut self, check: Part<S>) -> Model<S> {
        self.check = check;
        self
    }

    /// With waits that spin.
    pub const fn spins(mut self) -> Model<S> {
        self.spins = true;
        self
    }

    /// With exchanges that may fail by an old value.
    pub const fn stale(mut self) -> Model<S> {
        self.stale = true;
        self
    }

    /// With a call that no thread may make.
    pub const fn never(mut self, never: Never) -> Model<S> {
        self.never = Some(never);
        self
    }

    /// With heavy fences that interrupt the other CPUs.
    pub const fn struck(mut self) -> Model<S> {
        self.fences = Fences::Interrupt;
        self
    }

    /// With an interrupt. The device is one thread more, so that one preemption is all that ends.
    pub const fn device(mut self, device: Device<S>) -> Model<S> {
        self.device = Some(device);
        self.bound(1)
    }
}

/// What exploration found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Executions until the search was complete, or until the first failure.
    pub executions: u64,
    /// Executions of the searches that were thrown away, and of the first search, which learns the words.
    pub thrown_away: u64,
    /// Words that the threads share.
    pub words: usize,
    /// Wall-clock time, with the searches that were thrown away.
    pub elapsed: Duration,
    /// The failure, if there was one.
    pub failure: Option<String>,
    /// Whether the search ended within its time.
    pub is_complete: bool,
    /// Number of times that the planted call was met; 0 without a plant.
    pub met: u64,
}

/// Panic payload: a word must become one of loom's, so the search starts over.
struct StartOver;

/// Stack of a model's threads, in words of 8 bytes. A panic that prints a backtrace must fit.
const STACK: usize = 1 << 15;
/// Preemptions of the first search, if the model is searched with more.
const SCOUT: usize = 1;
/// Most steps of one execution. More mean that threads wait for each other for ever.
const STEPS: usize = 20_000;

/// The state that the threads of an execution share.
struct Run<S: 'static> {
    model: &'static Model<S>,
    stage: S,
    finished: <LoomMachine as Machine>::U32,
}

thread_local! {
    static RUN: RefCell<Option<Rc<dyn Any>>> = const { RefCell::new(None) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static LIMIT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Ends every exploration of this thread after a time, or none.
pub fn limit(time: Option<Duration>) {
    LIMIT.set(time);
}

/// Explores a model completely, up to its bound.
pub fn explore<S>(model: &'static Model<S>, plant: Option<Plant>) -> Outcome {
    search(model, plant, plant.is_some())
}

/// Explores a model like [`explore`], without a plant; also returns the calls that its threads made.
pub fn explore_noting<S>(model: &'static Model<S>) -> (Outcome, BTreeSet<Call>) {
    session::with(|session| *session.noted.borrow_mut() = Some(BTreeSet::new()));
    let outcome = search(model, None, false);
    (outcome, session::with(|session| session.noted.take()).unwrap_or_default())
}

/// Explores a model that must fail.
pub fn explore_wrong<S>(model: &'static Model<S>) -> Outcome {
    search(model, None, true)
}

fn search<S>(model: &'static Model<S>, plant: Option<Plant>, is_quiet: bool) -> Outcome {
    let began = Instant::now();
    session::with(|session| {
        session.start(plant, (model.spins, model.threads.len()), model.never.map(Never::place));
        session.stale.set(model.stale);
    });
    QUIET.set(is_quiet);
    quiet_hook();
    let (mut thrown_away, mut failure) = (0, None);
    let left = || LIMIT.get().map(|limit| limit.saturating_sub(began.elapsed()));
    // One preemption meets most of the words that the threads share. A word that is met late throws a long search away.
    let scout = Some(SCOUT).filter(|&scout| model.bound.is_none_or(|bound| bound > scout));
    for bound in scout.map(Some).into_iter().chain([model.bound]) {
        failure = loop {
            session::with(|session| session.restart());
            let result = catch_unwind(AssertUnwindSafe(|| builder(model, bound, left()).check(move || execute(model))));
            RUN.with_borrow_mut(Option::take);
            // An execution that failed left its device armed.
            device::disarm();
            let (has_learned, executions) = session::with(|session| (session.has_learned(), session.executions.get()));
            if has_learned || bound != model.bound {
                thrown_away += executions;
            }
            if !has_learned || left() == Some(Duration::ZERO) {
                break result.err().filter(|_| !has_learned).map(|payload| text(payload.as_ref()));
            }
        };
        if failure.is_some() {
            break;
        }
    }
    QUIET.set(false);
    session::with(|session| Outcome {
        executions: session.executions.get(),
        thrown_away,
        words: session.words(),
        elapsed: began.elapsed(),
        failure,
        met: session.met.get(),
        is_complete: left() != Some(Duration::ZERO),
    })
}

/// Sets everything that environment variables could change.
fn builder<S>(model: &Model<S>, bound: Option<usize>, time: Option<Duration>) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.max_threads = model.threads.len() + 1 + usize::from(model.device.is_some());
    builder.max_branches = STEPS;
    builder.max_permutations = None;
    builder.max_duration = time;
    builder.preemption_bound = bound;
    builder.checkpoint_file = None;
    builder.location = false;
    builder.log = false;
    builder
}

/// Runs one execution. loom's first thread has a small stack, so it only starts the one that does the work.
fn execute<S>(model: &'static Model<S>) {
    session::with(|session| session.execute());
    spawn(move || first(model));
}

fn spawn(body: impl FnOnce() + Send + 'static) {
    // The handle is not joined: the last thread to finish runs the check.
    let thread = move || {
        begin();
        body();
    };
    let handle = switching(|| loom::thread::Builder::new().stack_size(STACK).spawn(thread));
    drop(handle.expect("loom's threads start"));
}

/// Returns the run of this search, if an execution made it.
fn running<S>() -> Option<Rc<Run<S>>> {
    RUN.with_borrow(Clone::clone)?.downcast().ok()
}

/// Runs the set-up, whose outcome is what every execution of the search starts with.
fn set_up<S>(model: &'static Model<S>) -> Rc<Run<S>> {
    let run = Rc::new(Run { model, stage: (model.stage)(), finished: Word::new(0) });
    session::with(|session| session.keep());
    RUN.with_borrow_mut(|slot| *slot = Some(run.clone()));
    run
}

fn first<S>(model: &'static Model<S>) {
    let Some((&(cpu, body), others)) = model.threads.split_first() else { return };
    run_on(cpu);
    let run = running::<S>().unwrap_or_else(|| set_up(model));
    interrupt::together(model.fences, model.threads.iter().map(|&(cpu, _)| cpu));
    session::with(|session| session.together());
    device::disarm();
    if let Some(Device { strikes, plays, unmaskable, handler }) = model.device {
        let run = run.clone();
        device::arm((strikes, plays, unmaskable), move || handler(&run.stage));
        spawn(device::raise);
    }
    for &(cpu, body) in others {
        spawn(move || {
            run_on(cpu);
            play(running().expect("the first thread made the run"), body);
        });
    }
    play(run, body);
}

/// Runs one thread's part. The thread that finishes last checks the outcome.
fn play<S>(run: Rc<Run<S>>, body: Part<S>) {
    body(&run.stage);
    interrupt::finish();
    // Acquires the stores that the others made before they finished.
    let finished = run.finished.add(1, Ordering::AcqRel);
    if finished as usize + 1 < run.model.threads.len() {
        return;
    }
    session::with(|session| session.finish());
    device::disarm();
    match session::with(|session| session.verdict()) {
        Verdict::Counts => (run.model.check)(&run.stage),
        Verdict::Learns => (),
        Verdict::StartOver => resume_unwind(Box::new(StartOver)),
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    let owned = payload.downcast_ref::<String>().cloned();
    owned.or(payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "unknown".to_owned())
}

/// Keeps failures off the terminal that are wanted, or that belong to a search to be thrown away.
fn quiet_hook() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() && !session::with(|session| session.has_learned()) {
                loud(info);
            }
        }));
    });
}

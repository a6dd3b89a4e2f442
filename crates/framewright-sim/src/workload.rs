//! What CPUs of the simulated machine do with the allocator.
//!
//! A [`Workload`] is written `name:option=value,…` and prints as it parses; a [`Job`] is one run of it, from the
//! memory map to the checks at the end, and [`run()`] gives its [`Report`].
//!
//! Every CPU does its part of the workload over and over. The run is measured in a window (`run.rs`), before which
//! lists and caches come into their steady state; behind it CPUs go on until the last of them has left it, so that
//! none is measured while others rest; then each frees what it holds. All that is random comes from the run's seed.

pub(crate) mod settings;
pub mod aftermath;
mod aim7;
mod aim9;
mod dealt;
mod failure;
mod floor;
mod gate;
mod job;
mod lru;
mod netperf;
mod ops;
mod page_bench;
mod page_fault;
mod page_fault_mix;
mod pipe;
pub mod watch;

use std::fmt;
use std::str::FromStr;

use framewright::request::GFP_ATOMIC;
use framewright::{Order, Pfn, Request};
use framewright_ops::rng::Rng;

use crate::memory::arena::Arena;
use crate::model::{Model, Ps};
use crate::report::{Figure, Report};
use crate::stage::Descriptors;

pub use aftermath::Aftermath;
pub use aim7::Aim7;
pub use aim9::Aim9;
pub use dealt::{ParallelFree, Rand};
pub use failure::{Cause, Failure};
pub use floor::Progress;
pub use job::{Job, LARGE_MACHINE, Outcome, Passes, run, run_and_look, run_watched};
pub use lru::LruLists;
pub use netperf::Netperf;
pub use ops::Ops;
pub use page_bench::{Bulk, PageAlloc, PageBench01, PageBench02, PageBench03, PageBench04, Repeat};
pub use page_fault::PageFault1;
pub use page_fault_mix::PageFaultMix;
pub use pipe::{PageBench05, ProducerConsumer};
pub use settings::SpecError;

use floor::{Floor, Trouble};
use job::Map;
use settings::{Settings, read_all};

/// What a workload wants of the machine.
pub(crate) struct Needs {
    /// Frames that each CPU holds at most.
    pub(crate) frames: u64,
    /// Bytes of shared memory besides the allocator's: in all, and for each frame of the machine.
    pub(crate) bytes: (usize, usize),
    /// How long it takes, if nobody says otherwise.
    pub(crate) length: Length,
}

/// How long a workload is to be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// Warm-up and window; where that is wanted instead, so many times what a CPU does in one pass, in operations.
    Time {
        /// Before the window.
        warm_up: Ps,
        /// The window.
        window: Ps,
        /// Operations of a pass.
        pass: u64,
    },
    /// So many rounds of every CPU, behind one to warm up.
    Rounds(u32),
}

impl Length {
    /// At least two rounds of so many operations, and some thousands of operations of each CPU.
    pub(crate) fn of_rounds(operations: usize) -> Length {
        Length::Rounds((OPERATIONS / operations.max(1)).max(2) as u32)
    }
}

/// Operations of each CPU that are enough for an average.
const OPERATIONS: usize = 1024;

/// What a workload is set up on.
pub(crate) struct Ground<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) model: &'a Model,
    pub(crate) map: &'a Map,
    pub(crate) cpus: usize,
    pub(crate) seed: u64,
    pub(crate) descriptors: Descriptors,
}

/// A kind of workload: its options are the implementor.
pub(crate) trait Kind: Settings {
    /// Name on the command line.
    const NAME: &'static str;
    /// What it models, and its source.
    const SUMMARY: &'static str;
    /// What one operation is.
    const UNIT: &'static str;
    /// Mean time between two interrupts of a CPU if nobody says otherwise; none for a workload without.
    const INTERRUPTS: Option<Ps> = None;

    fn needs(&self, cpus: usize) -> Needs;

    /// Puts what CPUs share into the arena. Why it cannot, if so.
    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String>;
}

/// A workload in its place.
pub(crate) trait Play {
    /// Brings the allocator into the state that the workload would bring it into, before time begins.
    fn prepare(&self, floor: &Floor<'_>, rng: &mut Rng) -> Result<(), Trouble> {
        let _ = (floor, rng);
        Ok(())
    }

    /// What a CPU does until the run is over. It frees all that it holds.
    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble>;

    /// What an interrupt does, if interrupts come: it must not wait, so it may get no page.
    fn interrupt(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let _ = cpu;
        floor.pages.alloc(&Request::page(GFP_ATOMIC)).map_or(Ok(()), |pfn| floor.free(pfn, Order(0)))
    }

    /// Whether what the workload itself keeps is as it should be when CPUs have left these pages behind. What is wrong, if not.
    fn check(&self, left: &[Pfn]) -> Result<(), String> {
        let _ = left;
        Ok(())
    }

    /// What the workload measures besides its operations.
    fn figures(&self, report: &Report) -> Vec<Figure> {
        let _ = report;
        Vec::new()
    }
}

macro_rules! workloads {
    ($($Kind:ident),+ $(,)?) => {
        /// What CPUs do: one of the kinds, with its options.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs, reason = "each is described where its options are")]
        pub enum Workload { $( $Kind($Kind), )+ Ops(Ops) }

        impl Workload {
            /// Names of all workloads.
            pub fn names() -> impl Iterator<Item = &'static str> {
                [$( $Kind::NAME, )+ Ops::NAME].into_iter()
            }

            /// What one operation is.
            pub fn unit(&self) -> &'static str {
                match self { $( Workload::$Kind(_) => $Kind::UNIT, )+ Workload::Ops(_) => Ops::UNIT }
            }

            /// Mean time between two interrupts of a CPU, for a workload that needs them.
            pub(crate) fn interrupts(&self) -> Option<Ps> {
                match self { $( Workload::$Kind(_) => $Kind::INTERRUPTS, )+ Workload::Ops(_) => None }
            }

            /// The workload of a name, with its default options. A list of operations has none.
            fn named(name: &str) -> Option<Workload> {
                match name {
                    $( $Kind::NAME => Some(Workload::$Kind($Kind::default())), )+
                    _ => None,
                }
            }

            /// The same workload with other options.
            fn with(&self, options: &str) -> Result<Workload, SpecError> {
                match self {
                    $( Workload::$Kind(_) => read_all($Kind::NAME, options).map(Workload::$Kind), )+
                    Workload::Ops(_) => Ops::load(options).map(Workload::Ops),
                }
            }

            fn name_and_summary(&self) -> (&'static str, &'static str) {
                match self {
                    $( Workload::$Kind(_) => ($Kind::NAME, $Kind::SUMMARY), )+
                    Workload::Ops(_) => (Ops::NAME, Ops::ABOUT),
                }
            }

            fn settings(&self) -> Vec<settings::Setting> {
                match self {
                    $( Workload::$Kind(kind) => kind.each(), )+
                    Workload::Ops(_) => Vec::new(),
                }
            }

            pub(crate) fn needs(&self, cpus: usize) -> Needs {
                match self {
                    $( Workload::$Kind(kind) => kind.needs(cpus), )+
                    Workload::Ops(ops) => ops.needs(),
                }
            }

            pub(crate) fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
                match self {
                    $( Workload::$Kind(kind) => kind.set_up(ground), )+
                    Workload::Ops(ops) => ops.set_up(ground),
                }
            }
        }
    };
}

workloads! {
    PageFault1, PageFaultMix, PageBench01, PageBench02, PageBench03, PageBench04, PageBench05, PageAlloc, ParallelFree, Aim7, Aim9, Netperf, Bulk, Repeat, Rand,
    ProducerConsumer,
}

impl Workload {
    /// A workload described in lines of at most 100 columns: what it models, what an operation is, and its options with
    /// their defaults. None if there is no workload of this name.
    pub fn about(name: &str) -> Option<String> {
        if name == Ops::NAME {
            return Some(Ops::ABOUT.to_owned());
        }
        let workload = Workload::named(name)?;
        let (name, summary) = workload.name_and_summary();
        let mut text = format!("{name}: {summary}\n  operation: one {}\n", workload.unit());
        for setting in workload.settings() {
            text += &format!("  {}={}: {}\n", setting.key, setting.value, setting.about);
        }
        Some(text)
    }
}

impl FromStr for Workload {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Workload, SpecError> {
        let (name, options) = text.split_once(':').map_or((text, None), |(name, options)| (name, Some(options)));
        if name == Ops::NAME {
            let reason = || "the workload is `ops:FILE`: a list of operations in a file".to_owned();
            let path = options.filter(|path| !path.is_empty());
            let path = path.ok_or_else(|| SpecError::Ops { path: text.to_owned(), reason: reason() })?;
            return Ops::load(path).map(Workload::Ops);
        }
        let unknown = || SpecError::Name { name: name.to_owned(), names: Workload::names().collect() };
        let workload = Workload::named(name).ok_or_else(unknown)?;
        options.map_or(Ok(workload.clone()), |options| workload.with(options))
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Workload::Ops(ops) = self {
            return write!(f, "{}:{}", Ops::NAME, ops.name());
        }
        f.write_str(self.name_and_summary().0)?;
        let changed = self.settings().into_iter().filter(|setting| !setting.is_default);
        let mut separator = ':';
        changed.into_iter().try_for_each(|setting| {
            let before = std::mem::replace(&mut separator, ',');
            write!(f, "{before}{}={}", setting.key, setting.value)
        })
    }
}

impl Figure {
    /// A figure of a workload's own.
    pub(crate) fn new(name: &str, value: f64, unit: &str) -> Figure {
        Figure { name: name.to_owned(), value, unit: unit.to_owned() }
    }
}

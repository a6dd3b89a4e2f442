//! What a workload is to a job: what it needs, how it is set up, and what its CPUs do.

use framewright::request::GFP_ATOMIC;
use framewright::{Order, Pfn, Request};
use framewright_ops::rng::Rng;

use super::floor::{Floor, Trouble};
use super::memory_map::MemoryMap;
use crate::memory::arena::Arena;
use crate::model::{Model, Ps};
use crate::report::{Figure, Report};
use crate::settings::Configurable;
use crate::stage::Descriptors;

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
    pub(crate) map: &'a MemoryMap,
    pub(crate) cpus: usize,
    pub(crate) seed: u64,
    pub(crate) descriptors: Descriptors,
}

/// A kind of workload: its options are the implementor.
pub(crate) trait WorkloadKind: Configurable {
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

    /// Whether what the workload itself keeps is as it should be when CPUs have left these pages behind. What is wrong,
    /// if not.
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

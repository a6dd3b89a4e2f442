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

/// Requirements of a workload for the machine.
pub(crate) struct Needs {
    /// Most frames that each CPU holds.
    pub(crate) frames: u64,
    /// Bytes of shared memory besides the allocator's: in all, and for each frame of the machine.
    pub(crate) bytes: (usize, usize),
    /// Its default length.
    pub(crate) length: Length,
}

/// The length of a measured run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// Warm-up and window as times; or, if asked for, as passes of this many operations.
    Time {
        /// Before the window.
        warm_up: Ps,
        /// The window.
        window: Ps,
        /// Operations of a pass.
        pass: u64,
    },
    /// This many rounds of every CPU, after one to warm up.
    Rounds(u32),
}

impl Length {
    /// Returns at least two rounds of `operations` operations, and about a thousand operations of each CPU.
    pub(crate) fn of_rounds(operations: usize) -> Length {
        Length::Rounds((OPERATIONS / operations.max(1)).max(2) as u32)
    }
}

/// Operations of each CPU that are enough for an average.
const OPERATIONS: usize = 1024;

/// The machine that a workload is set up on.
pub(crate) struct Ground<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) model: &'a Model,
    pub(crate) map: &'a MemoryMap,
    pub(crate) cpus: usize,
    pub(crate) seed: u64,
    pub(crate) descriptors: Descriptors,
}

/// A kind of workload; the implementor holds its options.
pub(crate) trait WorkloadKind: Configurable {
    /// Name on the command line.
    const NAME: &'static str;
    /// The modelled workload, and its source.
    const SUMMARY: &'static str;
    /// Name of one operation.
    const UNIT: &'static str;
    /// Default mean time between two interrupts of a CPU; `None` for a workload without.
    const INTERRUPTS: Option<Ps> = None;

    fn needs(&self, cpus: usize) -> Needs;

    /// Places what CPUs share in the arena; returns why it cannot, if so.
    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String>;
}

/// A workload that is set up.
pub(crate) trait Play {
    /// Brings the allocator into the workload's state before time begins.
    fn prepare(&self, floor: &Floor<'_>, rng: &mut Rng) -> Result<(), Trouble> {
        let _ = (floor, rng);
        Ok(())
    }

    /// Runs one CPU until the run is over. The CPU frees all that it holds.
    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble>;

    /// Handles an interrupt. It must not wait, so it may get no page.
    fn interrupt(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let _ = cpu;
        floor.pages.alloc(&Request::page(GFP_ATOMIC)).map_or(Ok(()), |pfn| floor.free(pfn, Order(0)))
    }

    /// Checks the workload's own records after the run; `left` are the pages that CPUs left.
    ///
    /// Returns what is wrong, if anything.
    fn check(&self, left: &[Pfn]) -> Result<(), String> {
        let _ = left;
        Ok(())
    }

    /// Returns what the workload measures besides its operations.
    fn figures(&self, report: &Report) -> Vec<Figure> {
        let _ = report;
        Vec::new()
    }
}

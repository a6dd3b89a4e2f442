//! Why a run failed, with all that it takes to run it again.

use framewright::{AllocError, BootError, FreeError, Pfn, Request, Violation};

use super::floor::Trouble;
use crate::engine::run::{Deadlock, SetupError};

/// A run that failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{workload} on {cpus} {}, seed {seed}: {cause}", if *.cpus == 1 { "CPU" } else { "CPUs" })]
pub struct Failure {
    /// The workload with its options.
    pub workload: String,
    /// CPUs that took part.
    pub cpus: usize,
    /// Seed of the run.
    pub seed: u64,
    /// The cause, which the message tells.
    pub cause: Cause,
}

/// Why a run failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum Cause {
    /// The machine cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The allocator cannot be set up.
    #[error("the allocator cannot be set up: {0}")]
    Boot(BootError),
    /// The workload does not fit the machine.
    #[error("{0}")]
    Unfit(String),
    /// A request was not served.
    #[error("CPU {cpu} got no block of order {} of {frames} frames: {error}", .request.order)]
    NoMemory { cpu: usize, request: Request, error: AllocError, frames: u64 },
    /// A free was refused.
    #[error("CPU {cpu} was not let free {pfn}: {error}")]
    Free { cpu: usize, pfn: Pfn, error: FreeError },
    /// All CPUs wait for each other.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// The allocator's records contradict each other.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The workload's own records are wrong.
    #[error("the workload's own lists: {0}")]
    Disorder(String),
    /// Everything was freed, but frames count as allocated.
    #[error("everything was freed, but {0} frames count as allocated")]
    Lost(u64),
}

impl Cause {
    pub(crate) fn of(trouble: Trouble, frames: u64) -> Cause {
        match trouble {
            Trouble::Alloc { cpu, request, error } => Cause::NoMemory { cpu, request, error, frames },
            Trouble::Free { cpu, pfn, error } => Cause::Free { cpu, pfn, error },
        }
    }
}

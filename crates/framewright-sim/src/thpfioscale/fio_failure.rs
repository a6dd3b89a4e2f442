//! Why a run came to nothing.

use framewright::{AllocError, BootError, Request, Violation};

use crate::engine::run::{Deadlock, SetupError};

/// Why a run came to nothing.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FioFailure {
    /// Fewer CPUs than roles.
    #[error(
        "{machine} has {cpus} CPUs: too few for four readers, one that wants huge pages and the kernel's threads of each node"
    )]
    Cpus {
        /// The machine.
        machine: String,
        /// How many it has.
        cpus: usize,
    },
    /// The configuration is wrong.
    #[error("the allocator cannot be set up: {0}")]
    Boot(BootError),
    /// The machine cannot be had.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// All CPUs wait.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// A request failed over and over.
    #[error("no memory for {request:?}: {error}")]
    Memory {
        /// Which.
        request: Request,
        /// Why.
        error: AllocError,
    },
    /// The allocator's words contradict each other.
    #[error("the allocator is in disorder: {0}")]
    Disorder(Violation),
    /// Frames are still in use at the end.
    #[error("{0} frames are in use when all was freed")]
    Lost(u64),
}

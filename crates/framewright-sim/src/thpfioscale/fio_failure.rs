//! Why a run failed.

use framewright::{AllocError, BootError, Request, Violation};

use crate::engine::run::{Deadlock, SetupError};

/// Why a run failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum FioFailure {
    /// Fewer CPUs than roles.
    #[error(
        "{machine} has {cpus} CPUs: too few for four readers, one that wants huge pages and the kernel's threads of \
            each node"
    )]
    Cpus { machine: String, cpus: usize },
    /// The configuration is wrong.
    #[error("the allocator cannot be set up: {0}")]
    Boot(BootError),
    /// The machine cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// All CPUs wait for each other.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// A request failed again and again.
    #[error("no memory for {request:?}: {error}")]
    Memory { request: Request, error: AllocError },
    /// The allocator's words contradict each other.
    #[error("the allocator is in disorder: {0}")]
    Disorder(Violation),
    /// Frames are still in use at the end.
    #[error("{0} frames are in use when all was freed")]
    Lost(u64),
}

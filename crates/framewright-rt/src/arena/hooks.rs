//! The program's say in how an arena grows and shrinks.
//!
//! | hook | when | may refuse |
//! |---|---|---|
//! | `on_grow`, `on_shrink` ([`Change`]) | once for each change, before anything is done | yes: nothing changes |
//! | [`Commit::commit`] | for each range, after it became accessible and before its first use | yes: it stays absent |
//! | [`Commit::decommit`] | for each range, after its last use and before it goes | yes: it stays present |
//! | `on_low_memory` ([`LowMemory`]) | each time that a request found a node below its low mark | no |
//!
//! A hook runs on the thread whose call makes the change, which may be a request that found no memory. It may allocate
//! from the arena by the rules of [`crate::Callbacks`]. Its calls to grow or shrink the arena fail. A panic of a hook
//! is a refusal, and is counted ([`crate::Arena::callback_panics`]).
//!
//! A hook may run on a thread of the arena. So it must not drop the last [`Arc`] of the arena: that drop waits for the
//! arena's threads, and one of them may wait for the hook.

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use framewright::NodeId;

use crate::callbacks::Panics;
use crate::error::ArenaError;

/// Why an arena is about to grow or shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The program called [`crate::Arena::grow`] or [`crate::Arena::shrink`].
    Asked,
    /// A request found no memory.
    Exhausted,
    /// The process is near its cgroup's limit ([`crate::Arena::shrink_to_limit`]).
    CgroupLimit,
}

/// A change of an arena's size that is about to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Bytes that shall come or go, at most.
    pub bytes: u64,
    /// Bytes present now.
    pub present: u64,
    /// Bytes that can be present.
    pub limit: u64,
    /// Why.
    pub cause: Cause,
}

/// A shortage that a request met ([`crate::ArenaBuilder::on_low_memory`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowMemory {
    /// The node that is short of memory.
    pub node: NodeId,
    /// Its free memory in bytes.
    pub free: u64,
    /// The mark below which a request finds too little, in bytes.
    pub low: u64,
}

/// Prepares memory before its use, and is told before it goes.
///
/// For what a program does beyond the arena's own `mprotect` and `madvise`: registering memory with a device, charging
/// it to an account, or mapping it where memory was handed in ([`crate::ArenaBuilder::build_in`]). The memory present
/// at first is committed when the arena is built. Nothing is decommitted when the arena is dropped, nor when a build
/// fails after a commit.
pub trait Commit: Send + Sync {
    /// Prepares memory; from then on the arena's users read and write it.
    ///
    /// # Errors
    /// The memory cannot be used: it stays absent.
    fn commit(&self, memory: NonNull<[u8]>) -> io::Result<()>;

    /// Ends the use of memory, which has no users any more. Its contents are lost.
    ///
    /// # Errors
    /// The memory must stay: it remains present and usable.
    fn decommit(&self, memory: NonNull<[u8]>) -> io::Result<()>;
}

/// The hook for shortages.
pub(super) type OnLowMemory = Arc<dyn Fn(&LowMemory) + Send + Sync>;
type MayChange = Arc<dyn Fn(&Change) -> bool + Send + Sync>;

/// What the program says about growing and shrinking.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub(super) on_grow: Option<MayChange>,
    pub(super) on_shrink: Option<MayChange>,
    pub(super) on_low_memory: Option<OnLowMemory>,
    pub(super) commit: Option<Arc<dyn Commit>>,
}

/// A veto, as an error.
pub(super) fn ask(
    hook: Option<&MayChange>,
    what: &'static str,
    change: &Change,
    panics: &Panics,
) -> Result<(), ArenaError> {
    let Some(hook) = hook else { return Ok(()) };
    match panics.catch(|| hook(change)) {
        Some(true) => Ok(()),
        Some(false) | None => Err(ArenaError::Vetoed { what, bytes: change.bytes }),
    }
}

impl Hooks {
    /// Calls the hook for memory that comes.
    pub(super) fn commit(&self, memory: NonNull<[u8]>, panics: &Panics) -> Result<(), ArenaError> {
        self.call("commit", memory, panics, |hook| hook.commit(memory))
    }

    /// Calls the hook for memory that goes.
    pub(super) fn decommit(&self, memory: NonNull<[u8]>, panics: &Panics) -> Result<(), ArenaError> {
        self.call("decommit", memory, panics, |hook| hook.decommit(memory))
    }

    fn call(
        &self,
        what: &'static str,
        memory: NonNull<[u8]>,
        panics: &Panics,
        call: impl FnOnce(&dyn Commit) -> io::Result<()>,
    ) -> Result<(), ArenaError> {
        let Some(hook) = &self.commit else { return Ok(()) };
        let refused = |errno| ArenaError::Hook { what, bytes: memory.len() as u64, errno };
        match panics.catch(|| call(&**hook)) {
            Some(done) => done.map_err(|error| refused(error.raw_os_error())),
            None => Err(refused(None)),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = [self.on_grow.is_some(), self.on_shrink.is_some(), self.on_low_memory.is_some()];
        write!(f, "Hooks {{ on grow, shrink, low memory: {is_set:?}, commit: {} }}", self.commit.is_some())
    }
}

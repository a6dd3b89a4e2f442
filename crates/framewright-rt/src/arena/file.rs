//! The file of an arena: made or taken, and described for its ledger.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use framewright::mechanisms::Hardened;
use framewright::{Pfn, PfnRange};

use super::backing::Backing;
use super::builder::ArenaBuilder;
use super::shape::{Shape, too_large};
use crate::error::ArenaError;
use crate::ledger::entries::Ledger;
use crate::ledger::format::Form;
use crate::os::{self, sealed_memfd};

/// A file for an arena's memory, and the same file opened once more and locked, if it has a ledger.
pub(super) struct Made {
    pub(super) file: OwnedFd,
    pub(super) lock: Option<OwnedFd>,
}

/// The ledger of an arena that is being built, and the blocks that it holds from before.
pub(super) struct Kept<'h> {
    pub(super) ledger: Arc<Ledger>,
    pub(super) held: &'h [PfnRange],
}

impl ArenaBuilder {
    /// Makes the file that the memory lies in, or the one handed in as long as that.
    ///
    /// A file with a ledger is locked before anything is done to it.
    pub(super) fn make_file(&self, len: u64) -> Result<Option<Made>, ArenaError> {
        match (self.backing, &self.file) {
            (Backing::Memfd, _) => {
                let len = usize::try_from(len).map_err(|_| too_large(len))?;
                let file = sealed_memfd("framewright", len)?;
                Ok(Some(Made { lock: self.lock(&file)?, file }))
            }
            (Backing::File, Some(given)) => {
                let file = os::duplicate(given.as_fd())?;
                let made = Made { lock: self.lock(&file)?, file };
                let bytes = os::file_len(made.file.as_fd())?;
                if bytes != 0 {
                    return Err(ArenaError::FileNotEmpty { bytes });
                }
                os::set_file_len(made.file.as_fd(), len)?;
                Ok(Some(made))
            }
            _ => Ok(None),
        }
    }

    /// Locks a file that is to have a ledger.
    fn lock(&self, file: &OwnedFd) -> Result<Option<OwnedFd>, ArenaError> {
        if !self.recoverable {
            return Ok(None);
        }
        let own = os::reopen(file.as_fd())?;
        match os::lock(own.as_fd())? {
            true => Ok(Some(own)),
            false => Err(ArenaError::FileInUse),
        }
    }

    /// Checks that the options go together with a ledger, if one is wanted.
    pub(super) fn check_recoverable(&self) -> Result<(), ArenaError> {
        let refused = [
            (self.backing == Backing::Private, "private memory"),
            (matches!(self.backing, Backing::Hugetlb(_)), "huge pages of the pool"),
            // They move blocks without a word to the ledger.
            (self.asked.callbacks.is_some(), "callbacks of its own"),
            // All free memory is filled at boot, and free is what is not held yet.
            (self.mechanisms.hardened != Hardened::Off, "the mechanism hardened"),
        ];
        match refused.iter().find(|(is_set, _)| self.recoverable && *is_set) {
            Some(&(_, option)) => Err(ArenaError::NotRecoverable { option }),
            None => Ok(()),
        }
    }

    /// The shape as a ledger's header keeps it.
    pub(super) fn form(&self, shape: &Shape) -> Form {
        Form {
            page_shift: shape.geometry.page_shift,
            max_order: shape.geometry.max_order,
            first: Pfn(self.first_pfn),
            movable: self.movable,
            limit: self.limit,
            nodes: self.parts.iter().map(|part| part.bytes).collect(),
        }
    }
}

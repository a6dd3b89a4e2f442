//! A ledger's journal and table as words in shared memory.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::format::{Form, JOURNAL};
use crate::os::{Backed, Mapping, OsError};

/// The mapping of a ledger.
#[derive(Debug)]
pub(super) struct Map {
    memory: Mapping,
    /// Entries of the table.
    frames: usize,
}

impl Map {
    /// Maps the ledger of a file that is as long as its form says.
    pub(super) fn new(file: BorrowedFd<'_>, form: &Form) -> Result<Map, OsError> {
        let too_large = |_| OsError { call: crate::os::Call::Mmap, bytes: form.ledger(), errno: libc::ENOMEM };
        let len = usize::try_from(form.ledger()).map_err(too_large)?;
        let memory = Mapping::new(Backed::File(file, form.blocks()), len, 1)?;
        Ok(Map { memory, frames: form.frames() as usize })
    }

    /// The words of the journal.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins with the journal, at a multiple of the page, and lives as long as this. Any bits
        // are a word. Other processes may write here, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.memory.start().cast().as_ptr(), JOURNAL as usize / 8) }
    }

    /// The entries of the table, one for each frame.
    #[inline]
    pub(super) fn table(&self) -> &[AtomicU32] {
        // SAFETY: as above. The table follows the journal, and the ledger has room for an entry of each frame.
        unsafe {
            let start = self.memory.start().add(JOURNAL as usize).cast();
            std::slice::from_raw_parts(start.as_ptr(), self.frames)
        }
    }
}

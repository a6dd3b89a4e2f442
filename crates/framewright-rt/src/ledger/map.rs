//! A ledger's journal and table as words in shared memory.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::format::{Form, JOURNAL};
use crate::os::{Call, OsError, Table};

/// The mapping of a ledger: its journal, and then its table.
#[derive(Debug)]
pub(super) struct Map {
    memory: Table,
    /// Entries of the table.
    frames: usize,
}

impl Map {
    /// Maps the ledger of a file that is as long as its form says.
    pub(super) fn new(file: BorrowedFd<'_>, form: &Form) -> Result<Map, OsError> {
        let too_large = |_| OsError { call: Call::Mmap, bytes: form.ledger(), errno: libc::ENOMEM };
        let len = usize::try_from(form.ledger()).map_err(too_large)?;
        Ok(Map { memory: Table::of_file(file, form.blocks(), len)?, frames: form.frames() as usize })
    }

    /// The words of the journal.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        self.memory.words(0, JOURNAL as usize / 8)
    }

    /// The entries of the table, one for each frame.
    #[inline]
    pub(super) fn table(&self) -> &[AtomicU32] {
        self.memory.words(JOURNAL as usize, self.frames)
    }
}

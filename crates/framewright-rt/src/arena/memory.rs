//! The memory that an arena manages.
//!
//! # Why the unsafe code is right
//!
//! A mapping is accessible between [`ArenaMemory::commit`] and [`ArenaMemory::decommit`], and its contents go in
//! [`ArenaMemory::decommit`] and [`ArenaMemory::discard`] alone. Both are unsafe: their caller says that there is no
//! reference to that memory. For memory that was handed in they do nothing; its owner made the promises of
//! [`super::ArenaBuilder::build_in`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use framewright::NodeId;

use super::backing::{Backing, Outcome, Transparent};
use crate::error::ArenaError;
use crate::os::{Advice, Backed, Call, Forget, HugePage, Mapping, OsError, Placement, node_of, place};

/// ArenaMemory of one kind, mapped until it is dropped; or the caller's.
pub(super) enum ArenaMemory {
    /// Mapped here. The file is that of shared memory.
    Mapped { mapping: Mapping, backing: Backing, file: Option<OwnedFd> },
    /// Handed in.
    Foreign { start: NonNull<u8> },
}

// SAFETY: the caller that hands memory in promises that any thread may use it; the rest is `Send` by itself.
unsafe impl Send for ArenaMemory {}
// SAFETY: as above.
unsafe impl Sync for ArenaMemory {}

impl ArenaMemory {
    /// `len` bytes at a multiple of `align`; with huge pages both are multiples of one.
    ///
    /// `file` has at least as many, and is there for memory of a file. Memory that may grow is inaccessible until
    /// [`ArenaMemory::commit`].
    pub(super) fn map(
        (backing, file): (Backing, Option<OwnedFd>),
        len: usize,
        align: usize,
        may_grow: bool,
    ) -> Result<ArenaMemory, ArenaError> {
        let (mapping, file) = match backing {
            Backing::Private if may_grow => (Mapping::new(Backed::Reserved, len, align)?, None),
            Backing::Private => (Mapping::new(Backed::Anonymous, len, align)?, None),
            Backing::Memfd | Backing::File => {
                let file = file.ok_or(ArenaError::NoFile)?;
                let backed = if may_grow { Backed::ReservedFile(file.as_fd()) } else { Backed::File(file.as_fd(), 0) };
                (Mapping::new(backed, len, align)?, Some(file))
            }
            Backing::Hugetlb(page) => {
                let mapping = Mapping::new(Backed::Huge(page.shift()), len, align.max(page.bytes() as usize));
                let mapping = mapping.map_err(|error| from_pool(error, page, len))?;
                // A copy for the child would need as many huge pages again, for want of which it would be killed.
                mapping.advise(0, mapping.len(), Advice::NotInChildren)?;
                (mapping, None)
            }
        };
        Ok(ArenaMemory::Mapped { mapping, backing, file })
    }

    /// # Safety
    /// As [`super::ArenaBuilder::build_in`].
    pub(super) unsafe fn foreign(memory: NonNull<[u8]>) -> ArenaMemory {
        ArenaMemory::Foreign { start: memory.cast() }
    }

    pub(super) const fn start(&self) -> NonNull<u8> {
        match self {
            ArenaMemory::Mapped { mapping, .. } => mapping.start(),
            ArenaMemory::Foreign { start, .. } => *start,
        }
    }

    /// Where `len` bytes from `at` on are. A place outside of the memory is no use, and no harm.
    pub(super) fn place_of(&self, at: usize, len: usize) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.start().map_addr(|start| start.saturating_add(at)), len)
    }

    pub(super) const fn backing(&self) -> Option<Backing> {
        match self {
            ArenaMemory::Mapped { backing, .. } => Some(*backing),
            ArenaMemory::Foreign { .. } => None,
        }
    }

    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            ArenaMemory::Mapped { file, .. } => file.as_ref().map(AsFd::as_fd),
            ArenaMemory::Foreign { .. } => None,
        }
    }

    /// Says where `len` bytes from `at` on shall lie. Nothing has touched them yet.
    pub(super) fn place(&self, at: usize, len: usize, placement: Placement) -> Result<(), OsError> {
        match self {
            ArenaMemory::Mapped { mapping, .. } => place(mapping, at, len, placement),
            ArenaMemory::Foreign { .. } => Ok(()),
        }
    }

    /// The node that a byte's memory lies on; none if it has none yet.
    pub(super) fn node_at(&self, at: usize) -> Result<Option<NodeId>, OsError> {
        node_of(self.start().as_ptr().wrapping_add(at))
    }

    /// Asks for huge pages, or for none.
    pub(super) fn advise_transparent(&self, transparent: Transparent) -> Outcome {
        let advice = match transparent {
            Transparent::System => return Outcome::NotAsked,
            Transparent::Always => Advice::HugePages,
            Transparent::Never => Advice::NoHugePages,
        };
        match self {
            ArenaMemory::Mapped { mapping, .. } => match mapping.advise(0, mapping.len(), advice) {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Refused(error),
            },
            ArenaMemory::Foreign { .. } => Outcome::NotAsked,
        }
    }

    /// Makes all pages of `len` bytes from `at` on.
    pub(super) fn populate(&self, at: usize, len: usize) -> Result<(), OsError> {
        match self {
            ArenaMemory::Mapped { mapping, .. } => mapping.advise(at, len, Advice::Populate),
            ArenaMemory::Foreign { .. } => Ok(()),
        }
    }

    /// Makes `len` bytes from `at` on accessible; where memory was handed in they are already.
    pub(super) fn commit(&self, at: usize, len: usize) -> Result<(), OsError> {
        match self {
            ArenaMemory::Mapped { mapping, .. } => mapping.allow(at, len),
            ArenaMemory::Foreign { .. } => Ok(()),
        }
    }

    /// Gives `len` bytes from `at` on back, and makes them inaccessible.
    ///
    /// Memory that was handed in stays as it is.
    ///
    /// # Safety
    /// There is no reference to them.
    pub(super) unsafe fn decommit(&self, at: usize, len: usize) -> Result<(), OsError> {
        match self {
            // SAFETY: the caller's promise.
            ArenaMemory::Mapped { mapping, file, .. } => unsafe {
                mapping.forget(at, len, pages_of(file.as_ref()))?;
                mapping.deny(at, len)
            },
            ArenaMemory::Foreign { .. } => Ok(()),
        }
    }

    /// How contents are given back, or why they are not.
    pub(super) fn how_to_discard(&self) -> Result<(), ArenaError> {
        let memory = match self {
            ArenaMemory::Mapped { backing: Backing::Hugetlb(_), .. } => "hugetlb",
            ArenaMemory::Mapped { .. } => return Ok(()),
            ArenaMemory::Foreign { .. } => "handed-in",
        };
        Err(ArenaError::Unsupported { what: "giving memory back", memory })
    }

    /// Gives the contents of `len` bytes from `at` on back: they read as zero afterwards.
    ///
    /// # Safety
    /// There is no reference to them.
    pub(super) unsafe fn discard(&self, at: usize, len: usize) -> Result<(), ArenaError> {
        self.how_to_discard()?;
        if let ArenaMemory::Mapped { mapping, file, .. } = self {
            // SAFETY: the caller's promise.
            unsafe { mapping.forget(at, len, pages_of(file.as_ref()))? };
        }
        Ok(())
    }
}

/// Whose contents go when memory is given back: those of this file, if there is one.
fn pages_of(file: Option<&OwnedFd>) -> Forget {
    if file.is_some() { Forget::Shared } else { Forget::Private }
}

/// Finds the meaning of a failure to map huge pages.
fn from_pool(error: OsError, page: HugePage, len: usize) -> ArenaError {
    let needed = len as u64 / page.bytes();
    // Too little address space is the same error: only then are small pages refused as well.
    let is_room = || Mapping::new(Backed::Anonymous, len, 1).is_ok();
    match (error.call, error.errno) {
        (Call::Mmap, libc::ENOMEM) if is_room() => ArenaError::HugePoolEmpty { page, needed },
        (Call::Mmap, libc::EINVAL | libc::ENODEV | libc::ENOSYS) => ArenaError::NoHugePages { page },
        _ => ArenaError::Os(error),
    }
}

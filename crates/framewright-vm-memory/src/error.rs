//! What guest memory and its device refuse.

use framewright::AllocError;
use framewright_rt::ArenaError;
use thiserror::Error;
use vm_memory::GuestRegionCollectionError;

/// A call on guest memory failed; it has then changed nothing, except as the call says.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A range is empty, ends beyond the largest address, or is no multiple of its unit.
    #[error(
        "{bytes:#x} bytes from guest address {start:#x} on: not empty, and a multiple of {unit:#x} bytes, is needed"
    )]
    BadRange {
        /// First guest address.
        start: u64,
        /// Size in bytes.
        bytes: u64,
        /// What both must be multiples of: the arena's page, or a page of the balloon.
        unit: u64,
    },
    /// A guest named addresses that are not all memory.
    #[error("{bytes:#x} bytes from guest address {start:#x} on are not all memory of the guest")]
    NotMemory {
        /// First guest address.
        start: u64,
        /// Size in bytes.
        bytes: u64,
    },
    /// The arena has no block for the guest.
    #[error("no memory for guest address {address:#x}: {error}")]
    NoBlock {
        /// Where the block was to lie.
        address: u64,
        /// Why there is none.
        error: AllocError,
    },
    /// The regions overlap, or are not in ascending order.
    #[error(transparent)]
    Regions(#[from] GuestRegionCollectionError),
    /// The arena refused to give memory back: it is of huge pages, or was handed in, or the system refused.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The arena has no file to share.
    #[error("the arena's memory is no memfd, which other processes could map")]
    NoFile,
    /// The arena's file could not be duplicated.
    #[error("the arena's file: {0}")]
    File(std::io::Error),
    /// The guest's allocator refused a pass of free page reporting.
    #[error("the guest's allocator: {0}")]
    Guest(AllocError),
}

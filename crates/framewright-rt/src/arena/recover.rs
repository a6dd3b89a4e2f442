//! Recovery: an arena over the file of one whose process is gone.
//!
//! The ledger says what the last process held ([`crate::ledger`]). A new allocator is booted over the file, in which
//! these blocks are allocated and all the rest is free. The program takes each of them over, as a block or range that
//! frees itself, or leaves it held.
//!
//! Nothing in the file is trusted. A ledger that makes no sense is refused as a whole, and the file stays as it was.
//!
//! Rejected: a recovery that keeps what makes sense and drops the rest. A block that is dropped by mistake is handed
//! out while the program's data still lie there.
//!
//! # Why the unsafe code is right
//!
//! The recovery allocates each held block at its place, and makes one [`HeldFrames`] for it, which cannot be copied.
//! Taking the block over uses that value up. It belongs to the arena of its ledger, whose number is compared, and to
//! the process that recovered it. So a block gets one owner.

use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use framewright::{Layout, Order, PfnRange};
use thiserror::Error;

use super::arena::Arena;
use super::backing::Backing;
use super::builder::{ArenaBuilder, Part};
use super::file::Kept;
use super::pages::{Block, Handle};
use super::ranges::PageRange;
use crate::error::ArenaError;
use crate::ledger::entries::Ledger;
use crate::ledger::format::{Form, LedgerFault};
use crate::ledger::read::{self, HeldRun, ReadError};
use crate::os::{self, OsError, Placement};

/// An arena could not be recovered. The file is as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The arena's process lives, or a child that it forked, or another process recovers it.
    #[error("the arena is in use: its process or a fork's child lives, or another process has recovered it")]
    InUse,
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The file has no ledger, or a ledger that makes no sense.
    #[error(transparent)]
    Ledger(#[from] LedgerFault),
    /// An arena of this description cannot be built here.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

impl From<ReadError> for RecoverError {
    fn from(error: ReadError) -> RecoverError {
        match error {
            ReadError::Os(error) => RecoverError::Os(error),
            ReadError::Fault(fault) => RecoverError::Ledger(fault),
        }
    }
}

/// An arena that was recovered, and what it held.
#[derive(Debug)]
#[must_use = "the blocks that are held stay allocated until they are taken over"]
pub struct Recovered {
    /// The arena. Its blocks begin at the frames and file offsets of before; addresses differ.
    pub arena: Arena,
    /// The blocks and ranges that were held, in ascending order.
    pub held: Vec<HeldFrames>,
}

/// A block or range that a recovered arena held.
///
/// Its contents are those of the moment of the kill. It is allocated. It stays so, in this process and in later
/// recoveries, until it is taken over and freed.
#[must_use = "it stays allocated until it is taken over"]
pub struct HeldFrames {
    /// Number of the ledger of its arena.
    ledger: u64,
    frames: PfnRange,
    /// Its order, if it is one block.
    order: Option<Order>,
    in_flight: bool,
}

impl HeldFrames {
    /// Its frames.
    pub const fn frames(&self) -> PfnRange {
        self.frames
    }

    /// Its order, if it is one block.
    pub const fn order(&self) -> Option<Order> {
        self.order
    }

    /// Whether its allocation was its thread's last call here, so that it may not have returned.
    ///
    /// If it had not, nothing in the program refers to the block. Of each thread this is so of one block at most. The
    /// allocation of every other block had returned, and no free of it had begun.
    pub const fn in_flight(&self) -> bool {
        self.in_flight
    }

    /// Takes it over as a block; it is freed when dropped.
    ///
    /// # Errors
    /// It is a range of several blocks, or another arena's, or this is a fork's child; then it is returned.
    pub fn into_block<H: Handle>(self, arena: H) -> Result<Block<H>, HeldFrames> {
        match self.order {
            Some(order) if self.confirm(&arena) => {
                // SAFETY: it was allocated there at the recovery, and this value was its only owner.
                Ok(unsafe { Block::new(arena, self.frames.start, order) })
            }
            _ => Err(self),
        }
    }

    /// Takes it over as a range, also if it is one block; it is freed when dropped.
    ///
    /// # Errors
    /// It is another arena's, or this is a fork's child; then it is returned.
    pub fn into_range<H: Handle>(self, arena: H) -> Result<PageRange<H>, HeldFrames> {
        if !self.confirm(&arena) {
            return Err(self);
        }
        // SAFETY: as above.
        Ok(unsafe { PageRange::new(arena, self.frames) })
    }

    /// Notes that it is taken over, if it is this arena's and this process'.
    fn confirm(&self, arena: &Arena) -> bool {
        let own = arena.inner.ledger.as_ref().filter(|ledger| ledger.id() == self.ledger && !arena.inner.refuses());
        own.is_some_and(|ledger| {
            ledger.confirm(self.frames.start);
            true
        })
    }
}

impl fmt::Debug for HeldFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldFrames({}{})", self.frames, if self.in_flight { ", in flight" } else { "" })
    }
}

impl Arena {
    /// Recovers an arena from its file, after its process was killed or has ended.
    ///
    /// The arena has the options that a builder has at first. [`ArenaBuilder::recover`] takes others.
    ///
    /// # Errors
    /// As [`ArenaBuilder::recover`].
    pub fn recover(file: &File) -> Result<Recovered, RecoverError> {
        Arena::builder().recover(file)
    }
}

impl ArenaBuilder {
    /// Recovers an arena from its file, with the options of this builder.
    ///
    /// The file says how large nodes, pages and blocks are, how far the arena may grow, and which frame is the first.
    /// All other options are this builder's; its nodes are not placed. An arena that may grow has at least the sections
    /// that have held blocks.
    ///
    /// The file is opened once more, through `/proc`, and locked as long as the arena lives.
    ///
    /// # Errors
    /// The arena is in use, its ledger makes no sense, or the arena cannot be built.
    pub fn recover(self, file: &File) -> Result<Recovered, RecoverError> {
        let own = os::reopen(file.as_fd())?;
        if !os::lock(own.as_fd())? {
            return Err(RecoverError::InUse);
        }
        let form = read::form(own.as_fd())?;
        let reading = read::ledger(own.as_fd(), &form)?;
        let builder = self.with_form(&form, &reading.held);
        builder.check_recoverable()?;
        let (shape, runner) = builder.shape()?;
        let layout = Layout::of(&builder.config(&shape)).map_err(ArenaError::Boot)?;
        // Not a copy of the locked one: `Arena::memfd` hands it out.
        let memory = builder.map(&shape, Some(os::duplicate(file.as_fd())?))?;
        let ledger = Arc::new(Ledger::map(own, &form)?);
        let held: Vec<PfnRange> = reading.held.iter().map(|held| held.frames).collect();
        let kept = Kept { ledger: Arc::clone(&ledger), held: &held };
        let arena = builder.boot(&shape, runner, &layout, memory, Some(kept))?;
        ledger.repair(&reading.repair);
        let token = |&HeldRun { frames, in_flight }: &HeldRun| {
            let mut blocks = frames.blocks(form.max_order);
            let order = blocks.next().map(|(_, order)| order).filter(|_| blocks.next().is_none());
            HeldFrames { ledger: ledger.id(), frames, order, in_flight }
        };
        Ok(Recovered { arena, held: reading.held.iter().map(token).collect() })
    }

    /// This description, with what a ledger's header says instead of what was asked for.
    fn with_form(self, form: &Form, held: &[HeldRun]) -> ArenaBuilder {
        let section = 1_u64 << form.page_shift << form.max_order.0;
        let (mut parts, mut start) = (Vec::with_capacity(form.nodes.len()), form.first);
        for &bytes in &form.nodes {
            let end = start.add(form.room_of(bytes) >> form.page_shift);
            let last = held.partition_point(|held| held.frames.start < end).checked_sub(1).map(|at| held[at].frames);
            let needed = last.map_or(0, |frames| frames.end.0.saturating_sub(start.0) << form.page_shift);
            let needed = if form.limit.is_some() { needed.next_multiple_of(section) } else { needed };
            parts.push(Part { bytes: bytes.max(needed), placement: Placement::Anywhere });
            start = end;
        }
        ArenaBuilder {
            parts,
            backing: Backing::File,
            recoverable: true,
            page: 1 << form.page_shift,
            first_pfn: form.first.0,
            max_order: Some(form.max_order),
            movable: form.movable,
            limit: form.limit,
            ..self
        }
    }
}

//! Builds an arena from its description.
//!
//! Everything is checked before the first system call. Then the memory is mapped and each node's part is placed.
//! Transparent huge pages are switched on or off, and pages are made if asked for. Then the descriptors' memory is
//! mapped, and the allocator is booted over both. If any step fails, the owners of all earlier parts give them back.
//!
//! # Why the unsafe code is right
//!
//! An arena owns three things that refer to one another: memory, descriptors, and the allocator.
//! [`super::inner::Inner`] declares the allocator first, so it is dropped first, here too when a step fails. Boot asks
//! for the descriptors once. Memory is the arena's own mapping, or the caller of [`ArenaBuilder::build_in`] promises
//! what a mapping would. The lease that is given up is of a machine that only this thread has, and it has no pin of it.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use framewright::request::GFP_NOWAIT;
use framewright::{Allocator, Layout, NodeId, Pfn, PfnRange};

use super::arena::Arena;
use super::backing::{ArenaReport, Backing, NodeReport, Outcome, Transparent};
use super::builder::{ArenaBuilder, Part};
use super::file::{Kept, Made};
use super::memory::ArenaMemory;
use super::metadata::Metadata;
use super::owners::OwnerTable;
use super::reclaim::{Grower, Growing};
use super::room::Room;
use super::sections::Sections;
use super::shape::{Runner, Shape, too_large};
use super::sizing::{Sizing, Watch};
use crate::contents::Memory;
use crate::error::ArenaError;
use crate::ledger::entries::Ledger;
use crate::ledger::format::Form;
use crate::movable::Pool;
use crate::os::{self, Placement};

impl Arena {
    /// Describes an arena.
    pub fn builder() -> ArenaBuilder {
        ArenaBuilder::default()
    }
}

impl ArenaBuilder {
    /// Maps the memory and boots the allocator.
    ///
    /// # Errors
    /// A fault of the description, or the system call that failed. Nothing is left mapped then.
    pub fn build(self) -> Result<Arena, ArenaError> {
        self.check_recoverable()?;
        let (shape, runner) = self.shape()?;
        let form = self.recoverable.then(|| self.form(&shape));
        let made = self.make_file(form.as_ref().map_or(shape.bytes, Form::file))?;
        let built = self.build_over(&shape, runner, form.as_ref(), made);
        if let (Err(_), Backing::File, Some(given)) = (&built, self.backing, &self.file) {
            // It was empty. If this fails, it is a file of zeros.
            let _ = os::set_file_len(given.as_fd(), 0);
        }
        built
    }

    /// Builds over a file, if the memory is one.
    fn build_over(
        &self,
        shape: &Shape,
        runner: Runner,
        form: Option<&Form>,
        made: Option<Made>,
    ) -> Result<Arena, ArenaError> {
        let layout = Layout::of(&self.config(shape))?;
        let (file, lock) = made.map_or((None, None), |made| (Some(made.file), made.lock));
        let kept = match form.zip(lock) {
            Some((form, lock)) => Some((Arc::new(Ledger::map(lock, form)?), form)),
            None => None,
        };
        let memory = self.map(shape, file)?;
        let empty = kept.as_ref().map(|(ledger, _)| Kept { ledger: Arc::clone(ledger), held: &[] });
        let arena = self.boot(shape, runner, &layout, memory, empty)?;
        if let Some((ledger, form)) = kept {
            ledger.begin(form)?;
        }
        Ok(arena)
    }

    /// Maps the memory.
    pub(super) fn map(&self, shape: &Shape, file: Option<OwnedFd>) -> Result<ArenaMemory, ArenaError> {
        let len = usize::try_from(shape.bytes).map_err(|_| too_large(shape.bytes))?;
        let block = 1_usize << (shape.geometry.max_order.0 + shape.geometry.page_shift);
        ArenaMemory::map((self.backing, file), len, block, self.limit.is_some())
    }

    /// Boots the allocator over memory that exists. Without nodes it is all one node.
    ///
    /// With the mechanism `hardened` all of it is written to, because it does not hold the pattern of freed memory.
    ///
    /// It begins at a multiple of the page. Blocks lie at multiples of their size as far as its start does
    /// ([`Arena::aligned_order`]).
    ///
    /// # Safety
    /// The memory is initialized, and is readable and writable from any thread while the arena lives. No other code
    /// reads or writes it. With a hook for [`ArenaBuilder::commit`], this is so of each range from its commit to its
    /// decommit.
    ///
    /// # Errors
    /// A fault of the description or the memory, or the system call that failed.
    pub unsafe fn build_in(self, memory: NonNull<[u8]>) -> Result<Arena, ArenaError> {
        let given = memory.len() as u64;
        let builder = if self.parts.is_empty() { self.size(given) } else { self };
        let not_ours = [
            (builder.backing != Backing::Private, "the backing"),
            (builder.transparent != Transparent::System, "advice about huge pages"),
            (builder.populate, "populating"),
            (builder.recoverable, "a ledger"),
            (builder.parts.iter().any(|part| part.placement != Placement::Anywhere), "the placement on nodes"),
        ];
        if let Some(&(_, option)) = not_ours.iter().find(|(set, _)| *set) {
            return Err(ArenaError::NotOurs { option });
        }
        let (shape, runner) = builder.shape()?;
        if shape.bytes != given {
            return Err(ArenaError::WrongLength { bytes: given, nodes: shape.bytes });
        }
        let address = memory.cast::<u8>().as_ptr().addr();
        if !(address as u64).is_multiple_of(builder.page) {
            return Err(ArenaError::Misaligned { address, multiple: builder.page });
        }
        let layout = Layout::of(&builder.config(&shape))?;
        // SAFETY: the caller's promise.
        let memory = unsafe { ArenaMemory::foreign(memory) };
        builder.boot(&shape, runner, &layout, memory, None)
    }

    /// Prepares the memory and boots an allocator over it.
    pub(super) fn boot(
        &self,
        shape: &Shape,
        runner: Runner,
        layout: &Layout,
        memory: ArenaMemory,
        kept: Option<Kept<'_>>,
    ) -> Result<Arena, ArenaError> {
        let nodes = self.place(shape, &memory)?;
        let transparent = memory.advise_transparent(self.transparent);
        if let (Outcome::Refused(error), true) = (transparent, self.strict) {
            return Err(ArenaError::Os(error));
        }
        let populated = self.make_pages(shape, &memory)?;
        let mut metadata = Metadata::new(layout)?;
        let report = self.report(shape, &runner, (&memory, metadata.len() as u64), (transparent, populated), nodes);
        // SAFETY: called once, with the layout that the descriptors were made for. The allocator is dropped before its
        // descriptors: by this function if it fails, and by the arena, which declares it first.
        let parts = unsafe { metadata.parts(layout) }.ok_or_else(|| too_large(shape.bytes))?;
        let frames = shape.bytes >> shape.geometry.page_shift;
        // SAFETY: the memory is dropped after the allocator, and only owners of allocated blocks use it.
        let contents = unsafe { Memory::new(memory.start(), Pfn(self.first_pfn), frames, shape.geometry.page_shift) };
        // Memory that the kernel maps is zero. Memory that was handed in, or is recovered, may have been written to.
        let is_new = memory.backing().is_some() && kept.as_ref().is_none_or(|kept| kept.held.is_empty());
        let contents = if is_new { contents.zeroed() } else { contents };
        let pool = Arc::new(Pool::new(self.asked.owner.clone()));
        let (calls, grower) = (Arc::new(self.asked.calls(&pool)), Grower::default());
        let growing = Growing { arena: Arc::clone(&grower), calls: Arc::clone(&calls) };
        let machine = runner.machine.with_memory(contents).with_callbacks(Arc::new(growing));
        self.tell_commit(shape, &memory, &pool)?;
        let allocator = Allocator::boot(machine, &self.config(shape), parts)?;
        for (pfn, order) in kept.iter().flat_map(|kept| kept.held).flat_map(|held| held.blocks(report.max_order)) {
            allocator.alloc_at(pfn, order, GFP_NOWAIT).map_err(ArenaError::Refused)?;
        }
        let owners = OwnerTable::new(&allocator, self.owners)?;
        // Boot has leased a CPU to this thread, which may never call the arena.
        // SAFETY: the machine is new and boot has returned, so this thread has no pin of it and is in no call.
        unsafe { allocator.machine().give_up_lease() };
        let memory = (memory, contents, kept.map(|kept| kept.ledger));
        let (on_low_memory, watch) = (self.hooks.on_low_memory.clone(), Watch::new(self.cgroup.clone()));
        let sizing = Sizing { room: self.room(shape, populated), on_low_memory, calls, watch };
        let arena = Arena::new(allocator, metadata, memory, pool, sizing, (report, owners, self.leaks.clone()));
        let _ = grower.set(Arc::downgrade(&arena.inner));
        arena.with_background(self.background)?.with_reclaim(self.background_reclaim)?.with_shrinker(self.shrink_every)
    }

    fn report(
        &self,
        shape: &Shape,
        runner: &Runner,
        (memory, descriptors): (&ArenaMemory, u64),
        (transparent, populated): (Outcome, Outcome),
        nodes: Vec<NodeReport>,
    ) -> ArenaReport {
        ArenaReport {
            backing: memory.backing(),
            bytes: self.parts.iter().map(|part| part.bytes).sum(),
            limit: shape.bytes,
            descriptors,
            page: self.page,
            max_order: shape.geometry.max_order,
            cpus: shape.cpus.len(),
            cpu_mode: runner.machine.mode(),
            per_cpu_refused: runner.refused,
            transparent,
            populated,
            hardened: self.mechanisms.hardened,
            nodes,
        }
    }

    /// The room of an arena that may grow.
    fn room(&self, shape: &Shape, populated: Outcome) -> Option<Room> {
        self.limit?;
        let order = shape.geometry.max_order;
        let nodes = self.present(shape).map(|(range, _)| range).zip(&shape.nodes);
        let sections = Sections::new(order, nodes.map(|(present, &range)| (range, present.frames())));
        let bytes = self.parts.iter().map(|part| part.bytes).sum();
        let mut room = Room::new(sections, self.page << order.0, (bytes, shape.bytes), self.hooks.clone());
        // A kernel that cannot do it refused it before.
        room.populates = populated == Outcome::Done;
        Some(room)
    }

    /// The memory of each node that is present at first: its frames, and where it is in the memory.
    fn present(&self, shape: &Shape) -> impl Iterator<Item = (PfnRange, Range<usize>)> {
        let (first, shift) = (self.first_pfn, shape.geometry.page_shift);
        let offset = move |pfn: Pfn| ((pfn.0 - first) << shift) as usize;
        let regions = shape.regions.iter().filter(|region| region.present);
        regions.map(move |region| (region.range, offset(region.range.start)..offset(region.range.end)))
    }

    /// Tells the program's hook of the memory that is present at first.
    fn tell_commit(&self, shape: &Shape, memory: &ArenaMemory, pool: &Pool) -> Result<(), ArenaError> {
        for (_, part) in self.present(shape) {
            self.hooks.commit(memory.place_of(part.start, part.len()), pool.panics())?;
        }
        Ok(())
    }

    /// Places each node's memory, before anything touches it.
    fn place(&self, shape: &Shape, memory: &ArenaMemory) -> Result<Vec<NodeReport>, ArenaError> {
        let (mut at, mut node) = (0_usize, NodeId(0));
        let place = |(part, range): (&Part, &PfnRange)| {
            let (this, placement) = (node, part.placement);
            let len = (range.frames() << shape.geometry.page_shift) as usize;
            let placed = match memory.place(at, len, placement) {
                Ok(()) if placement == Placement::Anywhere => Outcome::NotAsked,
                Ok(()) => Outcome::Done,
                Err(error) if self.strict => return Err(ArenaError::Placement { node: this, error }),
                Err(error) => Outcome::Refused(error),
            };
            at += len;
            node = NodeId(node.0.saturating_add(1));
            Ok(NodeReport { node: this, range: *range, placement, placed })
        };
        self.parts.iter().zip(&shape.nodes).map(place).collect()
    }

    /// Makes the memory accessible, and all pages if asked to; huge pages on given nodes in any case.
    ///
    /// The pool promised their number, not their place, and a missing one would raise a signal at the first touch.
    fn make_pages(&self, shape: &Shape, memory: &ArenaMemory) -> Result<Outcome, ArenaError> {
        let parts = || self.present(shape).map(|(_, part)| part);
        if self.limit.is_some() {
            parts().try_for_each(|part| memory.commit(part.start, part.len()))?;
        }
        let placed = self.parts.iter().any(|part| part.placement != Placement::Anywhere);
        let must = placed && matches!(self.backing, Backing::Hugetlb(_));
        if !self.populate && !must {
            return Ok(Outcome::NotAsked);
        }
        match parts().try_for_each(|part| memory.populate(part.start, part.len())) {
            Ok(()) => Ok(Outcome::Done),
            // This kernel cannot do it for us. Of memory that it can, none is missing but for an error.
            Err(error) if error.errno == libc::EINVAL && !self.strict => Ok(Outcome::Refused(error)),
            Err(error) => Err(ArenaError::Os(error)),
        }
    }
}

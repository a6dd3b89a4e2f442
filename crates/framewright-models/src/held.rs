//! A stage whose allocator is held still, as for a fork, and a copy of it.

use std::panic::resume_unwind;

use framewright::units::Pfn;
use framewright::{FrameState, Frozen};

use crate::loom_machine::LoomMachine;
use crate::running::outside_interrupts;
use crate::session;
use crate::stage::Stage;
use crate::word::Waits;

impl Stage {
    /// Holds the allocator still, and writes into the free pages, which then belong to the running thread.
    ///
    /// Not into those on the lists of a CPU in the fast path, which may take them all the while, and not into those
    /// whose free is deferred.
    pub fn freeze(&self) {
        let has_plain_lists = self.has_plain_lists;
        self.on(|allocator| {
            let Some(frozen) = allocator.freeze() else { return };
            for page in 0..self.frames {
                match allocator.state_of(Pfn(page)) {
                    FrameState::Free(..) => self.write(page),
                    FrameState::Pcp(..) if has_plain_lists => self.write(page),
                    _ => (),
                }
            }
            drop(frozen);
        });
    }

    /// Copies the allocator at this moment, as a fork does, and checks the copy after [`framewright::Frozen::settle`].
    ///
    /// Makes no copy where holding the allocator would wait.
    pub fn copy(&self) {
        self.copy_and(|frozen| _ = frozen.settle());
    }

    /// Like [`Stage::copy`], with `settle` instead of the call.
    ///
    /// # Panics
    /// An invariant is violated in the copy, or a page is free there that a thread owns.
    pub fn copy_and(&self, settle: impl Fn(&Frozen<'_, '_, LoomMachine>)) {
        let outside = outside_interrupts();
        let result = session::in_copy(|| {
            self.on(|allocator| {
                let Some(frozen) = allocator.freeze() else { return Ok(()) };
                settle(&frozen);
                drop(frozen);
                let is_kept = |page: &u64| matches!(allocator.state_of(Pfn(*page)), FrameState::Allocated(..));
                let lost = (0..self.frames).filter(|&page| self.is_owned(page)).find(|page| !is_kept(page));
                let census = allocator.validate().map_err(|violation| violation.to_string())?;
                match lost {
                    Some(page) => Err(format!("page {page} has an owner and is {:?}", allocator.state_of(Pfn(page)))),
                    None if census.present != self.frames => Err(format!("frames are lost or doubled: {census:?}")),
                    None => Ok(()),
                }
            })
        });
        drop(outside);
        match result {
            Ok(Ok(())) => (),
            Ok(Err(wrong)) => panic!("in a copy: {wrong}"),
            Err(payload) if payload.is::<Waits>() => (),
            Err(payload) => resume_unwind(payload),
        }
    }
}

//! Takes memory offline, brings it back, and changes the type of pageblocks.

use framewright::{AllocError, MigrateType, Pfn, PfnRange};

use crate::language::{Outcome, Wrong};
use crate::oracle::ranges::{RangeVerdict, range_verdict};
use crate::play::player::Player;

impl Player<'_> {
    pub(crate) fn take_offline(&self, range: PfnRange) -> Result<Outcome, Wrong> {
        let (fired, asked) = (self.fired(), self.hooks.borrow().migrations);
        let verdict = range_verdict(self.oracle.borrow().memory(), range, true);
        let result = self.pages.take_offline(range);
        let disturbed = self.disturbed_since(fired);
        let wrong = if let RangeVerdict::Bad(error) = verdict { Some(error) } else { None };
        if wrong.is_some() || result.is_err() {
            let moved = self.hooks.borrow().migrations != asked;
            return self.not_taken(range, result, (verdict, wrong), (disturbed, moved));
        }
        self.oracle.borrow_mut().withhold(range)?;
        self.offline.borrow_mut().push(range);
        Ok(Outcome::Done)
    }

    pub(crate) fn bring_online(&self, range: PfnRange) -> Result<Outcome, Wrong> {
        let frames = self.pages.bring_online(range);
        let expected = self.oracle.borrow_mut().restore(range);
        if frames == expected {
            Ok(Outcome::Frames(frames))
        } else {
            Err(format!("{frames} frames came online, should be {expected}"))
        }
    }

    pub(crate) fn add_memory(&self, range: PfnRange) -> Result<Outcome, Wrong> {
        let fits = self.oracle.borrow_mut().add(range);
        match self.pages.add_memory(range) {
            Ok(frames) if fits && frames == range.frames() => Ok(Outcome::Frames(frames)),
            Err(error) if !fits => Ok(Outcome::NotServed(error)),
            found => {
                Err(format!("adding {range} gives {found:?}, but it may {}be added", if fits { "" } else { "not " }))
            }
        }
    }

    pub(crate) fn set_type(&self, pfn: Pfn, migratetype: MigrateType) -> Result<Outcome, Wrong> {
        let (known, around) = {
            let oracle = self.oracle.borrow();
            let memory = oracle.memory();
            (memory.known(pfn).is_some(), memory.frames_in(memory.pageblock(pfn)).next().is_some())
        };
        self.reserved.set(self.reserved.get() || migratetype == MigrateType::HighAtomic);
        match self.pages.set_pageblock_type(pfn, migratetype) {
            Ok(()) if around && migratetype != MigrateType::Isolate => {
                self.oracle.borrow_mut().retyped(pfn);
                match self.pages.pageblock_type(pfn) {
                    Some(found) if found == migratetype => Ok(Outcome::Done),
                    found => Err(format!("the pageblock's type is {found:?} now")),
                }
            }
            // A hole inside a pageblock may count as the pageblock or as no memory.
            Err(error @ AllocError::BadType(MigrateType::Isolate)) if migratetype == MigrateType::Isolate => {
                Ok(Outcome::NotServed(error))
            }
            Err(error @ AllocError::Foreign(at)) if at == pfn && !known => Ok(Outcome::NotServed(error)),
            result => Err(format!("answered {result:?}")),
        }
    }
}

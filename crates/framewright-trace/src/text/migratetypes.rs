//! The numbers of mobilities, which depend on the kernel that printed them.
//!
//! Linux 4.4 swapped two numbers: 1 is reclaimable before it and movable since. Few outputs name the kernel, but every
//! request tells, because its flags say what mobility it asked for. So the first request for movable or reclaimable
//! memory settles the numbering, and later ones are checked against it.
//!
//! Events before that request are read in the newer numbering. If the older one turns out to hold, the trace is refused
//! rather than half of it misread.
//!
//! Number 3 is the reserve for urgent requests in both numberings (`Reserve`, then `HighAtomic`). Number 4 is read as
//! CMA. On a kernel built without CMA it would be the isolated blocks.

use framewright::request::Gfp;
use framewright::units::MigrateType;

use crate::error::LineFault;
use crate::flags::KernelVersion;

/// The kernel's numbers for mobilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// 1 is movable and 2 reclaimable: Linux 4.4 and later.
    MovableFirst,
    /// 1 is reclaimable and 2 movable: before Linux 4.4.
    ReclaimableFirst,
}

impl Numbering {
    /// The numbering of a kernel.
    pub fn of(version: KernelVersion) -> Numbering {
        let is_old = version < KernelVersion::new(4, 4);
        if is_old { Numbering::ReclaimableFirst } else { Numbering::MovableFirst }
    }

    const fn migratetype(self, number: u64) -> Option<MigrateType> {
        match (self, number) {
            (Numbering::ReclaimableFirst, 1) => Some(MigrateType::Reclaimable),
            (Numbering::ReclaimableFirst, 2) => Some(MigrateType::Movable),
            (_, 0..6) => MigrateType::from_index(number as usize),
            _ => None,
        }
    }
}

/// Reads mobilities, and learns their numbering on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct MigratetypeReader {
    numbering: Option<Numbering>,
    /// Whether the numbering was told by the user or the header, and not by requests.
    told: bool,
    /// Whether a number that has two meanings was read before the numbering was known.
    assumed: bool,
}

impl MigratetypeReader {
    pub(super) fn new(numbering: Option<Numbering>) -> MigratetypeReader {
        MigratetypeReader { numbering, told: numbering.is_some(), assumed: false }
    }

    /// Uses the numbering of the kernel that the header names, unless the user has chosen one.
    pub(super) fn kernel(&mut self, version: KernelVersion) {
        if !self.told && !self.assumed && self.numbering.is_none() {
            self.numbering = Some(Numbering::of(version));
            self.told = true;
        }
    }

    /// The numbering, if it is known.
    pub(super) fn known(&self) -> Option<Numbering> {
        self.numbering
    }

    /// The mobility of a request with `gfp`.
    ///
    /// `is_certain` says whether all flags are known. Only then does the flag of reclaimable memory settle the
    /// numbering, because its bit has changed over time; that of movable memory never has.
    pub(super) fn of_request(&mut self, value: u64, gfp: Gfp, is_certain: bool) -> Result<MigrateType, LineFault> {
        if !self.told && (value == 1 || value == 2) {
            let evidence = match (gfp.migratetype(), value) {
                (MigrateType::Movable, 1) => Some(Numbering::MovableFirst),
                (MigrateType::Movable, _) => Some(Numbering::ReclaimableFirst),
                (MigrateType::Reclaimable, 1) if is_certain => Some(Numbering::ReclaimableFirst),
                (MigrateType::Reclaimable, _) if is_certain => Some(Numbering::MovableFirst),
                _ => None,
            };
            match (self.numbering, evidence) {
                (Some(known), Some(found)) if known != found => return Err(LineFault::Contradiction { value, gfp }),
                (None, Some(Numbering::ReclaimableFirst)) if self.assumed => return Err(LineFault::Numbering),
                (None, found) => self.numbering = found,
                _ => {}
            }
        }
        self.of_list(value)
    }

    /// The mobility of a free list or a pageblock.
    pub(super) fn of_list(&mut self, value: u64) -> Result<MigrateType, LineFault> {
        self.assumed |= self.numbering.is_none() && (value == 1 || value == 2);
        let numbering = self.numbering.unwrap_or(Numbering::MovableFirst);
        numbering.migratetype(value).ok_or(LineFault::Migratetype(value))
    }
}

//! Values whose meaning depends on the kernel that printed them: mobilities, addresses of descriptors, flags.
//!
//! *Mobilities.* Linux 4.4 swapped two numbers: 1 is reclaimable before it and movable since. Few outputs name the kernel,
//! but every request tells: its flags say what mobility it asked for. The first request for movable or reclaimable memory
//! therefore settles the numbering, and later ones are checked against it. What comes before that request is read in
//! the newer numbering; should it turn out to be the older one, the trace is refused rather than half of it misread.
//! Number 3 is the reserve for urgent requests in both (`Reserve`, then `HighAtomic`). 4 is read as CMA, which on a
//! kernel built without CMA would be the isolated blocks.
//!
//! *Addresses.* A moved page is named by the address of its descriptor. Descriptors are 64 bytes each, in one table
//! whose base is known for an x86-64 kernel that does not randomise it: one address with four levels of page tables,
//! another with five. An address in neither range, or of a frame far above any other of the trace, is refused, for a
//! wrong base gives wrong frames without a sign.

use framewright::pfn::{MigrateType, Pfn};
use framewright::request::Gfp;

use super::LineFault;
use super::fields::number;
use crate::error::Excerpt;

/// Which numbers the kernel gives to mobilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// 1 is movable and 2 reclaimable: Linux 4.4 and later.
    MovableFirst,
    /// 1 is reclaimable and 2 movable: before Linux 4.4.
    ReclaimableFirst,
}

impl Numbering {
    /// The numbering of a kernel, from a version such as `6.1.0-56-cloud-amd64`; none if that is no version.
    pub fn of_kernel(version: &str) -> Option<Numbering> {
        let mut parts = version.trim().split(|c: char| !c.is_ascii_digit());
        let major: u32 = parts.next()?.parse().ok()?;
        let minor: u32 = parts.next()?.parse().ok()?;
        Some(if (major, minor) < (4, 4) { Numbering::ReclaimableFirst } else { Numbering::MovableFirst })
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

/// Reads mobilities, finding out which numbering they have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mobilities {
    numbering: Option<Numbering>,
    /// Whether the numbering was told by the user or the header, and not by requests.
    told: bool,
    /// Whether a number that has two meanings was read before the numbering was known.
    assumed: bool,
}

impl Mobilities {
    pub(super) fn new(numbering: Option<Numbering>) -> Mobilities {
        Mobilities { numbering, told: numbering.is_some(), assumed: false }
    }

    /// Takes the numbering of a kernel whose version the header names, unless the user has said otherwise.
    pub(super) fn kernel(&mut self, version: &str) {
        if !self.told && !self.assumed && self.numbering.is_none() {
            self.numbering = Numbering::of_kernel(version);
            self.told = self.numbering.is_some();
        }
    }

    /// The mobility of a request with `gfp`, of which `is_symbolic` says whether it was printed by names: the raw bit
    /// of reclaimable memory has changed over time, the one of movable memory never.
    pub(super) fn of_request(&mut self, value: u64, gfp: Gfp, is_symbolic: bool) -> Result<MigrateType, LineFault> {
        if !self.told && (value == 1 || value == 2) {
            let evidence = match (gfp.migratetype(), value) {
                (MigrateType::Movable, 1) => Some(Numbering::MovableFirst),
                (MigrateType::Movable, _) => Some(Numbering::ReclaimableFirst),
                (MigrateType::Reclaimable, 1) if is_symbolic => Some(Numbering::ReclaimableFirst),
                (MigrateType::Reclaimable, _) if is_symbolic => Some(Numbering::MovableFirst),
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

/// Bytes of a page's descriptor.
const DESCRIPTOR: u64 = 64;
/// Where the table of descriptors starts on x86-64, and where it ends at the latest: with four levels of page tables
/// and with five.
const TABLES: [(u64, u64); 2] =
    [(0xffff_ea00_0000_0000, 0xffff_eb00_0000_0000), (0xffd4_0000_0000_0000, 0xffd6_0000_0000_0000)];

/// Reads addresses of page descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptors {
    base: Option<u64>,
    /// One past the last frame, if the zones are known.
    end: Option<Pfn>,
    /// Highest frame of the events so far.
    highest: Pfn,
}

impl Descriptors {
    /// How many times higher than any frame before a moved page may be while only the usual bases speak for it.
    const STRETCH: u64 = 16;
    /// Frames that are always thought possible: 4 GiB of pages of 4 KiB.
    const PLAUSIBLE: u64 = 1 << 20;

    pub(super) fn new(base: Option<u64>, end: Option<Pfn>) -> Descriptors {
        Descriptors { base, end, highest: Pfn(Descriptors::PLAUSIBLE) }
    }

    /// Notes a frame of the trace.
    pub(super) fn seen(&mut self, pfn: Pfn) {
        self.highest = self.highest.max(pfn);
    }

    /// The frame whose descriptor is at `address`.
    pub(super) fn pfn(&self, address: u64) -> Result<Pfn, LineFault> {
        let table = TABLES.iter().find(|(start, end)| (start..end).contains(&&address));
        let base = match (self.base, table) {
            (Some(base), _) => base,
            (None, Some(&(start, _))) => start,
            (None, None) => return Err(LineFault::PageTable { address }),
        };
        let pfn = match address.checked_sub(base) {
            Some(offset) if offset % DESCRIPTOR == 0 => Pfn(offset / DESCRIPTOR),
            _ => return Err(LineFault::Descriptor { address, base }),
        };
        match (self.end, self.base) {
            (Some(end), _) if pfn >= end => Err(LineFault::FrameAbove { address, pfn, end }),
            (None, None) if pfn.0 / Descriptors::STRETCH > self.highest.0 => {
                Err(LineFault::FrameAbove { address, pfn, end: self.highest.add(1) })
            }
            _ => Ok(pfn),
        }
    }
}

/// Reads flags, remembering the last ones: a trace has a few dozen different texts in a million lines.
#[derive(Clone, Debug)]
pub(super) struct Flags {
    slots: Vec<(Vec<u8>, Gfp)>,
}

impl Flags {
    const SLOTS: usize = 128;
    const REMEMBERED: usize = 256;

    pub(super) fn new() -> Flags {
        Flags { slots: vec![(Vec::new(), Gfp::NONE); Flags::SLOTS] }
    }

    /// The flags in `text`, and whether they are printed by names.
    pub(super) fn read(&mut self, text: &[u8]) -> Result<(Gfp, bool), LineFault> {
        let is_symbolic = !text.first().is_some_and(u8::is_ascii_digit);
        if text.is_empty() || text.len() > Flags::REMEMBERED {
            return Ok((parse_flags(text)?, is_symbolic));
        }
        // Texts differ most at their ends.
        let hash = text.iter().rev().take(24).fold(text.len(), |hash, &b| hash.wrapping_mul(31) ^ usize::from(b));
        let slot = &mut self.slots[(hash ^ (hash >> 7)) % Flags::SLOTS];
        if slot.0 != text {
            let gfp = parse_flags(text)?;
            slot.0.clear();
            slot.0.extend_from_slice(text);
            slot.1 = gfp;
        }
        Ok((slot.1, is_symbolic))
    }
}

fn parse_flags(text: &[u8]) -> Result<Gfp, LineFault> {
    let unknown = |part: &[u8]| LineFault::Flag(Excerpt::new(part));
    if let Some(bits) = number(text) {
        return u32::try_from(bits).map(Gfp).map_err(|_| unknown(text));
    }
    let text = std::str::from_utf8(text).map_err(|_| unknown(text))?;
    Gfp::parse(text).map_err(|part| unknown(part.as_bytes()))
}

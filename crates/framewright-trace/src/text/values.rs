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
use super::event_fields::number;
use crate::error::Excerpt;
use crate::flags::{KernelVersion, Kernels, Reading, named};
use crate::record::Quality;

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
        KernelVersion::find(version).map(Numbering::of)
    }

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

    /// The mobility of a request with `gfp`, of which `is_certain` says whether reclaimable memory shows in it: its bit
    /// has changed over time, the one of movable memory never.
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
    slots: Vec<Slot>,
    bits: Reading,
    /// Whether a request is read without the flags that are not known.
    lenient: bool,
}

/// A text and its flags.
#[derive(Clone, Debug)]
struct Slot {
    text: Vec<u8>,
    gfp: Gfp,
    /// Flags that were left out.
    left_out: Vec<String>,
}

impl Flags {
    const SLOTS: usize = 128;
    const REMEMBERED: usize = 256;

    pub(super) fn new(kernels: Kernels, lenient: bool) -> Flags {
        let slot = Slot { text: Vec::new(), gfp: Gfp::NONE, left_out: Vec::new() };
        Flags { slots: vec![slot; Flags::SLOTS], bits: Reading::new(kernels), lenient }
    }

    /// The kernels that the trace can be of.
    pub(super) fn kernels(&self) -> Kernels {
        self.bits.kernels()
    }

    /// Takes the bits of a kernel whose version the header names, unless the user has said otherwise.
    pub(super) fn kernel(&mut self, version: KernelVersion) {
        self.bits.narrow(Kernels::of(version));
    }

    /// The kernel is not older than `version`.
    pub(super) fn since(&mut self, version: KernelVersion) {
        self.bits.narrow(self.bits.kernels().since(version));
    }

    /// The kernel has this numbering of mobilities.
    pub(super) fn numbering(&mut self, numbering: Numbering) {
        const SWAPPED: KernelVersion = KernelVersion::new(4, 4);
        self.bits.narrow(match numbering {
            Numbering::ReclaimableFirst => Kernels::ALL.before(SWAPPED),
            Numbering::MovableFirst => Kernels::ALL.since(SWAPPED),
        });
    }

    /// The flags in `text` of a request whose mobility has the number `migratetype`, and whether all of them are known.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        migratetype: u64,
        quality: &mut Quality,
    ) -> Result<(Gfp, bool), LineFault> {
        // Texts differ most at their ends.
        let hash = text.iter().rev().take(24).fold(text.len(), |hash, &b| hash.wrapping_mul(31) ^ usize::from(b));
        let place = (hash ^ (hash >> 7)) % Flags::SLOTS;
        if text.is_empty() || self.slots[place].text != text {
            let (gfp, left_out) = self.parse(text, migratetype)?;
            let slot = &mut self.slots[place];
            slot.text.clear();
            slot.text.extend_from_slice(&text[..text.len().min(Flags::REMEMBERED + 1)]);
            (slot.gfp, slot.left_out) = (gfp, left_out);
        }
        let slot = &self.slots[place];
        slot.left_out.iter().for_each(|flag| quality.count_flag(flag));
        Ok((slot.gfp, slot.left_out.is_empty()))
    }

    fn parse(&mut self, text: &[u8], migratetype: u64) -> Result<(Gfp, Vec<String>), LineFault> {
        let fault = |part: &[u8]| LineFault::Flag(Excerpt::new(part));
        if let Some(bits) = number(text) {
            let bits = u32::try_from(bits).map_err(|_| fault(text))?;
            return match self.bits.read(bits, Some(migratetype)) {
                Ok(gfp) => Ok((gfp, Vec::new())),
                Err((fault, gfp)) if self.lenient => Ok((gfp, vec![fault.bits()])),
                Err((fault, _)) => Err(fault.into()),
            };
        }
        let named = named(std::str::from_utf8(text).map_err(|_| fault(text))?);
        match named.unknown.first() {
            Some(first) if !self.lenient => Err(fault(first.as_bytes())),
            // Nothing at all is no flag of a vendor's, but a line that is cut.
            Some(_) if named.unknown.iter().any(|name| !is_name(name)) => Err(fault(text)),
            _ => Ok((named.gfp, named.unknown.into_iter().map(str::to_owned).collect())),
        }
    }
}

/// Whether a flag can be called so.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

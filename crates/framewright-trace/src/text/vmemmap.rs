//! Addresses of page descriptors, which name the pages of a move.
//!
//! Descriptors of 64 bytes are in one table. Its base is known for an x86-64 kernel that does not randomise it: one
//! address with four levels of page tables, another with five.
//!
//! An address in neither range is refused, and so is that of a frame far above any other of the trace. A wrong base
//! would yield wrong frames without a sign.

use framewright::units::Pfn;

use crate::error::LineFault;
use crate::struct_page::frame_at;

/// The table's range on x86-64 with four levels of page tables, and with five.
const TABLES: [(u64, u64); 2] =
    [(0xffff_ea00_0000_0000, 0xffff_eb00_0000_0000), (0xffd4_0000_0000_0000, 0xffd6_0000_0000_0000)];

/// Reads addresses of page descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vmemmap {
    base: Option<u64>,
    /// One past the last frame, if the zones are known.
    end: Option<Pfn>,
    /// Highest frame of the events so far.
    highest: Pfn,
}

impl Vmemmap {
    /// The most times that a moved page may exceed all earlier frames while the base is a guess.
    const STRETCH: u64 = 16;
    /// Frames that are always plausible: 4 GiB of pages of 4 KiB.
    const PLAUSIBLE: u64 = 1 << 20;

    pub(super) fn new(base: Option<u64>, end: Option<Pfn>) -> Vmemmap {
        Vmemmap { base, end, highest: Pfn(Vmemmap::PLAUSIBLE) }
    }

    /// Notes a frame that the trace names.
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
        let pfn = frame_at(address, base).map(Pfn).ok_or(LineFault::Descriptor { address, base })?;
        match (self.end, self.base) {
            (Some(end), _) if pfn >= end => Err(LineFault::FrameAbove { address, pfn, end }),
            (None, None) if pfn.0 / Vmemmap::STRETCH > self.highest.0 => {
                Err(LineFault::FrameAbove { address, pfn, end: self.highest.add(1) })
            }
            _ => Ok(pfn),
        }
    }
}

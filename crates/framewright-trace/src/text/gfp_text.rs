//! The flags of requests as texts print them: by names, or as a number whose bits depend on the kernel.

use framewright::request::Gfp;

use super::event_fields::number;
use super::migratetypes::Numbering;
use crate::error::{Excerpt, LineFault};
use crate::flags::{KernelVersion, Kernels, Reading, named};
use crate::record::Quality;

/// Reads flags, and caches them by text.
///
/// A trace has a few dozen different texts in a million lines.
#[derive(Clone, Debug)]
pub(super) struct GfpReader {
    slots: Vec<Remembered>,
    bits: Reading,
    /// Whether unknown flags are left out instead of refused.
    lenient: bool,
}

/// A text and its flags.
#[derive(Clone, Debug)]
struct Remembered {
    text: Vec<u8>,
    gfp: Gfp,
    /// Flags that were left out.
    left_out: Vec<String>,
}

impl GfpReader {
    const SLOTS: usize = 128;
    const TEXT_LIMIT: usize = 256;

    pub(super) fn new(kernels: Kernels, lenient: bool) -> GfpReader {
        let slot = Remembered { text: Vec::new(), gfp: Gfp::NONE, left_out: Vec::new() };
        GfpReader { slots: vec![slot; GfpReader::SLOTS], bits: Reading::new(kernels), lenient }
    }

    /// The kernels that the trace can be of.
    pub(super) fn kernels(&self) -> Kernels {
        self.bits.kernels()
    }

    /// Uses the bits of the kernel that the header names, unless the user has chosen one.
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

    /// Reads the flags in `text` of a request, and whether all of them are known.
    ///
    /// `migratetype` is the number of the request's mobility.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        migratetype: u64,
        quality: &mut Quality,
    ) -> Result<(Gfp, bool), LineFault> {
        // Texts differ most at their ends.
        let hash = text.iter().rev().take(24).fold(text.len(), |hash, &b| hash.wrapping_mul(31) ^ usize::from(b));
        let place = (hash ^ (hash >> 7)) % GfpReader::SLOTS;
        if text.is_empty() || self.slots[place].text != text {
            let (gfp, left_out) = self.parse(text, migratetype)?;
            let slot = &mut self.slots[place];
            slot.text.clear();
            slot.text.extend_from_slice(&text[..text.len().min(GfpReader::TEXT_LIMIT + 1)]);
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
            // An empty name is no vendor's flag: the line is cut.
            Some(_) if named.unknown.iter().any(|name| !is_name(name)) => Err(fault(text)),
            _ => Ok((named.gfp, named.unknown.into_iter().map(str::to_owned).collect())),
        }
    }
}

/// Whether a flag can have this name.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

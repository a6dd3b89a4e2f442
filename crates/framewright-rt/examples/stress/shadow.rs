//! The owner of each frame, and the stamps that it wrote there.
//!
//! The table has a word for each frame: the mark of the block that it is part of, or 0. A thread that gets a block
//! exchanges each word from 0 to its own mark, and back before it gives the block away. If an exchange finds any other
//! value, the frame has two owners, or was handed out while it had one.
//!
//! The contents repeat this by *stamps*, derived from mark and frame, in the first and the last word of a frame and at
//! one place in between. Of large blocks some frames are stamped: the ends, and some in between. Stamps are checked
//! before a block changes hands or shape, and whenever all threads rest.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use framewright::{Pfn, PfnRange};
use framewright_rt::Arena;

use crate::stage::Checked;

/// Owner of frames that are withheld.
pub(crate) const WITHHELD: u64 = u64::MAX;
/// Words of a page.
const WORDS: u64 = 512;
/// Frames of the largest block that is stamped in all of them.
const SMALL: u64 = 16;
/// Frames stamped of a larger one, its ends included.
const SAMPLES: u64 = 8;

/// Mixes bits well enough for patterns and dice.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The table. Frames are numbered from 0.
pub(crate) struct Shadow {
    owners: Vec<AtomicU64>,
}

impl Shadow {
    pub(crate) fn new(frames: u64) -> Shadow {
        Shadow { owners: (0..frames).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Passes frames from one owner to another.
    pub(crate) fn pass(&self, range: PfnRange, from: u64, to: u64) -> Checked {
        for pfn in range.start.0..range.end.0 {
            let Some(owner) = self.owners.get(pfn as usize) else {
                return Err(format!("frame {pfn:#x} of {range} is none of the arena's"));
            };
            if let Err(found) = owner.compare_exchange(from, to, SeqCst, SeqCst) {
                return Err(format!(
                    "frame {pfn:#x} of {range} belongs to {found:#x} and not to {from:#x} (for {to:#x})"
                ));
            }
        }
        Ok(())
    }

    /// Frames that are owned, and frames that are withheld.
    pub(crate) fn count(&self) -> (u64, u64) {
        self.owners.iter().fold((0, 0), |(owned, withheld), owner| match owner.load(SeqCst) {
            0 => (owned, withheld),
            WITHHELD => (owned, withheld + 1),
            _ => (owned + 1, withheld),
        })
    }
}

/// The stamped words of a page, with their values.
fn stamps(pfn: u64, mark: u64) -> [(u64, u64); 3] {
    let value = mix(mark ^ pfn.rotate_left(40));
    let spot = 1 + value % (WORDS - 2);
    [(0, value), (spot, value.rotate_left(17)), (WORDS - 1, !value)]
}

/// The frames of a block that are stamped.
fn sampled(range: PfnRange, mark: u64) -> impl Iterator<Item = u64> {
    let frames = range.frames();
    let count = if frames <= SMALL { frames } else { SAMPLES };
    (0..count).map(move |index| match index {
        _ if frames <= SMALL => range.start.0 + index,
        0 => range.start.0,
        1 => range.end.0 - 1,
        _ => range.start.0 + mix(mark ^ index) % frames,
    })
}

fn word(arena: &Arena, pfn: u64, word: u64) -> Option<*mut u64> {
    arena.address(Pfn(pfn)).map(|page| page.as_ptr().cast::<u64>().wrapping_add(word as usize))
}

fn read(arena: &Arena, pfn: u64, at: u64) -> Option<u64> {
    // SAFETY: an aligned word of a page of the arena, which the caller owns.
    word(arena, pfn, at).map(|word| unsafe { word.read_volatile() })
}

/// Writes an owner's stamps.
pub(crate) fn stamp(arena: &Arena, range: PfnRange, mark: u64) {
    for pfn in sampled(range, mark) {
        for (at, value) in stamps(pfn, mark) {
            if let Some(word) = word(arena, pfn, at) {
                // SAFETY: an aligned word of a page of the arena, which the caller owns.
                unsafe { word.write_volatile(value) };
            }
        }
    }
}

/// Whether the stamps are as their owner wrote them.
pub(crate) fn check(arena: &Arena, range: PfnRange, mark: u64) -> Checked {
    for pfn in sampled(range, mark) {
        for (at, value) in stamps(pfn, mark) {
            let found = read(arena, pfn, at);
            if found != Some(value) {
                return Err(format!(
                    "word {at} of frame {pfn:#x} of {range}, owner {mark:#x}: expected {value:#x}, found {found:#x?}"
                ));
            }
        }
    }
    Ok(())
}

/// Whether the words of the stamps are zero.
pub(crate) fn check_zero(arena: &Arena, range: PfnRange, mark: u64) -> Checked {
    for pfn in sampled(range, mark) {
        for (at, _) in stamps(pfn, mark) {
            let found = read(arena, pfn, at);
            if found != Some(0) {
                return Err(format!("word {at} of frame {pfn:#x} of {range} is not zero but {found:#x?}"));
            }
        }
    }
    Ok(())
}

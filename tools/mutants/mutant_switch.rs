//! Which mutant is at work; the copy of the core gets this file as its module `mutant_switch`.
//!
//! `MUTANT=N` in the environment switches mutant N on. `MUTANTS_REACHED=FILE` records instead: the byte at offset N of
//! the file becomes 1 when the first mutant of a site, N, is reached. Code that the compiler evaluates has no mutants.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

extern crate std;

const UNKNOWN: u32 = u32::MAX;
const RECORDING: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX - 2;
const MOST: usize = 1 << 16;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static SEEN: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
static RECORD: OnceLock<File> = OnceLock::new();

/// Returns which variant of the site whose first mutant is `first` is at work; another number if none is.
#[inline(always)]
pub(crate) const fn at(first: u32) -> u32 {
    core::intrinsics::const_eval_select((first,), none, chosen)
}

const fn none(_first: u32) -> u32 {
    NONE
}

#[inline(always)]
fn chosen(first: u32) -> u32 {
    let active = ACTIVE.load(Relaxed);
    if active >= RECORDING {
        return unusual(first);
    }
    active.wrapping_sub(first)
}

#[cold]
fn unusual(first: u32) -> u32 {
    if ACTIVE.load(Relaxed) == UNKNOWN {
        let chosen = std::env::var("MUTANT").ok().and_then(|number| number.parse().ok());
        let file = std::env::var_os("MUTANTS_REACHED").and_then(|path| File::options().write(true).open(path).ok());
        let active = match (chosen, file) {
            (Some(chosen), _) => chosen,
            (None, Some(file)) => {
                let _ = RECORD.set(file);
                RECORDING
            }
            (None, None) => NONE,
        };
        ACTIVE.store(active, Relaxed);
        return at(first);
    }
    if let (Some(seen), Some(file)) = (SEEN.get(first as usize), RECORD.get())
        && !seen.load(Relaxed)
    {
        seen.store(true, Relaxed);
        let _ = file.write_at(&[1], u64::from(first));
    }
    NONE
}

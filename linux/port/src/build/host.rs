//! Fits User-Mode Linux to the host's processor.
//!
//! User-Mode Linux saves the floating-point state of its processes in an array of fixed size, 2696 bytes. A processor
//! with AMX has 11 KB of state. The host then refuses to give it all, and the guest's first program dies.
//!
//! The idea: the size is a number in arch/x86/um/user-offsets.c. It becomes the size that the processor reports, if
//! that is larger (CPUID leaf 0xd, subleaf 0, ECX: bytes of all states that the processor supports).
//!
//! Cost: none. Rejected: hiding AMX from the guest, for which the host has no switch. Linux 6.13 asks the host for the
//! size; its file has no number, and stays as it is.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The file that has the size.
const FILE: &str = "arch/x86/um/user-offsets.c";
/// What stands before the size, in bytes.
const BEFORE: &str = "DEFINE_LONGS(HOST_FP_SIZE, ";

/// Bytes of the processor's whole extended state; `None` where CPUID does not say.
pub(super) fn state_size() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        #[allow(unused_unsafe, reason = "CPUID became safe to call in a later Rust than the oldest one")]
        // SAFETY: every x86-64 processor has CPUID, and leaf 0 says whether it has leaf 0xd.
        let size = unsafe { (__cpuid(0).eax >= 0xd).then(|| __cpuid_count(0xd, 0).ecx) };
        size
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Writes the host's size to the copy of a tree, if it is larger than the one in the untouched tree.
pub(super) fn fit_um(untouched: &Path, copy: &Path) -> Result<()> {
    let Ok(text) = fs::read_to_string(untouched.join(FILE)) else { return Ok(()) };
    let Some(fitted) = state_size().and_then(|size| fitted(&text, size)) else { return Ok(()) };
    let path = copy.join(FILE);
    if fs::read_to_string(&path).is_ok_and(|old| old == fitted) {
        return Ok(());
    }
    // The copy may be a hard link, which must not be written in place.
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    fs::write(&path, fitted).with_context(|| format!("cannot write {}", path.display()))
}

/// The file's text with the size, if it has a smaller one.
fn fitted(text: &str, size: u32) -> Option<String> {
    let start = text
        .match_indices(BEFORE)
        .map(|(at, _)| at + BEFORE.len())
        .find(|start| text.get(*start..).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())))?;
    let rest = text.get(start..)?;
    let digits = rest.find(|character: char| !character.is_ascii_digit())?;
    let (old, after) = rest.split_at_checked(digits)?;
    let old: u32 = old.parse().ok()?;
    (old < size).then(|| format!("{}{size}{after}", text.get(..start).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_size_becomes_the_hosts() {
        let text = "DEFINE_LONGS(HOST_FP_SIZE, sizeof(x));\n\tDEFINE_LONGS(HOST_FP_SIZE, 2696);\nmore(1);\n";
        let wanted = "DEFINE_LONGS(HOST_FP_SIZE, sizeof(x));\n\tDEFINE_LONGS(HOST_FP_SIZE, 11008);\nmore(1);\n";
        assert_eq!(fitted(text, 11008).as_deref(), Some(wanted));
        assert_eq!(fitted(text, 2696), None);
        assert_eq!(fitted("DEFINE(HOST_FP_SIZE, 8);", 11008), None);
        assert_eq!(fitted("DEFINE_LONGS(HOST_FP_SIZE, 99", 11008), None);
    }
}

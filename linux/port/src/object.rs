//! Makes an object of Rust one that Linux links: without the table of addresses that its linker scripts refuse.
//!
//! Rust's compiled `core` reaches `memcpy` and its like through the global offset table (`R_X86_64_GOTPCREL`). A kernel
//! has no such table, and x86's linker script fails if one would come to be. The functions are in the kernel itself, so
//! each such access becomes a direct one of the same length:
//!
//! | before | after | relocation after |
//! |---|---|---|
//! | `call *f@GOTPCREL(%rip)` | `addr32 call f` | `R_X86_64_PLT32` |
//! | `jmp *f@GOTPCREL(%rip)` | `jmp f; nop` | `R_X86_64_PLT32`, one byte earlier |
//! | `mov f@GOTPCREL(%rip), r` | `lea f(%rip), r` | `R_X86_64_PC32` |
//!
//! These are the rewritings that the x86-64 psABI names for linkers (section B.2 of version 1.0).
//!
//! Cost: none that matters; the object has some 50 of them.
//!
//! Rejected: a build of `core` without the table, which needs the sources of `core` and an unstable option.

use std::fmt;

/// Type of the section headers that hold relocations with addends (`SHT_RELA`).
const RELA: u32 = 4;
const R_X86_64_PC32: u32 = 2;
const R_X86_64_PLT32: u32 = 4;
const R_X86_64_GOTPCREL: u32 = 9;
const R_X86_64_GOTPCRELX: u32 = 41;
const R_X86_64_REX_GOTPCRELX: u32 = 42;
/// Bytes of a section header, and of a relocation.
const HEADER: usize = 64;
const RELOCATION: usize = 24;

/// Why an object cannot be rewritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadObject {
    /// It is no 64-bit little-endian ELF object for x86-64.
    NotElf,
    /// A header or a relocation lies outside of the file.
    CutOff,
    /// The instruction at this place of the file uses the table in a way that is not known.
    Instruction(usize),
}

impl fmt::Display for BadObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadObject::NotElf => f.write_str("no ELF object for x86-64"),
            BadObject::CutOff => f.write_str("a header or a relocation lies outside of the file"),
            BadObject::Instruction(at) => write!(f, "byte {at:#x}: an unknown use of the global offset table"),
        }
    }
}

impl std::error::Error for BadObject {}

/// Rewrites each access through the global offset table; returns their number.
///
/// # Errors
/// The file is no such object, is cut off, or has an access of another kind. It may be changed in part then.
pub fn without_table(object: &mut [u8]) -> Result<usize, BadObject> {
    let is_elf = object.get(..6) == Some(&[0x7f, b'E', b'L', b'F', 2, 1]) && object.get(18..20) == Some(&[62, 0]);
    if !is_elf {
        return Err(BadObject::NotElf);
    }
    let headers = offset(number::<8>(object, 0x28)?)?;
    let count = offset(number::<2>(object, 0x3c)?)?;
    let header =
        |index: usize| index.checked_mul(HEADER).and_then(|at| at.checked_add(headers)).ok_or(BadObject::CutOff);
    let mut rewritten = 0;
    for index in 0..count {
        let at = header(index)?;
        if number::<4>(object, at + 4)? != u64::from(RELA) {
            continue;
        }
        let (start, size) = (offset(number::<8>(object, at + 24)?)?, offset(number::<8>(object, at + 32)?)?);
        let target = header(offset(number::<4>(object, at + 44)?)?)?;
        let code = offset(number::<8>(object, target + 24)?)?;
        for place in (0..size / RELOCATION).map(|index| start.saturating_add(index * RELOCATION)) {
            let kind = number::<4>(object, place + 8)? as u32;
            if matches!(kind, R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX) {
                let within = number::<8>(object, place)?;
                let operand = offset(within)?.checked_add(code).ok_or(BadObject::CutOff)?;
                let (kind, earlier) = rewrite(object, operand)?;
                put(object, place, &(within - earlier).to_le_bytes())?;
                put(object, place + 8, &kind.to_le_bytes())?;
                rewritten += 1;
            }
        }
    }
    Ok(rewritten)
}

/// Rewrites the instruction whose operand is at `at`; returns its relocation, and by how much that comes earlier.
fn rewrite(object: &mut [u8], at: usize) -> Result<(u32, u64), BadObject> {
    let opcode = at.checked_sub(2).and_then(|start| object.get(start..at)).ok_or(BadObject::CutOff)?;
    match *opcode {
        [0xff, 0x15] => put(object, at - 2, &[0x67, 0xe8]).map(|()| (R_X86_64_PLT32, 0)),
        [0xff, 0x25] => put(object, at - 2, &[0xe9, 0, 0, 0, 0, 0x90]).map(|()| (R_X86_64_PLT32, 1)),
        [0x8b, _] => put(object, at - 2, &[0x8d]).map(|()| (R_X86_64_PC32, 0)),
        _ => Err(BadObject::Instruction(at)),
    }
}

fn number<const BYTES: usize>(object: &[u8], at: usize) -> Result<u64, BadObject> {
    let bytes = at.checked_add(BYTES).and_then(|end| object.get(at..end)).ok_or(BadObject::CutOff)?;
    Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn offset(number: u64) -> Result<usize, BadObject> {
    // No file is as long; so sums of two offsets and a few bytes do not overflow.
    usize::try_from(number).ok().filter(|&offset| offset < 1 << 48).ok_or(BadObject::CutOff)
}

fn put(object: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), BadObject> {
    let place = at.checked_add(bytes.len()).and_then(|end| object.get_mut(at..end)).ok_or(BadObject::CutOff)?;
    place.copy_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An object with one section of code and its relocations: type, place.
    fn object(code: &[u8], relocations: &[(u32, u64)]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        file[18] = 62;
        let start = file.len();
        file.extend(code);
        let table = file.len();
        for &(kind, place) in relocations {
            file.extend(place.to_le_bytes());
            file.extend((7_u64 << 32 | u64::from(kind)).to_le_bytes());
            file.extend((-4_i64).to_le_bytes());
        }
        let headers = file.len();
        for (kind, offset, size, info) in
            [(1_u32, start, code.len(), 0_u32), (RELA, table, relocations.len() * RELOCATION, 0)]
        {
            let mut header = [0; HEADER];
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
            header[44..48].copy_from_slice(&info.to_le_bytes());
            file.extend(header);
        }
        file[0x28..0x30].copy_from_slice(&(headers as u64).to_le_bytes());
        file[0x3c] = 2;
        file
    }

    #[test]
    fn calls_jumps_and_loads_become_direct() {
        let before = [0xff, 0x15, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0, 0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0];
        let after = [0x67, 0xe8, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0, 0x90, 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0];
        let mut file = object(&before, &[(9, 2), (41, 8), (42, 15), (R_X86_64_PLT32, 20)]);
        assert_eq!(without_table(&mut file), Ok(3));
        assert_eq!(file, object(&after, &[(4, 2), (4, 7), (2, 15), (R_X86_64_PLT32, 20)]));
        assert_eq!(without_table(&mut file), Ok(0));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(without_table(&mut [0; 64]), Err(BadObject::NotElf));
        let mut pushed = object(&[0xff, 0x35, 0, 0, 0, 0], &[(9, 2)]);
        let error = without_table(&mut pushed).unwrap_err();
        assert_eq!(error.to_string(), "byte 0x42: an unknown use of the global offset table");
        let whole = object(&[0xff, 0x15, 0, 0, 0, 0], &[(9, 2)]);
        assert_eq!(without_table(&mut whole[..whole.len() - HEADER].to_vec()), Err(BadObject::CutOff));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0..400_usize, byte: u8, length in 0..400_usize) {
            let mut file = object(&[0xff, 0x15, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0], &[(9, 2), (9, 8)]);
            file.truncate(length);
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            let _ = without_table(&mut file);
        }
    }
}

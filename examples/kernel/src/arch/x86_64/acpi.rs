//! Which CPUs there are: the local APICs in ACPI's table MADT.
//!
//! The table is what firmware says of the machine; a count passed on the command line would be ours. It names at most
//! 255 CPUs by 8-bit numbers, as many as the xAPIC addresses. Checksums are not verified.

use core::ptr::read_unaligned;

/// A table: its address, after its header was read.
#[derive(Clone, Copy)]
struct Table(usize);

const HEADER: usize = 36;

impl Table {
    fn signature(self) -> [u8; 4] {
        read(self.0)
    }

    fn length(self) -> usize {
        read::<u32>(self.0 + 4) as usize
    }
}

/// Reads firmware's memory.
fn read<T: Copy>(address: usize) -> T {
    // SAFETY: firmware's tables lie in memory that stays as it is, which is mapped; each `T` here is an integer or
    // bytes. An address outside of memory would be firmware's mistake.
    unsafe { read_unaligned(address as *const T) }
}

/// Calls `visit` with the APIC number of each CPU that may be used; returns the address of the local APICs.
///
/// `None` without the table.
pub(super) fn cpus(root: usize, mut visit: impl FnMut(u8)) -> Option<usize> {
    let madt = tables(root).find(|table| table.signature() == *b"APIC")?;
    let mut at = madt.0 + HEADER + 8;
    while at < madt.0 + madt.length() {
        let [kind, length, _, apic]: [u8; 4] = read(at);
        let is_enabled = || read::<u32>(at + 4) & 1 != 0;
        // Kind 0 is a processor's local APIC.
        if kind == 0 && is_enabled() {
            visit(apic);
        }
        at += usize::from(length.max(2));
    }
    Some(read::<u32>(madt.0 + HEADER) as usize)
}

/// Returns the tables that the root pointer leads to, by addresses of 32 bits (RSDT), which firmware below 4 GiB has.
fn tables(root: usize) -> impl Iterator<Item = Table> {
    let list = Table(if root == 0 { 0 } else { read::<u32>(root + 16) as usize });
    let count = if list.0 == 0 { 0 } else { (list.length() - HEADER) / 4 };
    (0..count).map(move |index| Table(read::<u32>(list.0 + HEADER + 4 * index) as usize))
}

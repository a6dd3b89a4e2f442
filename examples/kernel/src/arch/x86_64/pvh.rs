//! What the loader tells: the memory map, the command line, and where ACPI's tables begin.
//!
//! The structures are those of Xen's `arch-x86/hvm/start_info.h`, version 1. They lie below 1 MiB, which this kernel
//! never hands to the allocator, so they may be read at any time.

const MAGIC: u32 = 0x336e_c578;
const USABLE: u32 = 1;

#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    acpi_root: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
struct Entry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// The start information.
#[derive(Clone, Copy)]
pub(crate) struct Loaded(&'static StartInfo);

impl Loaded {
    /// Reads the start information at an address; `None` if there is none, or it has no memory map.
    ///
    /// # Safety
    /// `address` is the one that the loader passed to the entry.
    pub(crate) unsafe fn at(address: usize) -> Option<Loaded> {
        // SAFETY: the loader's address is that of a start information, and all memory is mapped.
        let info = unsafe { &*(address as *const StartInfo) };
        (info.magic == MAGIC && info.version >= 1).then_some(Loaded(info))
    }

    /// Returns usable memory as byte addresses, start and end.
    pub(crate) fn memory(self) -> impl Iterator<Item = (u64, u64)> {
        let entries = self.0.memory_map as *const Entry;
        // SAFETY: the table lies where the loader says, and nothing writes to it.
        let entries = unsafe { core::slice::from_raw_parts(entries, self.0.memory_map_entries as usize) };
        entries.iter().filter(|entry| entry.kind == USABLE).map(|entry| (entry.address, entry.address + entry.size))
    }

    /// Returns the value of `name=value` on the command line.
    pub(crate) fn option(self, name: &str) -> Option<&'static str> {
        // SAFETY: the command line ends with a zero byte.
        let line = unsafe { core::ffi::CStr::from_ptr(self.0.command_line as *const core::ffi::c_char) };
        let mut words = line.to_str().ok()?.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns memory that stays in use, as byte addresses: firmware, the start information, the trampoline.
    pub(crate) fn in_use(self) -> (u64, u64) {
        (0, 1 << 20)
    }

    /// Returns the address of ACPI's root pointer.
    pub(super) fn acpi_root(self) -> usize {
        self.0.acpi_root as usize
    }
}

//! What the host's kernel says of a guest's memory, and contents that tell where they are.

use std::sync::Arc;

use framewright_rt::{Arena, ArenaBuilder};
use framewright_vm_memory::{GuestMemoryArena, GuestRange, from_ranges};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const MIB: u64 = 1 << 20;

/// Describes an arena without huge pages, so that each page is resident or not by itself.
pub(crate) fn builder(bytes: u64) -> ArenaBuilder {
    Arena::builder().size(bytes).without_background().transparent(framewright_rt::Transparent::Never)
}

/// Builds an arena, and a guest that has half of it: below the hole of a PC's memory map and above it.
pub(crate) fn guest_of(bytes: u64) -> (Arc<Arena>, GuestMemoryArena) {
    let arena = Arc::new(builder(bytes).build().unwrap());
    let ranges = [GuestRange::new(GuestAddress(0), bytes / 4), GuestRange::new(GuestAddress(4 << 30), bytes / 4)];
    let memory = from_ranges(&arena, &ranges).unwrap();
    (arena, memory)
}

/// Returns which pages of a guest's memory the host has, by their guest addresses.
fn pages<B: vm_memory::bitmap::Bitmap>(
    memory: &GuestMemoryArena<B>,
) -> impl Iterator<Item = (GuestAddress, bool)> + use<'_, B> {
    memory.iter().flat_map(|region| {
        let mut flags = vec![0_u8; (region.len() / PAGE) as usize];
        let start = region.get_host_address(MemoryRegionAddress(0)).unwrap();
        // SAFETY: the range is mapped, and there is a flag for each of its pages.
        let code = unsafe { libc::mincore(start.cast(), region.len() as usize, flags.as_mut_ptr()) };
        assert_eq!(code, 0);
        let first = region.start_addr().0;
        flags.into_iter().zip(0..).map(move |(flag, page)| (GuestAddress(first + page * PAGE), flag & 1 != 0))
    })
}

/// Returns the bytes of a guest's memory that the host has.
pub(crate) fn resident<B: vm_memory::bitmap::Bitmap>(memory: &GuestMemoryArena<B>) -> u64 {
    pages(memory).filter(|&(_, is_resident)| is_resident).count() as u64 * PAGE
}

/// Writes to each page of a guest's memory where it is.
pub(crate) fn mark(memory: &GuestMemoryArena) {
    let all: Vec<GuestAddress> = pages(memory).map(|(address, _)| address).collect();
    all.into_iter().for_each(|address| memory.write_obj(!address.0, address).unwrap());
}

/// Checks that each page is zero if `is_zero` says so of its address, and otherwise as [`mark`] left it.
pub(crate) fn check(memory: &GuestMemoryArena, is_zero: impl Fn(u64) -> bool) {
    for (address, _) in pages(memory) {
        let wanted = if is_zero(address.0) { 0 } else { !address.0 };
        assert_eq!(memory.read_obj::<u64>(address).unwrap(), wanted, "at {:#x}", address.0);
    }
}

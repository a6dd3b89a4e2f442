//! Regions: where they lie, what they hold, and when their blocks are free again.

use std::sync::Arc;

use framewright::request::GFP_USER;
use framewright::{NodeId, Order, Request};
use framewright_rt::{Arena, Placement};
use framewright_vm_memory::{Error, GuestMemoryArena, GuestRange, from_ranges};
use vm_memory::bitmap::{AtomicBitmap, Bitmap};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryError, GuestMemoryRegion, MemoryRegionAddress};

use crate::resident::{MIB, PAGE, builder, check, guest_of, mark, resident};

fn allocated(arena: &Arena) -> u64 {
    arena.validate().unwrap().allocated * arena.page_size() as u64
}

/// First address and size of each region.
fn shape(memory: &GuestMemoryArena) -> Vec<(u64, u64)> {
    memory.iter().map(|region| (region.start_addr().0, region.len())).collect()
}

#[test]
fn a_range_is_made_of_the_largest_aligned_blocks() {
    let arena = Arc::new(builder(256 * MIB).build().unwrap());
    let low = GuestRange::new(GuestAddress(0), 0xa_0000); // 640 KiB, as on a PC
    let high = GuestRange::new(GuestAddress(MIB), 99 * MIB);
    let memory = from_ranges(&arena, &[low, high]).unwrap();
    let in_mib = [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (64, 32), (96, 4)];
    let wanted = in_mib.map(|(start, bytes)| (start * MIB, bytes * MIB));
    assert_eq!(shape(&memory), [&[(0, MIB / 2), (MIB / 2, MIB / 8)], &wanted[..]].concat());
    for region in memory.iter() {
        let host = region.get_host_address(MemoryRegionAddress(0)).unwrap().addr() as u64;
        assert!(host.is_multiple_of(region.len()), "huge pages of both sides coincide");
        assert_eq!(region.len(), region.order().frames() * region.page_size());
        assert_eq!(region.is_hugetlbfs(), Some(false));
    }
    assert_eq!(allocated(&arena), 99 * MIB + 0xa_0000);
    drop(memory);
    assert_eq!((allocated(&arena), arena.refused_frees()), (0, 0));
}

#[test]
fn reads_and_writes_cross_regions_and_stop_at_holes() {
    let (_arena, memory) = guest_of(64 * MIB);
    let border = 16 * MIB;
    assert_eq!(shape(&memory), [(0, border), (4 << 30, border)]);
    let arena = Arc::new(builder(64 * MIB).build().unwrap());
    let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 24 * MIB)]).unwrap();
    let bytes: Vec<u8> = (0..=255).collect();
    memory.write_slice(&bytes, GuestAddress(border - 100)).unwrap();
    let mut read = [0; 256];
    memory.read_slice(&mut read, GuestAddress(border - 100)).unwrap();
    assert_eq!(read, bytes[..]);
    let beyond = memory.write_slice(&bytes, GuestAddress(24 * MIB - 255)).unwrap_err();
    assert!(matches!(beyond, GuestMemoryError::PartialBuffer { completed: 255, .. }), "{beyond}");
    assert!(memory.read_obj::<u64>(GuestAddress(24 * MIB)).is_err());
    let region = memory.find_region(GuestAddress(0)).unwrap();
    for (at, count) in [(region.len(), 1), (region.len() - 1, 2), (u64::MAX, 1), (1, usize::MAX)] {
        assert!(region.get_slice(MemoryRegionAddress(at), count).is_err(), "{count} bytes at {at:#x}");
    }
    assert!(region.get_host_address(MemoryRegionAddress(region.len())).is_err());
    assert_eq!(region.get_slice(MemoryRegionAddress(region.len()), 0).unwrap().len(), 0);
}

#[test]
fn a_guest_sees_nothing_of_the_last_owner_of_its_memory() {
    let arena = Arc::new(builder(16 * MIB).build().unwrap());
    arena.alloc(&Request::new(GFP_USER, 12)).unwrap().fill(0xaa);
    for _ in 0..2 {
        let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 16 * MIB)]).unwrap();
        assert_eq!(resident(&memory), 0, "zeros take no memory");
        check(&memory, |_| true);
        mark(&memory);
        assert_eq!(resident(&memory), 16 * MIB);
    }
    let block = arena.alloc(&Request::new(GFP_USER, 12)).unwrap();
    assert!(block.iter().all(|&byte| byte == 0), "the guest's secrets are gone with it");
}

#[test]
fn memory_that_was_handed_in_is_cleared() {
    let mut bytes = vec![0xaa_u8; 5 << 20];
    let start = bytes.as_mut_ptr().align_offset(PAGE as usize);
    let part = std::ptr::NonNull::from(&mut bytes[start..start + (4 << 20)]);
    // SAFETY: the vector outlives the arena, and is used by nothing else.
    let arena = Arc::new(unsafe { Arena::builder().without_background().build_in(part) }.unwrap());
    let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 4 * MIB)]).unwrap();
    check(&memory, |_| true);
    assert_eq!(memory.find_region(GuestAddress(0)).unwrap().is_hugetlbfs(), None);
}

#[test]
fn regions_keep_the_arena_and_a_clone_keeps_the_regions() {
    let (arena, memory) = guest_of(16 * MIB);
    let (weak, clone) = (Arc::downgrade(&arena), memory.clone());
    drop((arena, memory));
    mark(&clone);
    check(&clone, |_| false);
    let arena = weak.upgrade().expect("the clone keeps it");
    let (fewer, removed) = clone.remove_region(GuestAddress(4 << 30), 4 * MIB).unwrap();
    drop(clone);
    assert_eq!(allocated(&arena), 8 * MIB, "one owner of each region is left");
    drop(removed);
    assert_eq!(allocated(&arena), 4 * MIB);
    drop(fewer);
    assert_eq!(allocated(&arena), 0);
    drop(arena);
    assert!(weak.upgrade().is_none());
}

#[test]
fn refused_ranges_leave_the_arena_as_it_was() {
    let arena = Arc::new(builder(16 * MIB).build().unwrap());
    let guest = |ranges: &[(u64, u64)]| {
        let ranges: Vec<_> = ranges.iter().map(|&(start, bytes)| GuestRange::new(GuestAddress(start), bytes)).collect();
        from_ranges::<()>(&arena, &ranges).map(|_| ()).unwrap_err()
    };
    assert!(matches!(guest(&[]), Error::Regions(_)));
    for wrong in [(0, 0), (0, PAGE + 1), (8, PAGE), (u64::MAX - 4095, PAGE), (PAGE, u64::MAX - 4095)] {
        assert!(matches!(guest(&[wrong]), Error::BadRange { .. }), "{wrong:x?}");
    }
    assert!(matches!(guest(&[(0, 2 * MIB), (MIB, 2 * MIB)]), Error::Regions(_)));
    assert!(matches!(guest(&[(4 * MIB, 2 * MIB), (0, 2 * MIB)]), Error::Regions(_)));
    let error = guest(&[(0, 8 * MIB), (8 * MIB, 9 * MIB)]);
    assert!(matches!(error, Error::NoBlock { address, .. } if address == 16 * MIB), "{error}");
    assert_eq!(allocated(&arena), 0);
}

#[test]
fn a_fragmented_arena_gives_smaller_blocks() {
    let arena = Arc::new(builder(64 * MIB).build().unwrap());
    let blocks: Vec<_> = (0..16).map(|_| arena.alloc(&Request::new(GFP_USER, 10)).unwrap()).collect();
    // Every other block of 4 MiB stays.
    let kept: Vec<_> = blocks.into_iter().filter(|block| block.pfn().0 & 1 << 10 == 0).collect();
    assert_eq!(kept.len(), 8);
    let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 32 * MIB)]).unwrap();
    assert_eq!(shape(&memory).len(), 8);
    assert!(memory.iter().all(|region| region.order() == Order(10)));
    mark(&memory);
    check(&memory, |_| false);
}

#[test]
fn memory_lies_on_the_node_that_a_range_names() {
    let builder = Arena::builder().without_background();
    let builder = builder.node(32 * MIB, Placement::Anywhere).node(32 * MIB, Placement::Anywhere);
    let arena = Arc::new(builder.build().unwrap());
    let on = |node, bytes| from_ranges::<()>(&arena, &[GuestRange::new(GuestAddress(0), bytes).on(NodeId(node))]);
    let border = arena.address(arena.report().nodes[1].range.start).unwrap().addr().get();
    let memory = on(1, 32 * MIB).unwrap();
    for region in memory.iter() {
        assert!(region.get_host_address(MemoryRegionAddress(0)).unwrap().addr() >= border);
    }
    assert!(matches!(on(1, 4 * MIB), Err(Error::NoBlock { address: 0, .. })), "no other node stands in");
    assert!(on(0, 32 * MIB).is_ok());
    assert!(matches!(on(2, 4 * MIB), Err(Error::NoBlock { .. })));
}

#[test]
fn writes_are_noted_for_migration() {
    let arena = Arc::new(builder(16 * MIB).build().unwrap());
    let memory = from_ranges::<AtomicBitmap>(&arena, &[GuestRange::new(GuestAddress(0), 8 * MIB)]).unwrap();
    memory.write_obj(7_u8, GuestAddress(3 * PAGE + 5)).unwrap();
    let region = memory.find_region(GuestAddress(0)).unwrap();
    let dirty: Vec<usize> = (0..8).filter(|page| region.bitmap().dirty_at(page * PAGE as usize)).collect();
    assert_eq!(dirty, [3]);
}

//! Regions of a memfd, which another process maps by the place in the file.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use framewright::Request;
use framewright::request::GFP_USER;
use framewright_rt::Backing;
use framewright_vm_memory::{Error, GuestMemoryArena, GuestRange, from_ranges, from_ranges_shared};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

use crate::resident::{MIB, builder};

const RANGES: [GuestRange; 2] =
    [GuestRange::new(GuestAddress(0), 8 * MIB), GuestRange::new(GuestAddress(4 << 30), 4 * MIB)];

#[test]
fn regions_name_their_place_in_the_file() {
    let arena = Arc::new(builder(32 * MIB).backing(Backing::Memfd).build().unwrap());
    let other = arena.alloc(&Request::new(GFP_USER, 0)).unwrap();
    // SAFETY: the file is read here, and written nowhere.
    let memory: GuestMemoryArena = unsafe { from_ranges_shared(&arena, &RANGES) }.unwrap();
    let mut places = Vec::new();
    for region in memory.iter() {
        let address = GuestAddress(region.start_addr().0 + 12_345);
        memory.write_obj(0x1122_3344_5566_7788_u64, address).unwrap();
        let place = region.file_offset().unwrap();
        let mut bytes = [0; 8];
        place.file().read_exact_at(&mut bytes, place.start() + 12_345).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 0x1122_3344_5566_7788);
        places.push(place.start());
    }
    assert_eq!(places.len(), 2);
    assert_ne!(places[0], places[1]);
    // What a device discards is gone for the other process too.
    let mut device = framewright_vm_memory::BalloonDevice::new(memory.clone());
    assert_eq!(device.report(GuestAddress(0), 2 * MIB).unwrap(), 2 * MIB);
    let mut bytes = [1; 8];
    let place = memory.find_region(GuestAddress(0)).unwrap().file_offset().unwrap();
    place.file().read_exact_at(&mut bytes, place.start() + 12_345).unwrap();
    assert_eq!(bytes, [0; 8]);
    assert_eq!(other[0], 0);
}

#[test]
fn other_memory_has_no_file() {
    let arena = Arc::new(builder(32 * MIB).build().unwrap());
    // SAFETY: there is no file.
    let refused = unsafe { from_ranges_shared::<()>(&arena, &RANGES) };
    assert!(matches!(refused, Err(Error::NoFile)));
    let arena = Arc::new(builder(32 * MIB).backing(Backing::Memfd).build().unwrap());
    let memory: GuestMemoryArena = from_ranges(&arena, &RANGES).unwrap();
    assert!(memory.iter().all(|region| region.file_offset().is_none()), "only an unsafe call gives the file away");
}

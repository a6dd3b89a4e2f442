//! Free page reporting on the host's side.

use std::sync::Arc;

use framewright_rt::{Arena, ArenaError};
use framewright_vm_memory::{BalloonDevice, Error, GuestMemoryArena, GuestRange, from_ranges};
use vm_memory::{Bytes, GuestAddress};

use crate::resident::{MIB, PAGE, builder, check, guest_of, mark, resident};

#[test]
fn resident_memory_falls_by_what_was_reported_and_the_rest_stays() {
    let (_arena, memory) = guest_of(64 * MIB);
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    assert_eq!(resident(&memory), 32 * MIB);
    let reports = [(2 * MIB, 4 * MIB), (14 * MIB, 2 * MIB), (4 << 30, 6 * MIB)];
    let mut left = 32 * MIB;
    for (start, bytes) in reports {
        assert_eq!(device.report(GuestAddress(start), bytes).unwrap(), bytes);
        left -= bytes;
        assert_eq!(resident(&memory), left);
    }
    assert_eq!(device.given_back(), 12 * MIB);
    let is_reported = |address| reports.iter().any(|&(start, bytes)| (start..start + bytes).contains(&address));
    check(&memory, is_reported);
    // The guest uses a reported page again.
    memory.write_obj(3_u64, GuestAddress(2 * MIB)).unwrap();
    assert_eq!(memory.read_obj::<u64>(GuestAddress(2 * MIB)).unwrap(), 3);
}

#[test]
fn only_whole_pages_are_given_back() {
    let (_arena, memory) = guest_of(64 * MIB);
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    for (start, bytes, given) in [(1, PAGE, 0), (10 * PAGE - 1, 3 * PAGE, 2 * PAGE), (PAGE * 20, 1, 0)] {
        assert_eq!(device.report(GuestAddress(start), bytes).unwrap(), given, "{bytes} at {start:#x}");
    }
    check(&memory, |address| (10 * PAGE..12 * PAGE).contains(&address));
}

#[test]
fn a_report_crosses_regions() {
    let arena = Arc::new(builder(64 * MIB).build().unwrap());
    let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 24 * MIB)]).unwrap();
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    assert_eq!(device.report(GuestAddress(15 * MIB), 3 * MIB).unwrap(), 3 * MIB);
    check(&memory, |address| (15 * MIB..18 * MIB).contains(&address));
}

#[test]
fn a_range_that_is_not_memory_is_refused_and_nothing_is_lost() {
    let (_arena, memory) = guest_of(64 * MIB);
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    let mut refused = |start, bytes| {
        let calls = [
            device.report(GuestAddress(start), bytes).map(|_| ()),
            device.inflate(GuestAddress(start), bytes).map(|_| ()),
            device.deflate(GuestAddress(start), bytes),
        ];
        calls.map(|result| result.unwrap_err().to_string())
    };
    for (start, bytes) in [(0, 0), (!4095, 2 * PAGE), (4 << 30, !4095)] {
        assert!(refused(start, bytes).iter().all(|text| text.contains("not empty")), "{start:#x}");
    }
    for (start, bytes) in [(15 * MIB, 2 * MIB), (16 * MIB, PAGE), (0, 5 << 30), ((4 << 30) - PAGE, 2 * PAGE)] {
        assert!(
            refused(start, bytes).iter().all(|text| text.ends_with("are not all memory of the guest")),
            "{start:#x}"
        );
    }
    assert_eq!((device.given_back(), device.inflated(), resident(&memory)), (0, 0, 32 * MIB));
    check(&memory, |_| false);
}

#[test]
fn memory_that_cannot_be_given_back_is_an_error() {
    let mut bytes = vec![0_u8; 5 << 20];
    let start = bytes.as_mut_ptr().align_offset(PAGE as usize);
    let part = std::ptr::NonNull::from(&mut bytes[start..start + (4 << 20)]);
    // SAFETY: the vector outlives the arena, and is used by nothing else.
    let arena = Arc::new(unsafe { Arena::builder().without_background().build_in(part) }.unwrap());
    let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 4 * MIB)]).unwrap();
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    let error = device.report(GuestAddress(0), 2 * MIB).unwrap_err();
    assert!(matches!(error, Error::Arena(ArenaError::Unsupported { .. })), "{error}");
    check(&memory, |_| false);
}

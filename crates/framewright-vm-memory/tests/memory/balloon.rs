//! The balloon on the host's side: counts, and pages of two sizes.

use std::sync::Arc;

use framewright_vm_memory::{BALLOON_PAGE, BalloonDevice, Error, GuestMemoryArena, GuestRange, from_ranges};
use vm_memory::GuestAddress;

use crate::resident::{MIB, PAGE, builder, check, guest_of, mark, resident};

#[test]
fn inflated_pages_are_given_back_and_come_back_as_zeros() {
    let (_arena, memory) = guest_of(64 * MIB);
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    assert_eq!(device.inflate(GuestAddress(MIB), 3 * MIB).unwrap(), 3 * MIB);
    assert_eq!(device.inflate(GuestAddress(4 << 30), PAGE).unwrap(), PAGE);
    let (inflated, left) = (3 * MIB + PAGE, 29 * MIB - PAGE);
    assert_eq!((device.inflated(), resident(&memory)), (inflated, left));
    // Twice counts once.
    device.inflate(GuestAddress(2 * MIB), MIB).unwrap();
    assert_eq!((device.inflated(), resident(&memory)), (inflated, left));
    device.deflate(GuestAddress(2 * MIB), 4 * MIB).unwrap();
    assert_eq!(device.inflated(), MIB + PAGE);
    check(&memory, |address| (MIB..4 * MIB).contains(&address) || address == 4 << 30);
}

#[test]
fn a_balloon_counts_in_its_own_pages() {
    let (_arena, memory) = guest_of(64 * MIB);
    let mut device = BalloonDevice::new(memory);
    for (start, bytes) in [(1, BALLOON_PAGE), (0, BALLOON_PAGE - 1)] {
        let refused = device.inflate(GuestAddress(start), bytes);
        assert!(matches!(refused, Err(Error::BadRange { unit: BALLOON_PAGE, .. })));
        assert!(device.deflate(GuestAddress(start), bytes).is_err());
    }
}

/// The host's page is 64 KiB: sixteen pages of the balloon, in any order.
#[test]
fn a_large_page_of_the_host_goes_when_all_of_it_is_in_the_balloon() {
    const LARGE: u64 = 64 << 10;
    let arena = Arc::new(builder(32 * MIB).page(LARGE).build().unwrap());
    let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 8 * MIB)]).unwrap();
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    let at = |page: u64| GuestAddress(5 * LARGE + page * PAGE);
    for step in 0..15 {
        assert_eq!(device.inflate(at(step * 7 % 16), PAGE).unwrap(), 0, "step {step}");
    }
    check(&memory, |_| false);
    assert_eq!(device.inflate(at(15 * 7 % 16), PAGE).unwrap(), LARGE);
    check(&memory, |address| (5 * LARGE..6 * LARGE).contains(&address));
    // A part is deflated and inflated again: the page is whole again.
    device.deflate(at(3), 2 * PAGE).unwrap();
    assert_eq!((device.inflate(at(3), PAGE).unwrap(), device.inflated()), (0, 15 * PAGE));
    assert_eq!(device.inflate(at(4), PAGE).unwrap(), LARGE);
    // One call completes a page at each end of it.
    device.inflate(GuestAddress(20 * LARGE), 8 * PAGE).unwrap();
    device.inflate(GuestAddress(23 * LARGE - 4 * PAGE), 4 * PAGE).unwrap();
    let between = 3 * LARGE - 12 * PAGE;
    assert_eq!(device.inflate(GuestAddress(20 * LARGE + 8 * PAGE), between).unwrap(), 3 * LARGE);
    assert_eq!(resident(&memory), 8 * MIB - 4 * LARGE);
}

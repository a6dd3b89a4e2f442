//! The kernel's descriptors of frames, `struct page`, by whose addresses traces name frames.

/// One past the largest frame number: addresses have at most 64 bits, pages at least 12.
pub(crate) const PFN_LIMIT: u64 = 1 << 52;

/// Bytes of a descriptor.
const SIZE: u64 = 64;

/// Returns the number of the frame whose descriptor is at `address`, with frame 0's at `base`.
///
/// None if no descriptor starts there.
pub(crate) fn frame_at(address: u64, base: u64) -> Option<u64> {
    let offset = address.checked_sub(base)?;
    offset.is_multiple_of(SIZE).then_some(offset / SIZE)
}

//! Numbers and addresses: what a C program passes, as what the core knows.
//!
//! A C program names a block by its address. Frames lie side by side, and the first has number
//! 0. So the number of a frame is a subtraction and a rotation away. A misaligned address gets a number that no frame
//! has. The core refuses it as it refuses any number, and only then is the address looked at again ([`free_error`]).

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use framewright::{FrameState, FreeError, Order, Pfn};
use framewright_rt::Arena;

use framewright_ffi::error::Code;
use framewright_ffi::numbers::{
    FW_E_FOREIGN, FW_E_MISALIGNED, FW_E_NULL, FW_E_OVERFLOW, FW_E_WRONG_ORDER, FW_E_ZERO_SIZE,
};

/// Addresses of an arena's frames. Written before the arena is known to any other thread.
#[repr(C)]
pub(crate) struct Place {
    /// Address of frame 0.
    start: AtomicUsize,
    /// Size of a page in bytes.
    page: AtomicUsize,
    /// Its binary logarithm.
    shift: AtomicU32,
}

impl Place {
    /// No arena's.
    pub(crate) const fn nothing() -> Place {
        Place { start: AtomicUsize::new(0), page: AtomicUsize::new(0), shift: AtomicU32::new(0) }
    }

    /// Sets the address of frame 0 and the size of a page.
    pub(crate) fn set(&self, start: usize, page: usize) {
        self.start.store(start, Relaxed);
        self.page.store(page, Relaxed);
        self.shift.store(page.trailing_zeros(), Relaxed);
    }

    /// Becomes a copy.
    pub(crate) fn set_as(&self, other: &Place) {
        self.set(other.start.load(Relaxed), other.page.load(Relaxed));
    }

    /// Returns the address of a frame.
    // A multiplication: the number of bits of a shift has to be in one certain register.
    #[inline(always)]
    pub(crate) fn pointer(&self, pfn: Pfn) -> *mut c_void {
        let distance = (pfn.0 as usize).wrapping_mul(self.page.load(Relaxed));
        std::ptr::with_exposed_provenance_mut(self.start.load(Relaxed).wrapping_add(distance))
    }

    /// Returns the frame that begins at an address; for any other address a number that no frame has.
    ///
    /// The low bits of a misaligned address become the number's high bits.
    #[inline(always)]
    pub(crate) fn frame(&self, pointer: *const c_void) -> Pfn {
        let distance = pointer.addr().wrapping_sub(self.start.load(Relaxed)) as u64;
        Pfn(distance.rotate_right(self.shift.load(Relaxed)))
    }

    /// Stores the addresses of frames, as [`Place::pointer`] returns them.
    // A shift: there are no multiplications of vectors.
    pub(crate) fn pointers(&self, pfns: &[Pfn], pointers: &mut [MaybeUninit<*mut c_void>]) {
        let (start, shift) = (self.start.load(Relaxed), self.shift.load(Relaxed) & 63);
        for (pointer, pfn) in pointers.iter_mut().zip(pfns) {
            pointer.write(std::ptr::with_exposed_provenance_mut(start.wrapping_add((pfn.0 << shift) as usize)));
        }
    }

    /// Stores the frames that begin at addresses, as [`Place::frame`] returns them.
    pub(crate) fn frames(&self, pointers: &[*mut c_void], pfns: &mut [Pfn]) {
        let (start, shift, mut low_bits) = (self.start.load(Relaxed), self.shift.load(Relaxed) & 63, 0);
        for (pfn, pointer) in pfns.iter_mut().zip(pointers) {
            let distance = pointer.addr().wrapping_sub(start) as u64;
            low_bits |= distance;
            *pfn = Pfn(distance >> shift);
        }
        // There are no rotations of vectors.
        if low_bits & (self.page.load(Relaxed) as u64).wrapping_sub(1) != 0 {
            pfns.iter_mut().zip(pointers).for_each(|(pfn, pointer)| *pfn = self.frame(*pointer));
        }
    }

    /// Returns the address that [`Place::frame`] got.
    fn unframe(&self, pfn: Pfn) -> *const c_void {
        let distance = pfn.0.rotate_left(self.shift.load(Relaxed)) as usize;
        std::ptr::without_provenance(self.start.load(Relaxed).wrapping_add(distance))
    }

    /// Returns the number of whole pages that `bytes` bytes need.
    ///
    /// # Errors
    /// There are none, or more than addresses can tell apart.
    pub(crate) fn frames_of(&self, bytes: usize) -> Result<u64, c_int> {
        match bytes {
            0 => Err(FW_E_ZERO_SIZE),
            _ if bytes > isize::MAX as usize => Err(FW_E_OVERFLOW),
            _ => Ok(bytes.div_ceil(self.page.load(Relaxed).max(1)) as u64),
        }
    }

    /// Returns the order of an alignment in bytes; 0 for less than a page.
    pub(crate) fn order_of_alignment(&self, alignment: usize) -> Order {
        Order(alignment.trailing_zeros().saturating_sub(self.shift.load(Relaxed)) as u8)
    }
}

/// Returns the code of a refused free, in terms of the address.
#[cold]
#[inline(never)]
pub(crate) fn free_error(place: &Place, arena: &Arena, error: FreeError) -> c_int {
    let is_head = |pfn| matches!(arena.state_of(pfn), FrameState::Allocated(head, _) if head == pfn);
    match error {
        // No block of that order could begin here, but one of another order does.
        FreeError::Misaligned(pfn, _) if is_head(pfn) => FW_E_WRONG_ORDER,
        FreeError::Foreign(pfn) | FreeError::Misaligned(pfn, _) => {
            let address = place.unframe(pfn);
            match arena.pfn_of(address) {
                // It begins at this address: memory that is absent.
                Some(found) if found == pfn && matches!(error, FreeError::Foreign(_)) => FW_E_FOREIGN,
                Some(_) => FW_E_MISALIGNED,
                None if address.is_null() => FW_E_NULL,
                None => FW_E_FOREIGN,
            }
        }
        error => error.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_numbers_and_back() {
        const START: usize = 0x7000_0000;
        let place = Place::nothing();
        place.set(START, 0x1000);
        let cases = [(0_usize, 0), (0x1000, 1), (0x7fff_f000, 0x7_ffff), (1, 1 << 52)];
        let pointers = cases.map(|(offset, _)| std::ptr::without_provenance_mut(START + offset));
        let numbers = cases.map(|(_, number)| Pfn(number));
        for (&pointer, &number) in pointers.iter().zip(&numbers) {
            assert_eq!(place.frame(pointer), number);
            assert_eq!(place.unframe(number), pointer);
        }
        // All of them at once, with a misaligned one and without.
        for count in [3, 4] {
            let mut pfns = [Pfn(7); 4];
            place.frames(&pointers[..count], &mut pfns[..count]);
            assert_eq!(pfns[..count], numbers[..count]);
        }
        let mut back = [MaybeUninit::uninit(); 3];
        place.pointers(&numbers, &mut back);
        for (number, (pointer, wanted)) in numbers.iter().zip(back.iter_mut().zip(&pointers)) {
            assert_eq!((&*pointer.write(*wanted), place.pointer(*number)), (wanted, *wanted));
        }
        assert!(place.frame(std::ptr::null()).0 > 1 << 40);
    }
}

//! All unsafe code of the crate: three uses of memory that the compiler cannot follow.
//!
//! | type | what it makes | why that is sound |
//! |---|---|---|
//! | [`Carver`] | descriptors in a block of bytes | the block is the carver's for good; no two parts overlap |
//! | [`PerCpuValues`] | a value for each CPU, not safe to share | its CPU alone uses it, by [`Kernel`]'s contract |
//! | [`Once`] | a value that is written once, then read | a flag orders the write before every read |
//!
//! Most descriptors are words. Every value of their bytes is valid, so they are used as they lie in the block. All
//! others are written when they are carved.
#![allow(unsafe_code, reason = "each block says why it is sound")]

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, replace};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use framewright::{CpuId, Link, Machine, Magazine};

use crate::kernel::Kernel;
use crate::words::{U8, U32, U64};

/// Alignment of each part: two cache lines, the most that a descriptor asks for.
const ALIGN: usize = 128;

/// Types whose bytes may have any values.
///
/// # Safety
/// The type is made of integers alone, without padding.
pub(crate) unsafe trait Plain {}

// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: an atomic integer in a transparent wrapper.
unsafe impl Plain for U8 {}
// SAFETY: as above.
unsafe impl Plain for U32 {}
// SAFETY: as above.
unsafe impl Plain for U64 {}
// SAFETY: two words of 32 bits.
unsafe impl<M: Machine<U32 = U32>> Plain for Link<M> {}
// SAFETY: three words of 32 bits.
unsafe impl<M: Machine<U32 = U32>> Plain for Magazine<M> {}

/// Cuts a block of bytes into parts, or measures how long a block they need.
pub(crate) struct Carver {
    /// The block from its first aligned byte; none if this only measures.
    block: Option<NonNull<u8>>,
    len: usize,
    /// Bytes that are cut already, a multiple of [`ALIGN`]; the largest number if they are more than can be.
    used: usize,
}

impl Carver {
    /// Returns a carver of `block`.
    pub(crate) fn new(block: &'static mut [u8]) -> Carver {
        let skipped = block.as_ptr().align_offset(ALIGN);
        let aligned = block.get_mut(skipped..).unwrap_or_default();
        Carver { len: aligned.len(), block: Some(NonNull::from(aligned).cast()), used: 0 }
    }

    /// Returns a carver whose parts are empty, and which counts bytes.
    pub(crate) const fn measuring() -> Carver {
        Carver { block: None, len: usize::MAX - ALIGN, used: 0 }
    }

    /// Returns whether the block was too short for some part, which is then empty.
    pub(crate) const fn is_short(&self) -> bool {
        self.used > self.len
    }

    /// Returns the length of a block, of whatever alignment, that has room for all parts so far.
    pub(crate) const fn bytes(&self) -> usize {
        self.used.saturating_add(ALIGN - 1)
    }

    /// Returns the bytes of a part that takes all of the block.
    pub(crate) const fn whole(&self) -> usize {
        self.len & !(ALIGN - 1)
    }

    /// Cuts off `count` elements of `size` bytes; none if this only measures, or the block is too short.
    // One function for all types, so that its code exists once.
    #[inline(never)]
    fn cut_bytes(&mut self, count: usize, size: usize, is_cleared: bool) -> Option<NonNull<u8>> {
        let bytes = count.saturating_mul(size);
        let end = bytes.checked_next_multiple_of(ALIGN).and_then(|bytes| self.used.checked_add(bytes));
        let start = replace(&mut self.used, end.unwrap_or(usize::MAX));
        let block = self.block.filter(|_| !self.is_short())?;
        // SAFETY: `start` is within the block, whose `len` bytes are one object.
        let part = unsafe { block.add(start) };
        if is_cleared {
            // SAFETY: so are the `bytes` bytes from there on, which are this carver's for good.
            unsafe { part.write_bytes(0, bytes) };
        }
        Some(part)
    }

    /// Cuts off `count` elements without a meaning.
    #[inline(always)]
    fn cut<T>(&mut self, count: usize, is_cleared: bool) -> &'static mut [MaybeUninit<T>] {
        const { assert!(align_of::<T>() <= ALIGN) };
        let Some(part) = self.cut_bytes(count, size_of::<T>(), is_cleared) else { return &mut [] };
        // SAFETY: the elements are within the block, whose bytes are this carver's for good. `used` only grows, so no
        // other part has them. The part is aligned to `ALIGN`, and its elements may be uninitialised.
        unsafe { core::slice::from_raw_parts_mut(part.cast().as_ptr(), count) }
    }

    /// Cuts off `count` words or records of words, cleared or with the values that their bytes have.
    #[inline(always)]
    pub(crate) fn words<T: Plain>(&mut self, count: usize, is_cleared: bool) -> &'static mut [T] {
        let part = self.cut::<T>(count, is_cleared);
        // SAFETY: the bytes came in as initialised bytes, and any are a valid `T`.
        unsafe { initialised(part) }
    }

    /// Cuts off `count` records, each of which `make` makes from its position.
    pub(crate) fn records<T>(&mut self, count: usize, make: impl Fn(usize) -> T) -> &'static mut [T] {
        let part = self.cut::<T>(count, false);
        part.iter_mut().enumerate().for_each(|(i, place)| {
            place.write(make(i));
        });
        // SAFETY: each element was just written.
        unsafe { initialised(part) }
    }

    /// Cuts off the room for a value of `bytes` bytes for each of `count` CPUs.
    pub(crate) fn room(&mut self, bytes: usize, count: usize) -> Room {
        let part = self.cut::<u8>(count.saturating_mul(bytes.saturating_add(ALIGN - 1) & !(ALIGN - 1)), false);
        Room { bytes: part.len(), start: AtomicPtr::new(part.as_mut_ptr().cast()) }
    }
}

/// Returns a part whose elements are initialised.
///
/// # Safety
/// They are.
unsafe fn initialised<T>(part: &'static mut [MaybeUninit<T>]) -> &'static mut [T] {
    // SAFETY: `MaybeUninit` changes no layout; the caller does the rest.
    unsafe { &mut *(core::ptr::from_mut(part) as *mut [T]) }
}

/// Room for the values of all CPUs, until they are made.
pub(crate) struct Room {
    /// Null once it is used.
    start: AtomicPtr<u8>,
    bytes: usize,
}

/// One value for each CPU and set of lists, in the block of the descriptors.
pub struct PerCpuValues<T, K: Kernel> {
    pub(crate) kernel: &'static K,
    /// CPUs of the configuration.
    pub(crate) cpus: usize,
    values: NonNull<Value<T>>,
    count: usize,
}

/// A value alone in its pair of cache lines: its CPU writes to it in each call.
#[repr(align(128))]
struct Value<T>(Option<T>);

impl<T, K: Kernel> PerCpuValues<T, K> {
    /// Makes `count` values in `room`, or as many as it has room for.
    pub(crate) fn in_room(
        room: &Room,
        kernel: &'static K,
        cpus: usize,
        count: usize,
        mut make: impl FnMut(CpuId) -> Option<T>,
    ) -> Self {
        const { assert!(align_of::<Value<T>>() == ALIGN) };
        let start = NonNull::new(room.start.swap(null_mut(), Ordering::Relaxed)).map(NonNull::cast::<Value<T>>);
        let fitting = room.bytes.checked_div(size_of::<Value<T>>()).unwrap_or(0);
        let count = if start.is_some() { count.min(fitting) } else { 0 };
        let values = start.unwrap_or(NonNull::dangling());
        for i in 0..count {
            // SAFETY: within the room, which is aligned as the value is, and which this call alone took.
            unsafe { values.add(i).write(Value(make(CpuId(i as u16)))) };
        }
        PerCpuValues { kernel, cpus, values, count }
    }

    /// Returns the value of a CPU and set of lists, by its number.
    #[inline(always)]
    pub(crate) fn get(&self, record: usize) -> Option<&T> {
        if record >= self.count {
            return None;
        }
        // SAFETY: written by `in_room`, for good.
        unsafe { self.values.add(record).as_ref() }.0.as_ref()
    }
}

// SAFETY: a value is used by code that is pinned to its CPU, in the context that its set of lists belongs to. By the
// contract of `Kernel` no other code runs there meanwhile. The core looks values up in no other way: by `PerCpu::with`,
// and by `Machine::with_pinned` of the machine that the values were made with, which takes the guard of a pin of it.
unsafe impl<T, K: Kernel> Sync for PerCpuValues<T, K> {}
// SAFETY: as above; the values stay where they are.
unsafe impl<T, K: Kernel> Send for PerCpuValues<T, K> {}

/// A value that is made once.
pub(crate) struct Once<T> {
    /// [`EMPTY`], [`CLAIMED`] or [`FULL`].
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

const EMPTY: u8 = 0;
/// Some caller makes the value.
const CLAIMED: u8 = 1;
const FULL: u8 = 2;

// SAFETY: the value is written by the one caller that claimed it, and afterwards only shared.
unsafe impl<T: Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) const fn new() -> Once<T> {
        Once { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Makes the value; `None` if there is one, or another caller makes it. After an error the next caller may try.
    pub(crate) fn make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Option<Result<&T, E>> {
        // ORDER: Acquire. Sees what an attempt that failed left; partner: the Release below.
        self.state.compare_exchange(EMPTY, CLAIMED, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let value = match make() {
            Ok(value) => value,
            Err(error) => {
                self.state.store(EMPTY, Ordering::Release);
                return Some(Err(error));
            }
        };
        // SAFETY: one caller at most gets here, and nobody reads before the state is `FULL`.
        unsafe { (*self.value.get()).write(value) };
        // ORDER: Release. Publishes the value; partner: the Acquire in `get`.
        self.state.store(FULL, Ordering::Release);
        self.get().map(Ok)
    }

    /// Returns the value, once there is one.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != FULL {
            return None;
        }
        // SAFETY: written before the state became `FULL`, and never again.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }
}

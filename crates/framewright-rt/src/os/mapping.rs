//! Address ranges of the process, each with one owner.
//!
//! A [`Range`] is address space that belongs to the value, and is given back when that is dropped. Every step of making
//! a mapping takes ranges apart or joins them. So at any failure the values held are exactly the mappings that exist,
//! and nothing half-mapped is left.
//!
//! A [`Mapping`] is memory between two guards. First room is reserved without access, larger than needed. The parts
//! before the aligned start and after the end are given back; then the middle becomes memory. An inaccessible page
//! stays on both sides, so that an access beyond the ends faults. Anonymous memory is made by changing the protection
//! of the room.
//!
//! Shared and huge memory needs a mapping of its own, for which the room's middle is unmapped first. Mapping over the
//! room (`MAP_FIXED`) is unsafe. After a failure the room is unmapped or not, depending on the kernel's version. Its
//! last owner could then unmap another thread's newer mapping. `MAP_FIXED_NOREPLACE` (Linux 4.17) fails if another
//! thread was faster; then new room is reserved.
//!
//! # Why the unsafe code is right
//!
//! An address range has one owner, a [`Range`], which came from `mmap` and alone unmaps it. New mappings replace none:
//! they lie where the kernel finds room, or fail. All other calls name parts of an owned range ([`Mapping::address_of`]
//! checks that). Two of them take something away from code that refers to the memory, access or contents, so these two
//! are unsafe: [`Mapping::deny`] and [`Mapping::forget`].

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};

use super::call::{Call, OsError, attempt};

/// Unit of mappings, protection and advice in bytes, as this kernel was built.
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

/// How often a room is looked for when other threads map into its middle.
const ROOMS: u32 = 16;

/// Bytes that could not be unmapped because the kernel refused twice.
static LEAKED: AtomicU64 = AtomicU64::new(0);

/// The kind of memory of a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backed<'f> {
    /// Private zeroed pages, made at the first touch.
    Anonymous,
    /// Like [`Backed::Anonymous`], but inaccessible until [`Mapping::allow`].
    Reserved,
    /// The pages of a file, shared, from a place on that is a multiple of the page.
    File(BorrowedFd<'f>, u64),
    /// Like [`Backed::File`] from its start on, but inaccessible until [`Mapping::allow`].
    ReservedFile(BorrowedFd<'f>),
    /// Private huge pages of `1 << shift` bytes out of the pool, set aside at once.
    Huge(u8),
}

/// Advice to the kernel about a range, which changes no contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    /// Use huge pages where they fit.
    HugePages,
    /// Use no huge pages: memory that is touched sparsely must not become resident in between.
    NoHugePages,
    /// Leave the range out of a fork's child.
    NotInChildren,
    /// Make every page now, so that a lack of memory is an error here and no signal later.
    Populate,
}

/// The pages that forget their contents, which read as zero afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forget {
    /// Private pages.
    Private,
    /// A file's pages, in every process.
    Shared,
}

/// Owned address space.
#[derive(Debug)]
struct Range {
    start: usize,
    len: usize,
}

impl Range {
    /// Inaccessible address space of `len` bytes.
    fn reserve(len: usize) -> Result<Range, OsError> {
        map(None, len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE, None)
    }

    /// Memory at an address that nothing is mapped at; none if something is by now.
    fn at(start: usize, len: usize, backed: Backed<'_>) -> Result<Option<Range>, OsError> {
        let usable = ProtFlags::READ | ProtFlags::WRITE;
        let (access, flags, file) = match backed {
            Backed::Anonymous => (usable, MapFlags::PRIVATE | MapFlags::NORESERVE, None),
            Backed::Reserved => (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE, None),
            Backed::File(file, from) => (usable, MapFlags::SHARED | MapFlags::NORESERVE, Some((file, from))),
            Backed::ReservedFile(file) => (ProtFlags::empty(), MapFlags::SHARED | MapFlags::NORESERVE, Some((file, 0))),
            Backed::Huge(shift) => {
                let size = MapFlags::from_bits_retain(u32::from(shift) << libc::MAP_HUGE_SHIFT);
                (usable, MapFlags::PRIVATE | MapFlags::HUGETLB | size, None)
            }
        };
        match map(Some(start), len, access, flags, file) {
            // A kernel before 4.17 takes the address as a hint.
            Ok(range) => Ok((range.start == start).then_some(range)),
            Err(error) if error.errno == libc::EEXIST => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the first `len` bytes back.
    fn trim_front(&mut self, len: usize) -> Result<(), OsError> {
        unmap(self.start, len)?;
        self.start += len;
        self.len -= len;
        Ok(())
    }

    /// Gives all but the first `len` bytes back.
    fn trim_back(&mut self, len: usize) -> Result<(), OsError> {
        unmap(self.start + len, self.len - len)?;
        self.len = len;
        Ok(())
    }

    /// Gives `len` bytes from `at` on back, and keeps the parts on both sides.
    fn open(mut self, at: usize, len: usize) -> Result<(Range, Range), OsError> {
        unmap(self.start + at, len)?;
        let behind = Range { start: self.start + at + len, len: self.len - at - len };
        self.len = at;
        Ok((self, behind))
    }

    /// One range out of two neighbours.
    fn join(mut self, mut next: Range) -> Range {
        debug_assert_eq!(self.start + self.len, next.start);
        self.len += std::mem::take(&mut next.len);
        self
    }
}

/// Maps a range where nothing is mapped: at an address, or wherever the kernel finds room.
fn map(
    start: Option<usize>,
    len: usize,
    access: ProtFlags,
    flags: MapFlags,
    file: Option<(BorrowedFd<'_>, u64)>,
) -> Result<Range, OsError> {
    let address = std::ptr::without_provenance_mut(start.unwrap_or(0));
    let flags = if start.is_some() { flags | MapFlags::FIXED_NOREPLACE } else { flags };
    // SAFETY: a mapping at an address of the kernel's choice touches no other. At a given one the flag makes the call
    // fail rather than replace mappings of others.
    let map = || unsafe {
        match file {
            Some((file, from)) => mm::mmap(address, len, access, flags, file, from),
            None => mm::mmap_anonymous(address, len, access, flags),
        }
    };
    Ok(Range { start: attempt(Call::Mmap, len, map)?.expose_provenance(), len })
}

/// Unmaps a range that the caller owns.
fn unmap(start: usize, len: usize) -> Result<(), OsError> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: the caller owns these addresses and forgets them; no pointer into them is used any more.
    attempt(Call::Munmap, len, || unsafe { mm::munmap(std::ptr::without_provenance_mut(start), len) })
}

impl Drop for Range {
    fn drop(&mut self) {
        // A refusal is possible in theory, when the number of mappings is at its limit and one would become two.
        if unmap(self.start, self.len).is_err() && unmap(self.start, self.len).is_err() {
            LEAKED.fetch_add(self.len as u64, Ordering::Relaxed);
        }
    }
}

/// Memory between two guard pages; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// With the guards.
    _range: Range,
}

// SAFETY: a mapping is an address range of the process, which every thread may use; it hands out no reference itself.
unsafe impl Send for Mapping {}
// SAFETY: as above; all its methods are calls to the kernel, which does its own locking.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes of memory at a multiple of `align`, a power of two; both multiples of the page.
    pub(crate) fn new(backed: Backed<'_>, len: usize, align: usize) -> Result<Mapping, OsError> {
        let page = page_size();
        let too_large = OsError { call: Call::Mmap, bytes: len as u64, errno: libc::ENOMEM };
        let len = len.checked_next_multiple_of(page).ok_or(too_large)?;
        let align = align.max(page);
        let room = len.checked_add(page + align).ok_or(too_large)?;
        for _ in 0..ROOMS {
            let mut range = Range::reserve(room)?;
            let start = (range.start + page).next_multiple_of(align);
            range.trim_front(start - page - range.start)?;
            range.trim_back(len + 2 * page)?;
            let range = match backed {
                Backed::Anonymous => {
                    protect(start, len, MprotectFlags::READ | MprotectFlags::WRITE)?;
                    range
                }
                Backed::Reserved => range,
                Backed::File(..) | Backed::ReservedFile(_) | Backed::Huge(_) => {
                    let (low, high) = range.open(page, len)?;
                    let Some(middle) = Range::at(start, len, backed)? else { continue };
                    low.join(middle).join(high)
                }
            };
            if let Some(pointer) = NonNull::new(std::ptr::with_exposed_provenance_mut(start)) {
                return Ok(Mapping { start: pointer, len, _range: range });
            }
        }
        Err(OsError { errno: libc::EEXIST, ..too_large })
    }

    /// Its first byte.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its size in bytes, without guards.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Makes `len` bytes from `at` on readable and writable.
    pub(crate) fn allow(&self, at: usize, len: usize) -> Result<(), OsError> {
        protect(self.address_of(at, len), len, MprotectFlags::READ | MprotectFlags::WRITE)
    }

    /// Makes `len` bytes from `at` on inaccessible.
    ///
    /// # Safety
    /// There is no reference to them.
    pub(crate) unsafe fn deny(&self, at: usize, len: usize) -> Result<(), OsError> {
        protect(self.address_of(at, len), len, MprotectFlags::empty())
    }

    /// The address of `len` bytes from `at` on.
    fn address_of(&self, at: usize, len: usize) -> usize {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "a range outside of the mapping");
        self.start.as_ptr().addr() + at
    }

    /// Advises the kernel about `len` bytes from `at` on.
    pub(crate) fn advise(&self, at: usize, len: usize, advice: Advice) -> Result<(), OsError> {
        let advice = match advice {
            Advice::HugePages => mm::Advice::LinuxHugepage,
            Advice::NoHugePages => mm::Advice::LinuxNoHugepage,
            Advice::NotInChildren => mm::Advice::LinuxDontFork,
            Advice::Populate => mm::Advice::LinuxPopulateWrite,
        };
        advise(self.address_of(at, len), len, advice)
    }

    /// Makes the kernel forget the contents of `len` bytes from `at` on.
    ///
    /// # Safety
    /// There is no reference to them.
    pub(crate) unsafe fn forget(&self, at: usize, len: usize, pages: Forget) -> Result<(), OsError> {
        let advice = match pages {
            Forget::Private => mm::Advice::LinuxDontNeed,
            Forget::Shared => mm::Advice::LinuxRemove,
        };
        advise(self.address_of(at, len), len, advice)
    }
}

/// Advises the kernel about a range that the caller owns, and of which it answers for the contents.
fn advise(start: usize, len: usize, advice: mm::Advice) -> Result<(), OsError> {
    let address = std::ptr::without_provenance_mut(start);
    // SAFETY: the caller owns the range; advice that changes contents comes from `Mapping::forget` alone.
    attempt(Call::Madvise, len, || unsafe { mm::madvise(address, len, advice) })
}

/// Changes the access to a range that the caller owns.
fn protect(start: usize, len: usize, access: MprotectFlags) -> Result<(), OsError> {
    let address = std::ptr::without_provenance_mut(start);
    // SAFETY: the caller owns the range, and no code uses it at this moment.
    attempt(Call::Mprotect, len, || unsafe { mm::mprotect(address, len, access) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::{Faults, sealed_memfd};

    const PAGE: usize = 4096;

    /// Whether some line of the process' map covers the address, and its access.
    fn access(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let parse = |text| usize::from_str_radix(text, 16).unwrap();
            (parse(start)..parse(end)).contains(&address).then(|| rest[..4].to_string())
        })
    }

    #[test]
    fn memory_lies_aligned_between_guards() {
        let file = sealed_memfd("framewright-test", 1 << 20).unwrap();
        for backed in [Backed::Anonymous, Backed::File(std::os::fd::AsFd::as_fd(&file), 0)] {
            for align in [1, PAGE, 1 << 21, 1 << 30] {
                let mapping = Mapping::new(backed, 1 << 20, align).unwrap();
                let start = mapping.start().as_ptr().addr();
                assert!(start.is_multiple_of(align));
                assert_eq!(&access(start).unwrap()[..2], "rw");
                assert_eq!(&access(start + mapping.len() - 1).unwrap()[..2], "rw");
                for guard in [start - 1, start + mapping.len()] {
                    assert_eq!(access(guard).as_deref(), Some("---p"));
                }
            }
        }
    }

    #[test]
    fn reserved_memory_is_allowed_and_denied_in_parts() {
        let mapping = Mapping::new(Backed::Reserved, 4 * PAGE, PAGE).unwrap();
        let start = mapping.start().as_ptr().addr();
        let accesses = || (0..4).map(|page| access(start + page * PAGE).unwrap()).collect::<Vec<_>>();
        assert_eq!(accesses(), ["---p"; 4]);
        mapping.allow(PAGE, 2 * PAGE).unwrap();
        assert_eq!(accesses(), ["---p", "rw-p", "rw-p", "---p"]);
        // SAFETY: no code refers to it.
        unsafe { mapping.deny(2 * PAGE, PAGE).unwrap() };
        assert_eq!(accesses(), ["---p", "rw-p", "---p", "---p"]);
    }

    #[test]
    fn no_such_room_is_an_error() {
        for len in [usize::MAX - PAGE, usize::MAX / 2, 1 << 48] {
            let error = Mapping::new(Backed::Anonymous, len & !(PAGE - 1), PAGE).unwrap_err();
            assert_eq!((error.call, error.errno), (Call::Mmap, libc::ENOMEM));
        }
    }

    #[test]
    fn a_room_taken_by_others_is_looked_for_anew() {
        let file = sealed_memfd("framewright-test", 1 << 20).unwrap();
        let file = std::os::fd::AsFd::as_fd(&file);
        let faults = Faults::nth_of(Call::Mmap, 2, libc::EEXIST);
        assert!(Mapping::new(Backed::File(file, 0), 1 << 20, PAGE).is_ok());
        assert_eq!(faults.calls(), 4);
        let faults = Faults::always(Call::Mmap, libc::EEXIST);
        assert_eq!(Mapping::new(Backed::File(file, 0), 1 << 20, PAGE).unwrap_err().errno, libc::EEXIST);
        drop(faults);
    }
}

//! Handles: what a C program holds of an arena and of a local handle, and how a wrong one is recognised.
//!
//! A handle is the address of a record in a static table. So each call can tell a handle from any other pointer without
//! following it: the address must lie in the table, at the beginning of a record. One subtraction, one rotation and one
//! comparison answer that for NULL, for a pointer into the middle, and for a pointer to anything else. A record says
//! whether it is in use. It is used again only after all others, so a handle that was given back is recognised for as
//! long as possible.
//!
//! | handle | record | records | in use if |
//! |---|---|---|---|
//! | [`fw_arena`] | [`ArenaRecord`], 64 bytes | 1,024 | its allocator is not null |
//! | [`fw_local`] | [`LocalRecord`], 512 bytes | 4,096 | its thread is not 0 |
//!
//! A local handle is used by its thread alone. Its record has the thread's mark, which each call compares. When the
//! thread exits, its local handles are closed: another thread may get the same mark.
//!
//! Cost: six to eight instructions a call; tables of 2.1 MiB, of which only used pages take memory.
//!
//! Rejected: pointers to the heap with a magic number. They must be followed before they can be checked, and freed
//! memory may still hold the number. Numbers as handles: a C compiler would not tell an arena from a local handle.
#![allow(unsafe_code, reason = "records are shared between threads by protocols that each block states")]
#![allow(non_camel_case_types, reason = "names of the C interface")]

use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use framewright::{Allocator, FrameState, FreeError, Local, Order, Pfn};
use framewright_ffi::numbers::{FW_E_ALREADY_FREE, FW_E_HANDLES, FW_E_NO_CPU, FW_E_OFFLINE, FW_E_QUARANTINED};
use framewright_rt::{Arena, Export, Native, thread_mark};

use crate::place::{Place, free_error};

/// An arena: memory with an allocator over it.
///
/// Any thread may use it. It lives from `fw_arena_create` to `fw_arena_destroy`.
pub struct fw_arena {
    _private: [u8; 0],
}

/// An arena as seen by one thread that makes many calls in a row.
///
/// It lives from `fw_local_open` to `fw_local_close`, or until its thread exits.
pub struct fw_local {
    _private: [u8; 0],
}

/// The allocator of an arena.
pub(crate) type Pages = Allocator<'static, Native>;
/// A pinned CPU of it.
pub(crate) type PinnedCpu = Local<'static, 'static, Native>;

/// Arenas that a process can have at once.
const ARENAS: usize = 1024;
/// Local handles that a process can have at once.
const LOCALS: usize = 4096;

/// What a call needs to know of an arena.
#[repr(C, align(64))]
pub(crate) struct ArenaRecord {
    /// Null if there is no arena here. Written last by [`ArenaRecord::fill`].
    pages: AtomicPtr<Pages>,
    place: Place,
    is_taken: AtomicBool,
    arena: AtomicPtr<Kept>,
    /// Open local handles.
    locals: AtomicUsize,
}

/// A local handle's thread and CPU.
#[repr(C, align(512))]
pub(crate) struct LocalRecord {
    /// The mark of the thread; 0 if there is no local handle here.
    thread: AtomicUsize,
    place: Place,
    is_taken: AtomicBool,
    arena: AtomicPtr<ArenaRecord>,
    /// Initialised while `thread` is not 0, and used by that thread alone.
    cpu: UnsafeCell<MaybeUninit<PinnedCpu>>,
}

// Powers of two, so that a rotation divides by them.
const _: () = assert!(size_of::<ArenaRecord>() == 64 && size_of::<LocalRecord>() == 512);

// SAFETY: the CPU is only used by the thread that `thread` names; all else are atomics.
unsafe impl Sync for LocalRecord {}

static ARENA_RECORDS: [ArenaRecord; ARENAS] = [const { ArenaRecord::nothing() }; ARENAS];
static LOCAL_RECORDS: [LocalRecord; LOCALS] = [const { LocalRecord::nothing() }; LOCALS];
/// Where the search for a record that is not in use begins.
static NEXT_ARENA: AtomicUsize = AtomicUsize::new(0);
static NEXT_LOCAL: AtomicUsize = AtomicUsize::new(0);

/// Returns the record that a handle is the address of; `None` for any other pointer.
#[inline(always)]
fn record<T, const N: usize>(table: &'static [T; N], handle: *const T) -> Option<&'static T> {
    let offset = handle.addr().wrapping_sub(table.as_ptr().addr());
    // What is no multiple of a record's size has its low bits at the top now, and is too large.
    let index = offset.rotate_right(size_of::<T>().trailing_zeros());
    // SAFETY: the address is that of a record in the table, which is static.
    (index < N).then(|| unsafe { &*handle })
}

/// Takes the next record that is not in use; `None` if all are.
fn take<T, const N: usize>(
    table: &'static [T; N],
    next: &AtomicUsize,
    is_taken: impl Fn(&T) -> &AtomicBool,
) -> Option<&'static T> {
    let start = next.load(Relaxed);
    let numbers = (0..N).map(|step| start.wrapping_add(step) % N);
    let may_take = |record: &T| is_taken(record).compare_exchange(false, true, Acquire, Relaxed).is_ok();
    let (number, taken) = numbers.map(|number| (number, &table[number])).find(|(_, record)| may_take(record))?;
    next.store(number + 1, Relaxed);
    Some(taken)
}

impl ArenaRecord {
    const fn nothing() -> ArenaRecord {
        ArenaRecord {
            pages: AtomicPtr::new(null_mut()),
            place: Place::nothing(),
            is_taken: AtomicBool::new(false),
            arena: AtomicPtr::new(null_mut()),
            locals: AtomicUsize::new(0),
        }
    }

    /// Returns the record of a living arena; `None` for any other pointer.
    #[inline(always)]
    pub(crate) fn of(handle: *const fw_arena) -> Option<Living<'static>> {
        let record = record(&ARENA_RECORDS, handle.cast::<ArenaRecord>())?;
        let pages = NonNull::new(record.pages.load(Acquire))?;
        Some(Living { record, pages })
    }

    /// Takes a record for an arena that will be built; `None` if all are in use.
    pub(crate) fn take() -> Option<Taken> {
        take(&ARENA_RECORDS, &NEXT_ARENA, |record| &record.is_taken).map(Taken)
    }

    /// What a living arena is.
    fn kept(&self) -> &Kept {
        // SAFETY: the arena lives, so `fill` has put it there, and it is taken away when no call uses it any more.
        unsafe { &*self.arena.load(Relaxed) }
    }

    fn arena(&self) -> &Arena {
        &self.kept().arena
    }
}

/// An arena and what ends with it.
struct Kept {
    /// Dropped first.
    exports: Mutex<Vec<Export>>,
    arena: Arena,
}

/// A record without an arena yet; given back when dropped.
pub(crate) struct Taken(&'static ArenaRecord);

impl Taken {
    /// Puts an arena into the record; returns its handle.
    pub(crate) fn fill(self, arena: Arena) -> *mut fw_arena {
        let record = self.0;
        std::mem::forget(self);
        let kept = Box::new(Kept { exports: Mutex::default(), arena });
        let arena = &kept.arena;
        let start = arena.address(Pfn(0)).map_or(0, |start| start.addr().get());
        record.place.set(start, arena.page_size());
        // SAFETY: the calls of this crate free what the caller owns, by the promise that C programs make.
        let pages = std::ptr::from_ref(unsafe { arena.allocator() }).cast_mut();
        record.arena.store(Box::into_raw(kept), Relaxed);
        record.pages.store(pages, Release);
        std::ptr::from_ref(record).cast_mut().cast()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Release);
    }
}

/// A living arena.
///
/// It lives at least as long as the call, because a C program destroys no arena that another thread is using.
#[derive(Clone, Copy)]
pub(crate) struct Living<'c> {
    record: &'c ArenaRecord,
    pages: NonNull<Pages>,
}

impl<'c> Living<'c> {
    /// Its allocator.
    #[inline(always)]
    pub(crate) fn pages(self) -> &'c Pages {
        // SAFETY: not null, so `fill` has put it there, and the arena lives during the call.
        unsafe { self.pages.as_ref() }
    }

    /// The arena itself.
    pub(crate) fn arena(self) -> &'c Arena {
        self.record.arena()
    }

    /// Keeps an export as long as the arena.
    pub(crate) fn keep(self, export: Export) {
        self.record.kept().exports.lock().unwrap_or_else(PoisonError::into_inner).push(export);
    }

    /// Where its frames are.
    #[inline(always)]
    pub(crate) fn place(self) -> &'c Place {
        &self.record.place
    }

    /// The code of a refused free.
    pub(crate) fn free_error(self, error: FreeError) -> c_int {
        free_error(self.place(), self.arena(), error)
    }

    /// The allocated block that a frame is a part of: its first frame and its order.
    ///
    /// # Errors
    /// The frame is not allocated.
    pub(crate) fn block_around(self, pfn: Pfn) -> Result<(Pfn, Order), c_int> {
        match self.pages().state_settled(pfn) {
            FrameState::Allocated(head, order) => Ok((head, order)),
            FrameState::Free(..) | FrameState::Pcp(..) => Err(FW_E_ALREADY_FREE),
            FrameState::Offline(..) => Err(FW_E_OFFLINE),
            FrameState::Quarantined(..) => Err(FW_E_QUARANTINED),
            FrameState::Hole => Err(self.free_error(FreeError::Foreign(pfn))),
        }
    }

    /// Open local handles.
    pub(crate) fn locals(self) -> usize {
        self.record.locals.load(Acquire)
    }

    /// Ends the arena, unless another call has ended it. Returns whether this call has.
    ///
    /// No call uses it, no local handle is open, and no allocated block is needed any more.
    pub(crate) fn end(self) -> bool {
        let record = self.record;
        if record.pages.compare_exchange(self.pages.as_ptr(), null_mut(), Acquire, Relaxed).is_err() {
            return false;
        }
        // SAFETY: from a box, by `fill`; the exchange has succeeded for this call alone.
        drop(unsafe { Box::from_raw(record.arena.swap(null_mut(), Relaxed)) });
        record.is_taken.store(false, Release);
        true
    }
}

impl LocalRecord {
    const fn nothing() -> LocalRecord {
        LocalRecord {
            thread: AtomicUsize::new(0),
            place: Place::nothing(),
            is_taken: AtomicBool::new(false),
            arena: AtomicPtr::new(null_mut()),
            cpu: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Returns the open local handle of this thread; `None` for any other pointer.
    #[inline(always)]
    pub(crate) fn of(handle: *const fw_local) -> Option<Open<'static>> {
        let record = record(&LOCAL_RECORDS, handle.cast::<LocalRecord>())?;
        (record.thread.load(Relaxed) == thread_mark()).then_some(Open(record))
    }

    /// Whether the pointer is the handle of some thread.
    pub(crate) fn is_open(handle: *const fw_local) -> bool {
        record(&LOCAL_RECORDS, handle.cast::<LocalRecord>()).is_some_and(|record| record.thread.load(Relaxed) != 0)
    }

    /// Opens a local handle of an arena for this thread.
    ///
    /// # Errors
    /// All records are in use; or the thread exits or has no CPU of the allocator.
    pub(crate) fn open(living: Living<'_>) -> Result<*mut fw_local, c_int> {
        let record = take(&LOCAL_RECORDS, &NEXT_LOCAL, |record| &record.is_taken).ok_or(FW_E_HANDLES)?;
        let noted = OPENED.try_with(|opened| opened.0.borrow_mut().push(record)).is_ok();
        // SAFETY: the arena outlives its local handles: it is not destroyed while one is open.
        let pages: &'static Pages = unsafe { living.pages.as_ref() };
        let Some(cpu) = noted.then(|| pages.local()).flatten() else {
            let _ = OPENED.try_with(|opened| opened.0.borrow_mut().retain(|open| !std::ptr::eq(*open, record)));
            record.is_taken.store(false, Release);
            return Err(FW_E_NO_CPU);
        };
        living.record.locals.fetch_add(1, Relaxed);
        record.place.set_as(living.place());
        record.arena.store(std::ptr::from_ref(living.record).cast_mut(), Relaxed);
        // SAFETY: `take` gave the record to this thread alone.
        unsafe { (*record.cpu.get()).write(cpu) };
        record.thread.store(thread_mark(), Release);
        Ok(std::ptr::from_ref(record).cast_mut().cast())
    }

    /// Closes the local handle of this thread.
    fn close(&self) {
        self.thread.store(0, Relaxed);
        // SAFETY: initialised, because `thread` was not 0. It is this thread's, and no call uses it any more.
        unsafe { (*self.cpu.get()).assume_init_drop() };
        // SAFETY: a record of the static table, stored by `open`.
        let arena = unsafe { &*self.arena.load(Relaxed) };
        arena.locals.fetch_sub(1, Release);
        self.is_taken.store(false, Release);
    }
}

/// An open local handle of the running thread.
#[derive(Clone, Copy)]
pub(crate) struct Open<'c>(&'c LocalRecord);

impl<'c> Open<'c> {
    /// Its CPU.
    #[inline(always)]
    pub(crate) fn cpu(self) -> &'c PinnedCpu {
        // SAFETY: initialised, because the record has this thread's mark. The thread alone uses and drops it.
        unsafe { (*self.0.cpu.get()).assume_init_ref() }
    }

    /// Where the arena's frames are.
    #[inline(always)]
    pub(crate) fn place(self) -> &'c Place {
        &self.0.place
    }

    /// The code of a refused free.
    pub(crate) fn free_error(self, error: FreeError) -> c_int {
        // SAFETY: a record of the static table, stored by `open`.
        let arena = unsafe { &*self.0.arena.load(Relaxed) }.arena();
        free_error(self.place(), arena, error)
    }

    /// Closes it.
    pub(crate) fn close(self) {
        let _ = OPENED.try_with(|opened| opened.0.borrow_mut().retain(|open| !std::ptr::eq(*open, self.0)));
        self.0.close();
    }
}

/// The local handles that a thread has open; closed when it exits.
struct Opened(RefCell<Vec<&'static LocalRecord>>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(LocalRecord::close);
    }
}

thread_local! {
    static OPENED: Opened = const { Opened(RefCell::new(Vec::new())) };
}

//! Arenas: describing, creating, destroying them, and the calls about one as a whole.
//!
//! An arena with allocated blocks is not destroyed unless the program says so. Otherwise a forgotten block would become
//! a pointer to nothing, or to other memory. An arena with open local handles is never destroyed: their threads would
//! use descriptors that are gone.
//!
//! Rejected: destroying at once, as pools of bytes do. They cannot know what is still in use; a page allocator can.
#![allow(unsafe_code, reason = "pointers of C programs are used through `boundary.rs`, by their caller's promise")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

use framewright::PfnRange;
use framewright_ffi::boundary::{InArray, Out, Text, clear_sized, read_sized};
use framewright_ffi::error::message;
use framewright_ffi::numbers::{
    FW_E_ARENA, FW_E_FLAGS, FW_E_HANDLES, FW_E_IN_USE, FW_E_MECHANISMS, FW_E_NULL, FW_E_ORDER, FW_E_OS, FW_E_OVERFLOW,
    FW_E_UNSUPPORTED,
};
use framewright_ffi::request::order_of;
use framewright_rt::{Arena, ArenaBuilder, ArenaError, Pages};

use crate::boundary::{guarded, living};
use crate::errno;
use crate::error::code_of;
use crate::handles::{ArenaRecord, fw_arena};
use crate::options::{FW_DESTROY_BLOCKS, fw_options};

/// Prepares options that ask for the default everywhere.
///
/// @param size  `sizeof(fw_options)`.
/// @return 0; FW_E_NULL, FW_E_UNALIGNED; FW_E_STRUCT if the size cannot be that of the structure.
///
/// Threads: any.
///
/// # Safety
/// `size` bytes can be written to `options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_options_init(options: *mut fw_options, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { clear_sized(options, size) })
}

/// Creates an arena and stores its handle in `*arena`.
///
/// @param options  See `fw_options`. The library keeps nothing of it but `memory`.
/// @return 0; or an error, and then `*arena` is unchanged and nothing stays mapped. `options->message` gets the reason
///         in words. FW_E_STRUCT, FW_E_OPTION, FW_E_MECHANISMS, FW_E_NODE, FW_E_NULL, FW_E_UNALIGNED, FW_E_OVERFLOW,
///         FW_E_HANDLES if the process has 1,024 arenas, and those from FW_E_OS on. Other calls return of these only
///         FW_E_OS and FW_E_UNSUPPORTED.
///
/// Threads: any. Ownership: the caller destroys the arena by `fw_arena_destroy`.
///
/// # Safety
/// The options can be read, with what they point to, and `message` written. A pointer can be written to `arena`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_create(options: *const fw_options, arena: *mut *mut fw_arena) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let options = unsafe { read_sized(options, fw_options::DEFAULT) }?;
        // SAFETY: the caller's promise.
        let told = unsafe { Text::new(options.message, options.message_size) }?;
        // SAFETY: the caller's promise.
        let created = unsafe { create(&options, arena) };
        told.put(created.as_ref().err().map_or("", |(_, reason)| reason));
        created.map_err(|(code, _)| code)
    })
}

/// # Safety
/// As [`fw_arena_create`].
unsafe fn create(options: &fw_options, arena: *mut *mut fw_arena) -> Result<(), (c_int, String)> {
    let told = |code: c_int| (code, message(code).to_string_lossy().into_owned());
    let wrong = |(code, field): (c_int, &str)| (code, format!("{field}: {}", message(code).to_string_lossy()));
    // SAFETY: the caller's promise.
    let arena = unsafe { Out::new(arena) }.map_err(told)?;
    // SAFETY: the caller's promise.
    let nodes = unsafe { InArray::new(options.nodes, options.node_count) }.map_err(|code| wrong((code, "nodes")))?;
    // SAFETY: not null, and a text by the caller's promise.
    let text = (!options.mechanisms.is_null()).then(|| unsafe { CStr::from_ptr(options.mechanisms) });
    let text = text.map(|text| text.to_str().map_err(|_| wrong((FW_E_MECHANISMS, "mechanisms")))).transpose()?;
    let builder = options.builder(nodes.values(), text).map_err(wrong)?;
    let record = ArenaRecord::take().ok_or_else(|| told(FW_E_HANDLES))?;
    // SAFETY: the caller's promise about `memory`.
    arena.put(record.fill(unsafe { build(builder, options.memory, options.bytes) }?));
    Ok(())
}

/// # Safety
/// As [`ArenaBuilder::build_in`], if the memory is not NULL.
unsafe fn build(builder: ArenaBuilder, memory: *mut c_void, bytes: u64) -> Result<Arena, (c_int, String)> {
    let told = |error: ArenaError| (code_of(&error), error.to_string());
    let Some(memory) = NonNull::new(memory.cast::<u8>()) else { return builder.build().map_err(told) };
    let is_room = |bytes: &usize| *bytes <= isize::MAX as usize && memory.addr().get().checked_add(*bytes).is_some();
    let Some(len) = usize::try_from(bytes).ok().filter(is_room) else {
        return Err((FW_E_OVERFLOW, format!("bytes: no {bytes} bytes can begin at the address of the memory")));
    };
    // SAFETY: the caller's promise.
    unsafe { builder.build_in(NonNull::slice_from_raw_parts(memory, len)) }.map_err(told)
}

/// Destroys an arena and unmaps its memory, unless the program handed that in.
///
/// @param flags  0, or FW_DESTROY_BLOCKS to free the blocks that are still allocated.
/// @return 0; FW_E_IN_USE if blocks are allocated and the flag is not set, or if local handles are open: nothing has
///         changed then, and `allocated` and `locals` of `fw_stats` say which; FW_E_ARENA if it was destroyed before;
///         FW_E_FLAGS.
///
/// Threads: no other thread uses the arena during the call or after it.
///
/// # Safety
/// No other call uses the arena. With FW_DESTROY_BLOCKS, no block of it is used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_destroy(arena: *mut fw_arena, flags: u32) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        if flags & !FW_DESTROY_BLOCKS != 0 {
            return Err(FW_E_FLAGS);
        }
        let keeps_blocks = flags & FW_DESTROY_BLOCKS == 0 && living.arena().stats().allocated != 0;
        if keeps_blocks || living.locals() != 0 {
            return Err(FW_E_IN_USE);
        }
        if living.end() { Ok(()) } else { Err(FW_E_ARENA) }
    })
}

/// Finds the smallest order whose blocks hold `bytes` bytes.
///
/// @return 0; FW_E_ORDER if the arena's largest block is smaller; FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_ARENA, FW_E_NULL,
///         FW_E_UNALIGNED.
///
/// Threads: any.
///
/// # Safety
/// A number can be written to `order`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_order(arena: *mut fw_arena, bytes: usize, order: *mut c_uint) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let order = unsafe { Out::new(order) }?;
        living.place().frames_of(bytes)?;
        order.put(living.arena().order_of(bytes).ok_or(FW_E_ORDER)?.0.into());
        Ok(())
    })
}

/// Drains the lists of all CPUs to the zones.
///
/// @param pages  Where the number of drained pages is stored; NULL for nowhere.
/// @return 0; FW_E_ARENA, FW_E_UNALIGNED.
///
/// Threads: any.
///
/// # Safety
/// A number can be written to `pages`, or it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_drain(arena: *mut fw_arena, pages: *mut u64) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let pages = unsafe { Out::optional(pages) }?;
        let drained = living.arena().drain();
        if let Some(pages) = pages {
            pages.put(drained);
        }
        Ok(())
    })
}

/// Gives the memory of free blocks back to the operating system.
///
/// It reads as zero when it is used again. Each block costs a system call.
///
/// @param order  Smallest order of blocks to give back; at least the pageblock's (2 MiB), whatever is asked for.
/// @param bytes  Where the size of those blocks is stored; NULL for nowhere.
/// @return 0; FW_E_UNSUPPORTED for huge pages and memory that was handed in; FW_E_OS; FW_E_ARENA, FW_E_UNALIGNED.
///
/// Threads: any.
///
/// # Safety
/// A number can be written to `bytes`, or it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_trim(arena: *mut fw_arena, order: c_uint, bytes: *mut u64) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { Out::optional(bytes) }?;
        let trimmed = living.arena().trim(order_of(order)).map_err(|error| code_of(&error))?;
        if let Some(bytes) = bytes {
            bytes.put(trimmed.bytes);
        }
        Ok(())
    })
}

/// Grows an arena that was created with `limit_bytes`.
///
/// A request that may reclaim and finds no memory grows the arena by itself.
///
/// @param bytes  Bytes that shall come, rounded up to whole largest blocks.
/// @param came   Where the bytes that came are stored, perhaps fewer; NULL for nowhere. Unchanged after an error.
/// @return 0; FW_E_AT_LIMIT; FW_E_FIXED_SIZE; FW_E_OS; FW_E_NO_CPU in a fork's child, FW_E_IN_INTERRUPT; FW_E_ARENA,
///         FW_E_UNALIGNED.
///
/// Threads: any.
///
/// # Safety
/// A number can be written to `came`, or it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_grow(arena: *mut fw_arena, bytes: u64, came: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { resize(arena, came, |arena| arena.grow(bytes)) })
}

/// Shrinks an arena that was created with `limit_bytes`: whole largest blocks that are free go.
///
/// Their memory is given back to the operating system, and faults when it is touched. Memory that was handed in stays
/// as it is. The first largest block of each node stays.
///
/// @param bytes  Bytes that shall go, rounded up to whole largest blocks.
/// @param gone   Where the bytes that went are stored, perhaps fewer or 0; NULL for nowhere. Unchanged after an error.
/// @return 0; FW_E_FIXED_SIZE; FW_E_OS; FW_E_NO_CPU in a fork's child, FW_E_IN_INTERRUPT; FW_E_ARENA, FW_E_UNALIGNED.
///
/// Threads: any.
///
/// # Safety
/// A number can be written to `gone`, or it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_shrink(arena: *mut fw_arena, bytes: u64, gone: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { resize(arena, gone, |arena| arena.shrink(bytes)) })
}

/// # Safety
/// A number can be written to `bytes`, or it is NULL.
unsafe fn resize(
    arena: *mut fw_arena,
    bytes: *mut u64,
    change: impl FnOnce(&Arena) -> Result<u64, ArenaError>,
) -> Result<(), c_int> {
    let living = living(arena)?;
    // SAFETY: the caller's promise.
    let bytes = unsafe { Out::optional(bytes) }?;
    let changed = change(living.arena()).map_err(|error| code_of(&error))?;
    if let Some(bytes) = bytes {
        bytes.put(changed);
    }
    Ok(())
}

/// Gives the contents of an allocated block back to the operating system; it reads as zero afterwards.
///
/// @return 0; FW_E_UNSUPPORTED as of `fw_arena_trim`; FW_E_OS; or an error as of `fw_free`.
///
/// Threads: any. Ownership: the caller still owns the block.
///
/// # Safety
/// The caller owns the block, if it is allocated, and no other thread uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_discard(arena: *mut fw_arena, block: *mut c_void, order: c_uint) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        let (pfn, order) = (living.place().frame(block), order_of(order));
        if order > living.arena().report().max_order {
            return Err(FW_E_ORDER);
        }
        // SAFETY: the caller owns the block, and `into_raw` below leaves it to the caller.
        let owned = unsafe { Pages::from_raw(living.arena(), pfn, order) };
        let mut owned = owned.map_err(|error| living.free_error(error))?;
        let discarded = owned.discard();
        owned.into_raw();
        discarded.map_err(|error| code_of(&error))
    })
}

/// Gives the contents of `bytes` bytes from `start` on back to the operating system; they read as zero afterwards.
///
/// They may be parts of blocks and ranges. The pages stay allocated.
///
/// @param start  Address of a page.
/// @param bytes  Rounded up to whole pages.
/// @return 0; FW_E_UNSUPPORTED as of `fw_arena_trim`; FW_E_OS; FW_E_ZERO_SIZE, FW_E_OVERFLOW; or an error as of
///         `fw_free` if one of the pages is not allocated, and then nothing has changed.
///
/// Threads: any. Ownership: the caller still owns the pages.
///
/// # Safety
/// The caller owns the pages, as far as they are allocated, and no other thread uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_discard_range(arena: *mut fw_arena, start: *mut c_void, bytes: usize) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        let (start, frames) = (living.place().frame(start), living.place().frames_of(bytes)?);
        let range = PfnRange { start, end: start.add(frames) };
        let mut next = start;
        while next < range.end {
            let (head, order) = living.block_around(next)?;
            next = head.add(order.frames());
        }
        // SAFETY: the caller owns the pages, and uses them by address alone.
        unsafe { living.arena().discard(range) }.map_err(|error| code_of(&error))
    })
}

/// Returns the file of an arena in a memfd, for another process to map.
///
/// @return A file descriptor, which is the arena's and closed with it; or FW_E_UNSUPPORTED, FW_E_ARENA.
///
/// Threads: any. Offsets in the file count from the arena's first page, whose address is `fw_stats.start`.
///
/// # Safety
/// Other processes write to no block that is used here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_memfd(arena: *mut fw_arena) -> c_int {
    // SAFETY: the caller's promise.
    let file = living(arena).and_then(|living| unsafe { living.arena().memfd() }.ok_or(FW_E_UNSUPPORTED));
    file.map_or_else(|code| code, |file| file.as_raw_fd())
}

/// Exports the arena's state to other processes, through a socket at `path`, until the arena is destroyed.
///
/// `framewright top --from PATH` shows it.
///
/// @return 0; FW_E_OS if no socket can be made there or no thread started; FW_E_ARENA, FW_E_NULL.
///
/// Threads: any.
///
/// # Safety
/// `path` is a text or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_export(arena: *mut fw_arena, path: *const c_char) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        if path.is_null() {
            return Err(FW_E_NULL);
        }
        // SAFETY: not null, and a text by the caller's promise.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
        let exported = living.arena().export(path).map_err(|error| {
            errno::set(errno::of_export(&error.reason));
            FW_E_OS
        });
        living.keep(exported?);
        Ok(())
    })
}

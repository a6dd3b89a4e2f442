//! Errors of arenas as numbers. Those of the allocator are in [`framewright_ffi::error`].

use std::ffi::c_int;

use framewright_ffi::error::Code;
use framewright_ffi::numbers::*;
use framewright_rt::ArenaError;

use crate::errno;

/// Returns the error's number.
pub(crate) fn code_of(error: &ArenaError) -> c_int {
    match error {
        ArenaError::Os(error) => {
            errno::set(error.errno);
            FW_E_OS
        }
        ArenaError::Empty => FW_E_EMPTY,
        ArenaError::BadSize { .. } => FW_E_BAD_SIZE,
        ArenaError::TooLarge { .. } => FW_E_TOO_LARGE,
        ArenaError::BadPage { .. } => FW_E_BAD_PAGE,
        ArenaError::BadMaxOrder { .. } => FW_E_GEOMETRY,
        ArenaError::BadFirstFrame { .. } => FW_E_FIRST_FRAME,
        ArenaError::Misaligned { .. } => FW_E_MEMORY_START,
        ArenaError::WrongLength { .. } => FW_E_MEMORY_SIZE,
        ArenaError::NotOurs { .. } => FW_E_NOT_OURS,
        ArenaError::HugePoolEmpty { .. } => FW_E_HUGE_POOL,
        ArenaError::NoHugePages { .. } => FW_E_NO_HUGE_PAGES,
        ArenaError::Placement { .. } => FW_E_PLACEMENT,
        ArenaError::PerCpu(_) => FW_E_PER_CPU,
        ArenaError::NoThread(_) => FW_E_NO_THREAD,
        ArenaError::Unsupported { .. } => FW_E_UNSUPPORTED,
        ArenaError::Boot(error) => error.code(),
        ArenaError::NotItsFrames { .. } => FW_E_FOREIGN,
        ArenaError::FixedSize => FW_E_FIXED_SIZE,
        ArenaError::AboveLimit { .. } => FW_E_ABOVE_LIMIT,
        ArenaError::AtLimit { .. } => FW_E_AT_LIMIT,
        ArenaError::Refused(error) => error.code(),
        _ => FW_E_OTHER,
    }
}

//! What the interfaces tell in words: the files of `/proc`, and the first violated invariant.

use core::ffi::{c_int, c_uint};
use core::fmt;

use framewright::report::{BuddyInfo, PageTypeInfo, Source, VmStat, ZoneInfo};

use crate::boundary::Text;
use crate::numbers::{
    FW_E_DAMAGED, FW_E_OPTION, FW_TEXT_BUDDYINFO, FW_TEXT_PAGETYPEINFO, FW_TEXT_VMSTAT, FW_TEXT_ZONEINFO,
};

/// Writes a report; returns the length of all of it.
///
/// # Errors
/// There is no report of this number.
pub fn report(text: c_uint, source: &impl Source, buffer: &Text) -> Result<c_int, c_int> {
    match text {
        FW_TEXT_BUDDYINFO => Ok(buffer.put(BuddyInfo(source))),
        FW_TEXT_ZONEINFO => Ok(buffer.put(ZoneInfo(source))),
        FW_TEXT_VMSTAT => Ok(buffer.put(VmStat(source))),
        FW_TEXT_PAGETYPEINFO => Ok(buffer.put(PageTypeInfo(source))),
        _ => Err(FW_E_OPTION),
    }
}

/// Writes why an allocator is not sound; nothing if it is.
///
/// # Errors
/// It is not.
pub fn verdict<T>(validated: Result<T, impl fmt::Display>, why: &Text) -> Result<(), c_int> {
    match validated {
        Ok(_) => {
            why.put("");
            Ok(())
        }
        Err(violation) => {
            why.put(violation);
            Err(FW_E_DAMAGED)
        }
    }
}

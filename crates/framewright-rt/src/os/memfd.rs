//! Memory that other processes can map.
//!
//! A file without a name in any directory, of a fixed size. It is sealed before another process can see it. No process
//! can shrink it, so no process that maps it is killed by a truncation (`SIGBUS`). Nor can any grow it, or remove the
//! seals. Descendants do not inherit the descriptor over `exec`.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::call::{Call, OsError, attempt};

/// A sealed file of `len` zeroed bytes, which take memory when touched.
pub(crate) fn sealed_memfd(name: &str, len: usize) -> Result<OwnedFd, OsError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = attempt(Call::MemfdCreate, len, || memfd_create(name, flags))?;
    attempt(Call::Ftruncate, len, || ftruncate(&file, len as u64))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    attempt(Call::AddSeals, len, || fcntl_add_seals(&file, seals))?;
    Ok(file)
}

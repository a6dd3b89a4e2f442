//! Opens files that may be compressed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use crate::decompress::{Source, decompress};
use crate::error::{Reason, Result, TraceError, file_name};
pub use crate::lines::{Line, Lines};

/// Opens a file, decompressed if it is compressed.
///
/// # Errors
/// The file cannot be read, or its compression is damaged.
pub fn open(path: &Path) -> Result<Source> {
    let name = file_name(path);
    let file = File::open(path).map_err(|error| TraceError::new(&name, error))?;
    decompress(file).map_err(|error| TraceError::new(&name, error))
}

/// Reads a whole file, decompressed, of at most `limit` bytes.
///
/// # Errors
/// The file cannot be read, is damaged, or is longer.
pub fn read_whole(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let name = file_name(path);
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| TraceError::new(&name, error))?;
    if bytes.len() as u64 > limit {
        return Err(TraceError::new(&name, Reason::TooLarge(limit)));
    }
    Ok(bytes)
}

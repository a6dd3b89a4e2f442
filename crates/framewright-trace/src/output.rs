//! Files that a command writes: created under a temporary name, and renamed when they are whole.
//!
//! Others may write to the folder, and the command may run as root. So a file is never opened by its final name, and
//! nothing that lies there is followed or truncated:
//!
//! 1. The folder is opened, on a way that no other user can change ([`Folder`]). What follows is relative to it.
//! 2. The name must have a regular file, or nothing. A symbolic link, a device or a pipe is refused.
//! 3. The file is created by a name that cannot be guessed, and only if nothing has that name.
//!    `O_CREAT | O_EXCL | O_NOFOLLOW` does so.
//! 4. Once it is whole and on the disk, it is renamed. That replaces what is at the name and follows no link either.
//!
//! If the name becomes a link after the check, the rename replaces the link. Its target stays as it is.
//!
//! Every crate writes its files through this module: `clippy.toml` forbids the other ways, `ci/clippy.sh` plants one.
//!
//! Rejected: `O_NOFOLLOW` on the final name alone. It guards only the last name of the path, and leaves half a file
//! after an error.

mod folder;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, renameat, unlinkat};

pub use folder::{Access, Folder, caller};

/// A file that is being written. Dropping it before [`NewFile::finish`] removes it.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    folder: OwnedFd,
    part: String,
    name: OsString,
    is_whole: bool,
}

/// Number of temporary names that are tried.
const NAMES: u32 = 16;

impl NewFile {
    /// Creates the file that [`NewFile::finish`] will move to `path`.
    ///
    /// # Errors
    /// The system's; something other than a regular file is at the path; or another user could change the way there.
    pub fn create(path: &Path, access: Access) -> io::Result<NewFile> {
        let (folder, name) = Folder::of(path, access)?;
        NewFile::begin(&folder, name, access)
    }

    /// Like [`NewFile::create`], in a folder that is held open.
    ///
    /// # Errors
    /// The system's; or something other than a regular file has the name.
    pub fn begin(folder: &Folder, name: impl AsRef<OsStr>, access: Access) -> io::Result<NewFile> {
        let name = name.as_ref();
        folder.look(name)?;
        for _ in 0..NAMES {
            let part = format!(".framewright-{:016x}", random());
            match folder.create_new(&part, access) {
                Ok(file) => {
                    return Ok(NewFile { file, folder: folder.fd()?, part, name: name.to_owned(), is_whole: false });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Writes the file to the disk and renames it to its path. Returns its size in bytes.
    ///
    /// # Errors
    /// The system's; the file at the path is then unchanged.
    pub fn finish(mut self) -> io::Result<u64> {
        self.file.sync_all()?;
        let bytes = self.file.metadata()?.len();
        renameat(&self.folder, self.part.as_str(), &self.folder, self.name.as_os_str())?;
        self.is_whole = true;
        Ok(bytes)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // The error that led here says more than one of the clean-up.
            let _ = unlinkat(&self.folder, self.part.as_str(), AtFlags::empty());
        }
    }
}

/// Writes a whole file by way of a temporary one.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::finish`].
pub fn write(path: &Path, access: Access, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path, access)?;
    file.write_all(bytes)?;
    file.finish().map(drop)
}

/// Checks that a file may be written to a path: nothing is there, or a regular file.
///
/// # Errors
/// The path has something else; the system's; or another user could change the way there.
pub fn look(path: &Path, access: Access) -> io::Result<()> {
    let (folder, name) = Folder::of(path, access)?;
    folder.look(name)
}

/// Returns a number that cannot be guessed: the standard library seeds its hash maps from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;

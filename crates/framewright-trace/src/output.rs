//! Files that a command writes: created under a temporary name, and renamed when they are whole.
//!
//! Others may write to the folder, and the command may run as root. So a file is never opened by its final name, and
//! nothing that lies there is followed or truncated:
//!
//! 1. The path must have a regular file, or nothing. A symbolic link, a device or a pipe is refused.
//! 2. The file is created in the same folder by a name that cannot be guessed, and only if nothing has that name.
//!    `O_CREAT | O_EXCL` does so, and follows no link.
//! 3. Once it is whole and on the disk, it is renamed. That replaces what is at the path and follows no link either.
//!
//! If the path becomes a link after the check, the rename replaces the link. Its target stays as it is.
//!
//! Rejected: `O_NOFOLLOW` on the path itself. It guards only the last name of the path, and leaves half a file after
//! an error.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The users that may read a file, or list a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// All users that the umask admits.
    Shared,
    /// The file's owner alone: a recording shows root's view of a kernel.
    Private,
}

/// A file that is being written. Dropping it before [`NewFile::finish`] removes it.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    part: PathBuf,
    path: PathBuf,
    is_whole: bool,
}

/// Number of temporary names that are tried.
const NAMES: u32 = 16;

impl NewFile {
    /// Creates the file that [`NewFile::finish`] will move to `path`.
    ///
    /// # Errors
    /// The system's; or something other than a regular file is at the path.
    pub fn create(path: &Path, access: Access) -> io::Result<NewFile> {
        look(path)?;
        for _ in 0..NAMES {
            let part = path.with_file_name(format!(".framewright-{:016x}", random()));
            match create_new(&part, access) {
                Ok(file) => return Ok(NewFile { file, part, path: path.to_owned(), is_whole: false }),
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
        fs::rename(&self.part, &self.path)?;
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
            let _ = fs::remove_file(&self.part);
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

/// Creates a file where none is.
///
/// # Errors
/// The system's; something, perhaps a link, has the name already.
pub fn create_new(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if access == Access::Private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    options.open(path)
}

/// Creates a folder where none is, and with `parents` the folders above it.
///
/// # Errors
/// The system's; something has the name already.
pub fn create_folder(path: &Path, access: Access, parents: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    if access == Access::Private {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    }
    if let Some(parent) = path.parent().filter(|parent| parents && *parent != Path::new("")) {
        fs::create_dir_all(parent)?;
    }
    builder.create(path)
}

/// Checks that a file may be written to a path: nothing is there, or a regular file.
///
/// # Errors
/// The path has something else; or the system's.
pub fn look(path: &Path) -> io::Result<()> {
    let refused = |why: &str| Err(io::Error::new(ErrorKind::InvalidInput, why));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A name that ends in a slash or in dots names no file.
            if path.file_name() == Some(OsStr::new("")) || path.file_name().is_none() {
                return refused("it names no file");
            }
            Ok(())
        }
        Err(error) => Err(error),
        Ok(there) if there.is_symlink() => refused("it is a symbolic link; name the file that it points to"),
        Ok(there) if there.is_dir() => refused("it is a folder; name a file in it"),
        Ok(there) if !there.is_file() => refused("it is neither a file nor a folder"),
        Ok(_) => Ok(()),
    }
}

/// Returns a number that cannot be guessed: the standard library seeds its hash maps from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, Access::Shared, b"one").unwrap();
        let mut file = NewFile::create(&path, Access::Shared).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        drop(file);
        assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"one".to_vec(), 1));
        write(&path, Access::Shared, b"two").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"two".to_vec(), 1));
    }

    #[test]
    fn nothing_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, link, dangling] = ["victim", "link", "dangling"].map(|name| folder.path().join(name));
        fs::write(&victim, b"precious").unwrap();
        symlink(&victim, &link).unwrap();
        symlink(folder.path().join("none"), &dangling).unwrap();
        for (path, why) in
            [(&link, "symbolic link"), (&dangling, "symbolic link"), (&folder.path().to_owned(), "folder")]
        {
            let error = write(path, Access::Shared, b"mine").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(create_new(&link, Access::Shared).is_err() && create_new(&dangling, Access::Shared).is_err());
        assert!(create_folder(&dangling, Access::Shared, true).is_err());
        // One that appears after the look is replaced.
        let late = folder.path().join("late");
        let mut file = NewFile::create(&late, Access::Shared).unwrap();
        symlink(&victim, &late).unwrap();
        file.write_all(b"mine").unwrap();
        file.finish().unwrap();
        assert_eq!((fs::read(&victim).unwrap(), fs::read(&late).unwrap()), (b"precious".to_vec(), b"mine".to_vec()));
        assert!(!folder.path().join("none").exists() && fs::symlink_metadata(&late).unwrap().is_file());
    }

    #[test]
    fn what_is_private_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let [inner, file, new] = ["a/b", "a/b/file", "a/b/new"].map(|name| folder.path().join(name));
        create_folder(&inner, Access::Private, true).unwrap();
        write(&file, Access::Private, b"").unwrap();
        drop(create_new(&new, Access::Private).unwrap());
        assert_eq!([&inner, &file, &new].map(|path| mode(path)), [0o700, 0o600, 0o600]);
    }

    #[test]
    fn what_names_no_file_is_refused() {
        for path in ["", "/", "..", "/dev/null", "/dev"] {
            assert!(NewFile::create(Path::new(path), Access::Shared).is_err(), "{path}");
        }
    }
}

//! Files that a command writes: made under a name of their own, and put in their place when they are whole.
//!
//! A path may lie in a folder in which others write, and the command may run as root. So a file is never opened by the name that it
//! will have, and nothing that lies there is followed or truncated:
//!
//! 1. what is at the path must be a regular file, or nothing: a symbolic link is refused, and so is a device or a pipe;
//! 2. the file is made in the same folder, by a name that nobody can guess, and only if nothing has that name
//!    (`O_CREAT | O_EXCL`, which follows no link);
//! 3. when it is whole and on the disk, it is renamed, which replaces what is at the path and follows no link either.
//!
//! If the path becomes a link after the look, the rename replaces the link. Where it points stays as it is.
//!
//! Rejected: `O_NOFOLLOW` on the path itself. It guards the last name only as well, and leaves half a file after an error.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Who may read a file, or list a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Everybody whom the umask lets.
    Shared,
    /// Its owner alone: what is recorded of a kernel is root's to see.
    Private,
}

/// A file that is being written. It is gone when this is dropped before [`NewFile::finish`].
#[derive(Debug)]
pub struct NewFile {
    file: File,
    part: PathBuf,
    path: PathBuf,
    is_whole: bool,
}

/// How many names are tried.
const NAMES: u32 = 16;

impl NewFile {
    /// Begins a file that will be at `path`.
    ///
    /// # Errors
    /// The system's; or the path is a symbolic link, or something that is no regular file.
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

    /// Puts it in its place, once it is on the disk. Returns its bytes.
    ///
    /// # Errors
    /// The system's; what is at the path is as it was.
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
            // The first error says more than one about cleaning up after it.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Writes a whole file; see the module's description.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::finish`].
pub fn write(path: &Path, access: Access, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path, access)?;
    file.write_all(bytes)?;
    file.finish().map(drop)
}

/// Makes a file that is not there.
///
/// # Errors
/// The system's; something has the name, a link perhaps.
pub fn create_new(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if access == Access::Private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    options.open(path)
}

/// Makes a folder that is not there, and with `parents` those that it lies in.
///
/// # Errors
/// The system's; something has the name.
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

/// Whether a file may be written to a path: nothing is there, or a regular file.
///
/// # Errors
/// What is there, or the system's.
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

/// A number that nobody can guess: the standard library's hash maps begin with one of the system's.
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

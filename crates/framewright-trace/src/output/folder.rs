//! A folder that a command writes to, held open: its path may lead elsewhere later, the open folder stays the same.
//!
//! Another user may make links, or rename folders, wherever that user owns a folder. So the path is walked one name at
//! a time, and each folder and each symbolic link on the way must belong to a user that is trusted:
//!
//! | user | trusted with |
//! |---|---|
//! | the owner of `/`, who is root outside of a container | every file |
//! | the user that this program runs as | every file |
//! | the user that called `sudo`, if this program runs as root | every file |
//! | the owner of the working directory | files that are not [`Access::Private`] |
//!
//! The last row is for containers: their root often works in a checkout that another user owns.
//!
//! All files are then created, renamed and read relative to the open folder (`openat` and its relatives).
//!
//! Cost: two system calls for each name of the path.
//!
//! Rejected: a look at the folder's owner alone. A folder of another user further up can be renamed, and a link put in
//! its place. Also rejected: `openat2` with `RESOLVE_NO_SYMLINKS`, which refuses the user's own links as well.

#![allow(clippy::disallowed_methods, reason = "this is where files are opened to write")]

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::fs::{chmodat, chownat, fstat, mkdirat, openat, readlinkat, statat, unlinkat};
use rustix::process::geteuid;

/// The users that may read a file, or list a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// All users that the umask admits.
    Shared,
    /// The file's owner alone: a recording shows root's view of a kernel.
    Private,
}

/// Symbolic links on one path, at most. Linux has the same limit.
const LINKS: usize = 40;
/// How a folder is opened, and what a name on the way is opened as.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// The system's; or a folder or a link on the way belongs to a user that is not trusted.
    pub fn open(path: &Path, access: Access) -> io::Result<Folder> {
        Walk::new(access)?.go(path, None).map(|fd| Folder { fd, path: path.to_owned() })
    }

    /// Opens a folder; first makes it, and all folders above it, where there is none.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn make(path: &Path, access: Access) -> io::Result<Folder> {
        Walk::new(access)?.go(path, Some(access)).map(|fd| Folder { fd, path: path.to_owned() })
    }

    /// Opens a folder to read its files, whoever owns it.
    ///
    /// # Errors
    /// The system's.
    pub fn to_read(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder { fd: openat(CWD, path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens the folder of a file. Returns the file's name in it, too.
    ///
    /// # Errors
    /// As [`Folder::open`]; or the path names no file.
    pub fn of(path: &Path, access: Access) -> io::Result<(Folder, OsString)> {
        let ends_in_slash = path.as_os_str().as_bytes().ends_with(b"/");
        let name = path.file_name().filter(|_| !ends_in_slash).ok_or_else(|| refused("it names no file"))?;
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        Ok((Folder::open(parent, access)?, name.to_owned()))
    }

    /// Where it was when it was opened, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder in it, where nothing has that name.
    ///
    /// # Errors
    /// The system's; something, perhaps a link, has the name already.
    pub fn make_inner(&self, name: impl AsRef<OsStr>, access: Access) -> io::Result<Folder> {
        mkdirat(&self.fd, name.as_ref(), folder_mode(access))?;
        let fd = openat(&self.fd, name.as_ref(), FOLDER, Mode::empty())?;
        let path = self.path.join(name.as_ref());
        Walk::new(access)?.look(&path, &fstat(&fd)?)?;
        Ok(Folder { fd, path })
    }

    /// Creates a file where none is.
    ///
    /// # Errors
    /// The system's; something, perhaps a link, has the name already.
    pub fn create_new(&self, name: impl AsRef<OsStr>, access: Access) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if access == Access::Private { 0o600 } else { 0o666 });
        Ok(openat(&self.fd, name.as_ref(), flags, mode)?.into())
    }

    /// Opens a file to append to it, and creates it where none is.
    ///
    /// # Errors
    /// The system's; or it is no regular file.
    pub fn append(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.look(name.as_ref())?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        self.regular(name.as_ref(), flags, Mode::from_raw_mode(0o666))
    }

    /// Opens a file to read it, and follows no link.
    ///
    /// # Errors
    /// The system's; or it is no regular file.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(name.as_ref(), OFlags::RDONLY, Mode::empty())
    }

    fn regular(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        // A pipe would be waited for until it has a writer.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, mode)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(refused("it is neither a file nor a folder")) }
    }

    /// Checks that a file may be written to a name: nothing is there, or a regular file.
    ///
    /// # Errors
    /// The name has something else; or the system's.
    pub fn look(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match self.kind(name.as_ref())? {
            None | Some(FileType::RegularFile) => Ok(()),
            Some(FileType::Symlink) => Err(refused("it is a symbolic link; name the file that it points to")),
            Some(FileType::Directory) => Err(refused("it is a folder; name a file in it")),
            Some(_) => Err(refused("it is neither a file nor a folder")),
        }
    }

    fn kind(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file, or a link to one.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes a folder in it and all files of that folder. A folder that has folders stays.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_inner(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let inner = self.inner(name.as_ref())?;
        inner.names()?.iter().try_for_each(|name| inner.remove(name))?;
        Ok(unlinkat(&self.fd, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    fn inner(&self, name: &OsStr) -> io::Result<Folder> {
        let fd = openat(&self.fd, name, FOLDER, Mode::empty())?;
        Ok(Folder { fd, path: self.path.join(name) })
    }

    /// The names in it.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let listed = openat(&self.fd, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(listed)? {
            let name = entry?.file_name().to_bytes().to_owned();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Takes the access of all others away, if it is this user's own.
    ///
    /// # Errors
    /// The system's; or it belongs to another user.
    pub fn claim(&self) -> io::Result<()> {
        if fstat(&self.fd)?.st_uid != geteuid().as_raw() {
            return Err(refused("it belongs to another user"));
        }
        Ok(chmodat(&self.fd, ".", Mode::RWXU, AtFlags::empty())?)
    }

    /// Gives it, its files, and its folders with their files to a user. Nothing of another owner is given away.
    ///
    /// # Errors
    /// The system's.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        let to = |name: &OsStr| {
            // A file that another user put there stays with its owner: its name may be a link to a file of root's.
            if statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?.st_uid != geteuid().as_raw() {
                return Ok(());
            }
            let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
            chownat(&self.fd, name, user, group, AtFlags::SYMLINK_NOFOLLOW)
        };
        for name in self.names()? {
            match self.kind(&name)? {
                Some(FileType::Directory) => self.inner(&name)?.give(user, group)?,
                _ => to(&name)?,
            }
        }
        Ok(to(OsStr::new("."))?)
    }

    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}

/// A walk along a path.
struct Walk {
    trusted: Vec<u32>,
}

impl Walk {
    fn new(access: Access) -> io::Result<Walk> {
        let mut trusted = vec![owner(Path::new("/"))?, geteuid().as_raw()];
        trusted.extend(caller().map(|(user, _)| user));
        if access == Access::Shared {
            trusted.extend(owner(Path::new(".")));
        }
        Ok(Walk { trusted })
    }

    /// Follows the path to a folder. With `make`, makes those that are missing.
    fn go(&self, path: &Path, make: Option<Access>) -> io::Result<OwnedFd> {
        let mut links = 0;
        let mut names = names_of(path);
        // Where the walk is, for messages.
        let mut place = PathBuf::new();
        let mut at = openat(CWD, ".", FOLDER, Mode::empty())?;
        if !path.is_absolute() {
            self.look(Path::new("."), &fstat(&at)?)?;
        }
        while let Some(name) = names.pop_front() {
            place.push(&name);
            let found = match (openat(&at, name.as_os_str(), NAME, Mode::empty()), make) {
                (Err(rustix::io::Errno::NOENT), Some(access)) => {
                    match mkdirat(&at, name.as_os_str(), folder_mode(access)) {
                        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    openat(&at, name.as_os_str(), NAME, Mode::empty())?
                }
                (found, _) => found?,
            };
            let stat = fstat(&found)?;
            self.look(&place, &stat)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => at = found,
                FileType::Symlink if links < LINKS => {
                    links += 1;
                    let target = PathBuf::from(OsString::from_vec(readlinkat(&found, "", Vec::new())?.into_bytes()));
                    place.pop();
                    names_of(&target).into_iter().rev().for_each(|name| names.push_front(name));
                }
                FileType::Symlink => return Err(rustix::io::Errno::LOOP.into()),
                _ => return Err(rustix::io::Errno::NOTDIR.into()),
            }
        }
        Ok(at)
    }

    /// Checks the owner of what is at a path.
    fn look(&self, path: &Path, stat: &Stat) -> io::Result<()> {
        if self.trusted.contains(&stat.st_uid) {
            return Ok(());
        }
        let what = if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink { "link" } else { "folder" };
        Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "the {what} {} belongs to another user (number {}), who could have it lead elsewhere; name a folder \
                 of your own",
                path.display(),
                stat.st_uid
            ),
        ))
    }
}

/// The names along a path. A name that is absolute, `/`, starts again at the root.
fn names_of(path: &Path) -> VecDeque<OsString> {
    path.components().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_owned()).collect()
}

fn owner(path: &Path) -> io::Result<u32> {
    Ok(statat(CWD, path, AtFlags::empty())?.st_uid)
}

/// The user and the group that called this program through `sudo`; none if it does not run as root.
pub fn caller() -> Option<(u32, u32)> {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if geteuid().is_root() { id("SUDO_UID").zip(id("SUDO_GID")) } else { None }
}

fn folder_mode(access: Access) -> Mode {
    Mode::from_raw_mode(if access == Access::Private { 0o700 } else { 0o777 })
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

//! Files that a command writes: looked at before the work, and written as a whole ([`framewright_trace::output`]).
//!
//! A path that is a symbolic link is refused. Otherwise a user that can write to a folder could make a command of
//! another user, as root, overwrite any file. Pipes and terminals are written to as they are, and the links to them
//! that the system has in `/dev` and `/proc` are followed: `/dev/stdout` is one. Block devices are not written to.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use framewright_trace::output::{self, Access, NewFile};

/// Checks that a file can be written, and that an existing one is ours, which has `mark` in it. Called before the runs,
/// so that no run is in vain.
pub(crate) fn check(path: &Path, mark: &str) -> anyhow::Result<()> {
    let name = path.display();
    if is_special(path) {
        return Ok(());
    }
    output::look(path).with_context(|| format!("cannot write {name}"))?;
    let read =
        fs::read(path).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(Vec::new()) } else { Err(error) });
    // Begun, and dropped.
    let tried = read.and_then(|bytes| NewFile::create(path, Access::Shared).map(|_| bytes));
    let bytes = tried.with_context(|| format!("cannot write {name}"))?;
    if !bytes.is_empty() && !bytes.windows(mark.len()).any(|part| part == mark.as_bytes()) {
        bail!("{name} is somebody else's, and would be overwritten; write elsewhere");
    }
    Ok(())
}

/// Writes a file so that it has all of the text, or stays as it was. A pipe or a terminal is written to directly.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, |out| out.write_all(text.as_bytes()))
}

/// Like [`replace`], for an output that `write` produces piece by piece.
pub(crate) fn write(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let written = || {
        if is_special(path) {
            return write(&mut open_special(path)?);
        }
        let mut file = io::BufWriter::new(NewFile::create(path, Access::Shared)?);
        write(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.finish().map(drop)
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

/// Whether there is something that is neither a file nor a folder, or a link of the system's to what is open, as
/// `/dev/stdout` is.
fn is_special(path: &Path) -> bool {
    let known = fs::symlink_metadata(path);
    is_systems_link(path) || known.is_ok_and(|known| !known.is_file() && !known.is_dir() && !known.is_symlink())
}

/// Whether a path is a link in a folder of the system's, in which users make none.
fn is_systems_link(path: &Path) -> bool {
    let is_systems = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder))
        && !path.starts_with("/dev/shm")
        && !path.components().any(|part| part == std::path::Component::ParentDir);
    is_systems && fs::symlink_metadata(path).is_ok_and(|known| known.is_symlink())
}

/// Opens what is special, if it still is. A name that was made a link meanwhile is not followed.
fn open_special(path: &Path) -> io::Result<fs::File> {
    let is_link = is_systems_link(path);
    let flags = if is_link { 0 } else { rustix::fs::OFlags::NOFOLLOW.bits() as i32 };
    let file = fs::OpenOptions::new().write(true).truncate(is_link).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if (kind.is_file() && !is_link) || kind.is_block_device() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is neither a file nor a pipe or terminal"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_or_is_let_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        check(&path, "mark").unwrap();
        assert!(
            !path.exists() && fs::read_dir(folder.path()).unwrap().next().is_none(),
            "nothing is left of the check"
        );
        replace(&path, "a mark").unwrap();
        check(&path, "mark").unwrap();
        replace(&path, "another").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
        // A file that is no text is foreign too.
        for foreign in [b"\xff\xfe a page".as_slice(), b"another"] {
            fs::write(&path, foreign).unwrap();
            assert!(check(&path, "mark").unwrap_err().to_string().contains("would be overwritten"));
            assert_eq!(fs::read(&path).unwrap(), foreign);
        }
        assert!(check(folder.path(), "mark").is_err() && check(&folder.path().join("none/file"), "mark").is_err());
        assert!(replace(&folder.path().join("none/file"), "").is_err() && replace(folder.path(), "").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        check(Path::new("/dev/null"), "mark").unwrap();
        replace(Path::new("/dev/null"), "text").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file() && !Path::new("/dev/null.part").exists());
    }
}

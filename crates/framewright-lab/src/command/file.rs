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

/// Files that an output may replace.
#[derive(Clone, Copy)]
pub(crate) enum Over<'m> {
    /// Any file.
    Any,
    /// A file of ours, which has this mark in it.
    Ours(&'m str),
    /// None, until the user adds `--force`; then a file with this mark, or any file if there is no mark.
    Unforced(Option<&'m str>),
}

/// Checks that a file can be written, and that an existing one may be replaced.
///
/// Every command calls it before its work, so that no work is in vain.
pub(crate) fn check(path: &Path, over: Over<'_>) -> anyhow::Result<()> {
    let name = path.display();
    if is_special(path) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        bail!("cannot write {name}: there is no folder {}; make it first", folder.display());
    }
    output::look(path, Access::Shared).with_context(|| format!("cannot write {name}"))?;
    let mark = match over {
        Over::Any | Over::Unforced(None) => None,
        Over::Ours(mark) | Over::Unforced(Some(mark)) => Some(mark),
    };
    if let Some(mark) = mark.filter(|_| path.exists()) {
        let bytes = fs::read(path).with_context(|| format!("cannot write {name}"))?;
        if !bytes.is_empty() && !bytes.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            bail!("{name} is somebody else's, and would be overwritten; write elsewhere");
        }
    }
    if path.exists() && matches!(over, Over::Unforced(_)) {
        bail!("{name} exists; --force replaces it");
    }
    // Begun, and dropped.
    NewFile::create(path, Access::Shared).map(drop).with_context(|| format!("cannot write {name}"))
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
#[allow(clippy::disallowed_methods, reason = "no file is created, and the name is no file's")]
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

    const OURS: Over<'_> = Over::Ours("mark");

    /// What is there stays there until the user adds `--force`; a file of somebody else's stays even then.
    #[test]
    fn a_file_is_replaced_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let told =
            |over| check(&path, over).map_err(|error| error.to_string().split_once("file").unwrap().1.to_owned());
        for over in [Over::Any, OURS, Over::Unforced(None), Over::Unforced(Some("mark"))] {
            assert_eq!(told(over), Ok(()), "nothing is there");
        }
        let (exists, foreign) =
            (" exists; --force replaces it", " is somebody else's, and would be overwritten; write elsewhere");
        let of = |text: &str| Err(text.to_owned());
        fs::write(&path, "a mark").unwrap();
        assert_eq!([told(Over::Any), told(OURS)], [Ok(()), Ok(())]);
        assert_eq!([told(Over::Unforced(None)), told(Over::Unforced(Some("mark")))], [of(exists), of(exists)]);
        fs::write(&path, "another").unwrap();
        assert_eq!([told(Over::Any), told(OURS)], [Ok(()), of(foreign)]);
        assert_eq!([told(Over::Unforced(None)), told(Over::Unforced(Some("mark")))], [of(exists), of(foreign)]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
    }

    #[test]
    fn a_file_is_ours_or_is_let_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        check(&path, OURS).unwrap();
        assert!(
            !path.exists() && fs::read_dir(folder.path()).unwrap().next().is_none(),
            "nothing is left of the check"
        );
        replace(&path, "a mark").unwrap();
        check(&path, OURS).unwrap();
        replace(&path, "another").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
        // A file that is no text is foreign too.
        for foreign in [b"\xff\xfe a page".as_slice(), b"another"] {
            fs::write(&path, foreign).unwrap();
            assert!(check(&path, OURS).unwrap_err().to_string().contains("would be overwritten"));
            assert_eq!(fs::read(&path).unwrap(), foreign);
        }
        for over in [Over::Any, OURS, Over::Unforced(None)] {
            assert!(check(folder.path(), over).is_err() && check(&folder.path().join("none/file"), over).is_err());
        }
        assert!(replace(&folder.path().join("none/file"), "").is_err() && replace(folder.path(), "").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        check(Path::new("/dev/null"), OURS).unwrap();
        replace(Path::new("/dev/null"), "text").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file() && !Path::new("/dev/null.part").exists());
    }
}

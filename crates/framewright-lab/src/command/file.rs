//! Files that a command writes: looked at before the work, and written as a whole.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Makes sure that a file can be written, and that one that is there is ours, which has `mark` in it: found out before the runs, not
/// behind them.
pub(crate) fn check(path: &Path, mark: &str) -> anyhow::Result<()> {
    let name = path.display();
    if path.is_dir() {
        bail!("cannot write {name}: it is a folder; name a file in it");
    }
    if is_special(path) {
        return Ok(());
    }
    let part = part(path);
    let read =
        fs::read(path).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(Vec::new()) } else { Err(error) });
    let tried = read.and_then(|bytes| File::create(&part).and_then(|_| fs::remove_file(&part)).map(|()| bytes));
    let bytes = tried.with_context(|| format!("cannot write {name}"))?;
    if !bytes.is_empty() && !bytes.windows(mark.len()).any(|part| part == mark.as_bytes()) {
        bail!("{name} is somebody else's, and would be overwritten; write elsewhere");
    }
    Ok(())
}

/// Writes a file so that it is there with all of the text, or as it was. What is no file, as a pipe, has no name to lose.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        if is_special(path) {
            return fs::write(path, text);
        }
        let part = part(path);
        let whole = || {
            let mut file = File::create(&part)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&part, path)
        };
        whole().inspect_err(|_| _ = fs::remove_file(&part))
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Whether there is something that is neither a file nor a folder.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir())
}

/// What a file is called while it is written.
fn part(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
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
        // What is no text is somebody else's too.
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

//! Gets the source tree of a kernel: Debian's package of a version, or a directory of the user.
//!
//! The idea: Debian's package `linux-source-6.1` holds one archive of the tree with Debian's patches. It is downloaded
//! without root, unpacked once, and never changed afterwards; builds work on copies.
//!
//! Cost: 140 MB to download, 1.4 GB on disk, two minutes. Rejected: kernel.org, which many machines cannot reach while
//! they have a mirror of Debian; and `apt-get source`, which needs a `deb-src` line.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::places;
use crate::process;
use crate::tools::{self, Step};

/// A source tree that nothing changes.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name in the work directory: a version, or one made of the directory's path.
    pub name: String,
    /// Root of the tree.
    pub root: PathBuf,
    /// Whether the tree is ours, so that copies may be hard links.
    pub is_ours: bool,
}

impl Source {
    /// A tree of the user.
    ///
    /// # Errors
    ///
    /// There is no such directory.
    pub fn of_user(directory: &Path) -> Result<Source> {
        let root = directory.canonicalize().with_context(|| format!("no source tree {}", directory.display()))?;
        let hash = places::hex(&Sha256::digest(root.to_string_lossy().as_bytes()));
        let short = hash.get(..8).unwrap_or_default();
        let base = root.file_name().unwrap_or_default().to_string_lossy();
        Ok(Source { name: format!("{base}-{short}"), root, is_ours: false })
    }

    /// The tree of Debian's package for a version, below `directory`; gets it if it is not there.
    ///
    /// `package` is the package's file, if it is there already.
    ///
    /// # Errors
    ///
    /// The package cannot be downloaded or unpacked.
    pub fn of_debian(version: &str, directory: &Path, package: Option<&Path>) -> Result<Source> {
        let root = directory.join(format!("linux-source-{version}"));
        if !root.join("Makefile").exists() {
            tools::check(&[Step::Source])?;
            let unpacking = directory.join(format!("unpacking-{version}"));
            remove(&unpacking)?;
            fs::create_dir_all(&unpacking).with_context(|| format!("cannot create {}", unpacking.display()))?;
            unpack(version, &unpacking, package, &root)?;
            remove(&unpacking)?;
        }
        Ok(Source { name: version.to_owned(), root, is_ours: true })
    }

    /// A digest that differs when a file of the tree has changed: of all paths, sizes and times.
    ///
    /// # Errors
    ///
    /// The tree cannot be read.
    pub fn digest(&self) -> Result<String> {
        let mut digest = Sha256::new();
        digest.update(self.root.to_string_lossy().as_bytes());
        if !self.is_ours {
            walk(&self.root, &mut digest)?;
        }
        Ok(places::hex(&digest.finalize()))
    }
}

/// Downloads the package unless it is given, and unpacks its archive, which becomes `root`.
fn unpack(version: &str, unpacking: &Path, package: Option<&Path>, root: &Path) -> Result<()> {
    let name = format!("linux-source-{version}");
    let package = match package {
        Some(package) => package.to_owned(),
        None => {
            let bar = process::spinner(&format!("downloading {name}"));
            process::output(Command::new("apt-get").arg("download").arg(&name).current_dir(unpacking))
                .with_context(|| format!("{name}: `apt-cache search linux-source` lists the versions there are"))?;
            bar.finish_and_clear();
            find(unpacking, "deb")?
        }
    };
    let bar = process::spinner(&format!("unpacking {name}"));
    process::output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(unpacking))?;
    let archive = unpacking.join(format!("usr/src/{name}.tar.xz"));
    process::output(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(unpacking))?;
    bar.finish_and_clear();
    let tree = unpacking.join(&name);
    fs::rename(&tree, root).with_context(|| format!("cannot rename {} to {}", tree.display(), root.display()))
}

/// The only file of a folder with this extension.
fn find(folder: &Path, extension: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            return Ok(path);
        }
    }
    bail!("no .{extension} file in {}", folder.display())
}

/// Removes a directory and all in it, if it exists.
///
/// # Errors
///
/// Something in it cannot be removed.
pub fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Adds paths, sizes and times of everything below a directory.
fn walk(directory: &Path, digest: &mut Sha256) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths.iter().filter(|path| !path.ends_with(".git")) {
        let metadata = path.symlink_metadata()?;
        digest.update(path.to_string_lossy().as_bytes());
        for number in [metadata.size() as i64, metadata.mtime(), metadata.mtime_nsec()] {
            digest.update(number.to_le_bytes());
        }
        if metadata.is_dir() {
            walk(path, digest)?;
        }
    }
    Ok(())
}

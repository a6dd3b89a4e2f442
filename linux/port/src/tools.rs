//! Checks which programs and headers of other packages are missing, all at once.
//!
//! The idea: a table of what each step needs, and of the Debian package that has it. A step asks before it starts, so
//! that a missing program is not found out after minutes of compiling.
//!
//! Cost: a look at `PATH`. Rejected: running each program with `--version`.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// A step that needs programs of other packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Getting a source tree of Debian.
    Source,
    /// Building a kernel.
    Build,
    /// Making the guest's root file system.
    Guest,
    /// Booting x86-64 in QEMU.
    Qemu,
    /// Booting User-Mode Linux.
    Um,
    /// Files that are written and read by fio on XFS.
    Files,
}

/// A program or, with a leading `/`, a file; its Debian package; and the steps that need it.
const NEEDED: &[(&str, &str, &[Step])] = &[
    ("apt-get", "apt", &[Step::Source]),
    ("dpkg-deb", "dpkg", &[Step::Source]),
    ("tar", "tar", &[Step::Source]),
    ("xz", "xz-utils", &[Step::Source]),
    ("gcc", "gcc", &[Step::Build, Step::Guest]),
    ("ld", "binutils", &[Step::Build]),
    ("make", "make", &[Step::Build]),
    ("flex", "flex", &[Step::Build]),
    ("bison", "bison", &[Step::Build]),
    ("bc", "bc", &[Step::Build]),
    ("perl", "perl", &[Step::Build]),
    ("/usr/include/gelf.h", "libelf-dev", &[Step::Build]),
    ("busybox", "busybox-static", &[Step::Guest]),
    ("qemu-system-x86_64", "qemu-system-x86", &[Step::Qemu]),
    ("setarch", "util-linux", &[Step::Um]),
    ("fio", "fio", &[Step::Files]),
    ("mkfs.xfs", "xfsprogs", &[Step::Files]),
    ("ldd", "libc-bin", &[Step::Files]),
];

/// Checks that everything the steps need is there.
///
/// # Errors
///
/// Something is missing: the error names all of it, and the packages to install.
pub fn check(steps: &[Step]) -> Result<()> {
    let exists = |name: &str| match name.starts_with('/') {
        true => Path::new(name).exists(),
        false => find(Path::new(name)).is_some(),
    };
    match missing(steps, exists) {
        None => Ok(()),
        Some(message) => bail!(message),
    }
}

/// Returns the path of a program. Users who are not root may lack the folders of system programs in `PATH`.
pub fn find(program: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(system).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The message about what is missing, if anything is.
fn missing(steps: &[Step], exists: impl Fn(&str) -> bool) -> Option<String> {
    let missing: Vec<_> = NEEDED
        .iter()
        .filter(|(name, _, needed_by)| steps.iter().any(|step| needed_by.contains(step)) && !exists(name))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = missing.iter().map(|(name, _, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package, _)| *package).collect();
    Some(format!("missing: {}\ninstall with: apt-get install {}", names.join(", "), packages.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let message = missing(&[Step::Build, Step::Qemu], |name| ["gcc", "make", "ld", "perl"].contains(&name));
        insta::assert_snapshot!(message.unwrap_or_default(), @r"
        missing: flex, bison, bc, /usr/include/gelf.h, qemu-system-x86_64
        install with: apt-get install flex bison bc libelf-dev qemu-system-x86
        ");
        assert_eq!(missing(&[Step::Guest], |_| true), None);
    }
}

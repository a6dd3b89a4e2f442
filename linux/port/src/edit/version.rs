//! A version of Linux, as edits and Makefiles name it.
//!
//! The idea: only the first two numbers count, because a stable release changes no code that edits look at. Debian's
//! trees have no third number in their package's name either.
//!
//! Cost: none. Rejected: the crate `semver`, which wants three numbers.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A version of Linux: its first two numbers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
pub struct KernelVersion {
    /// `VERSION` of the Makefile.
    pub major: u32,
    /// `PATCHLEVEL` of the Makefile.
    pub minor: u32,
}

impl KernelVersion {
    /// Reads the version from the text of a tree's Makefile; `None` if it sets no `VERSION` and `PATCHLEVEL`.
    pub fn of_makefile(text: &str) -> Option<KernelVersion> {
        let number = |name: &str| {
            let assigned = |line: &str| line.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim().parse().ok();
            text.lines().find_map(assigned)
        };
        Some(KernelVersion { major: number("VERSION")?, minor: number("PATCHLEVEL")? })
    }
}

impl FromStr for KernelVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<KernelVersion, String> {
        let numbers = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) = numbers.ok_or_else(|| format!("`{text}` is no version such as 6.1"))?;
        Ok(KernelVersion { major, minor })
    }
}

impl TryFrom<String> for KernelVersion {
    type Error = String;

    fn try_from(text: String) -> Result<KernelVersion, String> {
        text.parse()
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

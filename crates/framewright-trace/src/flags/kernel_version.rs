//! The version of a kernel.

use std::fmt;
use std::str::FromStr;

/// A kernel's version, such as 6.1 or 2.6.32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number; 0 if there is none.
    pub patch: u32,
}

impl KernelVersion {
    /// A version of two numbers.
    pub const fn new(major: u32, minor: u32) -> KernelVersion {
        KernelVersion { major, minor, patch: 0 }
    }

    /// Finds a version in a kernel's description, such as `6.1.0-56-cloud-amd64`, `/proc/version` or `uname -a`.
    ///
    /// None if no word starts with one.
    pub fn find(text: &str) -> Option<KernelVersion> {
        text.split_whitespace().take(64).find_map(|word| word.parse().ok())
    }
}

impl FromStr for KernelVersion {
    type Err = NoVersion;

    /// Reads a version with anything after it, as `6.1.0-56-cloud-amd64`, `v6.3` or `3.10.0-rc3+`.
    fn from_str(text: &str) -> Result<KernelVersion, NoVersion> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let (major, rest) = number(text).ok_or(NoVersion)?;
        let (minor, rest) = rest.strip_prefix('.').and_then(number).ok_or(NoVersion)?;
        let patch = rest.strip_prefix('.').and_then(number);
        // Kernels have two or three numbers; an address or a date has others.
        if (patch.is_some_and(|(_, rest)| rest.starts_with('.')) && major > 2) || major == 0 || major > 99 {
            return Err(NoVersion);
        }
        Ok(KernelVersion { major, minor, patch: patch.map_or(0, |(patch, _)| patch) })
    }
}

/// The number that `text` starts with, and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch != 0 { write!(f, ".{}", self.patch) } else { Ok(()) }
    }
}

/// A text does not start with the version of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("is no version of a kernel, such as 6.1 or 2.6.32")]
pub struct NoVersion;

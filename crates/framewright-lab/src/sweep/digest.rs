//! 128 bits of the SHA-256 of a content, as its identity.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The first half of a SHA-256, as 32 hexadecimal digits: long enough that two contents never meet with equal digests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Of a text.
    pub fn of(text: &str) -> Digest {
        let bytes = Sha256::digest(text.as_bytes());
        Digest(bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256sum() {
        assert_eq!(Digest::of("").as_str(), "e3b0c44298fc1c149afbf4c8996fb924");
        assert_eq!(Digest::of("abc").to_string(), "ba7816bf8f01cfea414140de5dae2223");
    }
}

//! Knows where the project's files are.
//!
//! The idea: the command runs from a checkout, so paths lead from this crate's manifest, whatever the current
//! directory. Cost: none. Rejected: paths relative to the current directory, which `linux/run` and tests would have to
//! agree on.

use std::path::PathBuf;

/// The root of the project.
pub fn root() -> PathBuf {
    let crate_root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_root.ancestors().nth(2).map(PathBuf::from).unwrap_or(crate_root)
}

/// The folder of the port, `linux/`.
pub fn port() -> PathBuf {
    root().join("linux")
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

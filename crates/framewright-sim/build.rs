//! Tells the crate which sources its results come from.
//!
//! The results of a run are a function of its specification and of this program. A version changes only once in many
//! changes of the program, so it is joined by a digest of all sources that take part: those of this crate, of the
//! allocator and of the operations. A build from a registry, where the other crates lie elsewhere, has their published
//! versions.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let own = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    println!("cargo::rerun-if-changed=build.rs");
    for folder in ["src", "../framewright/src", "../framewright-ops/src"] {
        let folder = own.join(folder);
        if folder.is_dir() {
            println!("cargo::rerun-if-changed={}", folder.display());
            add(&mut digest, &folder, "");
        }
    }
    println!("cargo::rustc-env=FRAMEWRIGHT_SIM_SOURCES={:016x}", digest.0);
}

/// Adds every file below a folder, by name and content, in the order of their names.
fn add(digest: &mut Digest, folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    for name in names {
        let (path, name) = (folder.join(&name), format!("{prefix}/{name}"));
        if path.is_dir() {
            add(digest, &path, &name);
        } else if let Ok(content) = fs::read(&path) {
            digest.bytes(name.as_bytes());
            digest.bytes(&(content.len() as u64).to_le_bytes());
            digest.bytes(&content);
        }
    }
}

/// FNV-1a: it only has to tell versions of one program apart.
struct Digest(u64);

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

//! Makes the object of Rust that the kernel links.
//!
//! The idea: cargo makes a static library of the glue for a target without an operating system. The linker makes one
//! relocatable object of it, in which only the glue's own functions, `framewright_*`, are visible. Kbuild takes such an
//! object as `framewright_rust.o_shipped`.
//!
//! Cost: seconds when the glue has changed. Rejected: Linux's own support of Rust, which needs one version of the
//! compiler and a kernel of 6.1 or later with `CONFIG_RUST`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::places;
use crate::process;

/// Name of the glue's package.
const PACKAGE: &str = "framewright-linux-glue";
/// The target: the compiler's own for kernels of x86-64. User-Mode Linux takes the same object.
const TARGET: &str = "x86_64-unknown-none";

/// Whether the glue exists.
pub fn exists() -> bool {
    places::port().join("glue/Cargo.toml").exists()
}

/// Builds the glue, and makes the object `framewright_rust.o` in `directory`; returns its path.
///
/// # Errors
///
/// Cargo, the linker or `objcopy` fail.
pub fn object(directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let root = places::root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).unwrap_or_else(|| root.join("target"));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", PACKAGE, "--profile", "kernel", "--target", TARGET]).current_dir(&root);
    let log = directory.join("glue.log");
    if log.exists() {
        fs::remove_file(&log)?;
    }
    process::logged(&mut cargo, "building the glue", &log)?;
    let library = target.join(TARGET).join("kernel/libframewright_linux_glue.a");
    let object = directory.join("framewright_rust.o");
    // No section is dropped here: the final link of the kernel does not know which of ours refer to each other.
    let mut link = Command::new("ld");
    link.args(["-r", "--whole-archive", "-o"]).arg(&object).arg(&library);
    process::output(&mut link)?;
    let mut hide = Command::new("objcopy");
    hide.args(["--wildcard", "--keep-global-symbol=framewright_*", "--remove-section=.eh_frame"]).arg(&object);
    process::output(&mut hide)?;
    Ok(object)
}

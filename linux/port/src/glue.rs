//! Makes the object of Rust that the kernel links.
//!
//! The idea: cargo makes a static library of the glue for a target without an operating system, at addresses as a kernel
//! has them. Link-time optimisation leaves all code that is ours in one member. That becomes an object that Linux links
//! (`object.rs`), in which only the glue's own functions, `fw_linux_*`, are visible. Kbuild takes such an object as
//! `framewright_rust.o_shipped`.
//!
//! Cost: seconds when the glue has changed. Rejected: Linux's own support of Rust, which needs one version of the
//! compiler and a kernel of 6.1 or later with `CONFIG_RUST`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::object;
use crate::places;
use crate::process;

/// Name of the glue's package.
const PACKAGE: &str = "framewright-linux-glue";
/// The target: the compiler's own for kernels of x86-64. User-Mode Linux takes the same object.
const TARGET: &str = "x86_64-unknown-none";

/// Joins the section of each function and each value to few: Linux's linker scripts do not know the others' names, and
/// would leave memory that must begin as zeroes outside of what the kernel clears.
const SECTIONS: &str = "SECTIONS {
    .text : { *(.text .text.*) }
    .rodata : { *(.rodata .rodata.*) }
    .data : { *(.data .data.*) }
    .bss : { *(.bss .bss.* COMMON) }
    /DISCARD/ : { *(.comment .eh_frame) }
}
";

/// Whether the glue exists.
pub fn exists() -> bool {
    places::port().join("glue/Cargo.toml").exists()
}

/// Builds the glue, and makes the object `framewright_rust.o` in `directory`; returns its path.
///
/// # Errors
///
/// Cargo, `ar` or `objcopy` fail, or the object has what Linux does not link.
pub fn object(directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    // Apart from other builds: these options are for this library alone.
    let target = directory.join("target");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--package", PACKAGE, "--lib", "--profile", "kernel", "--target", TARGET]);
    cargo.args(["--features", "panic-handler", "--crate-type", "staticlib", "--target-dir"]).arg(&target);
    cargo.args(["--", "-C", "relocation-model=static", "-C", "code-model=kernel"]).current_dir(places::root());
    let log = directory.join("glue.log");
    if log.exists() {
        fs::remove_file(&log)?;
    }
    process::logged(&mut cargo, "building the glue", &log)?;
    let library = target.join(TARGET).join("kernel/libframewright_linux.a");
    // The other members are the compiler's `memcpy` and its like, which Linux has.
    let members = process::output(Command::new("ar").arg("t").arg(&library))?;
    let ours: Vec<&str> = members.lines().filter(|member| member.starts_with("framewright_linux")).collect();
    let [member] = ours.as_slice() else { bail!("{} has {} members of the glue", library.display(), ours.len()) };
    process::output(Command::new("ar").arg("x").arg(&library).arg(member).current_dir(directory))?;
    let object = directory.join("framewright_rust.o");
    let script = directory.join("sections.ld");
    fs::write(&script, SECTIONS).with_context(|| format!("cannot write {}", script.display()))?;
    let mut join = Command::new("ld");
    join.args(["-r", "-T"]).arg(&script).arg("-o").arg(&object).arg(directory.join(member));
    process::output(&mut join)?;
    let mut bytes = fs::read(&object)?;
    object::without_table(&mut bytes).with_context(|| format!("cannot use {}", object.display()))?;
    fs::write(&object, bytes)?;
    let mut hide = Command::new("objcopy");
    hide.args(["--wildcard", "--keep-global-symbol=fw_linux_*"]).arg(&object);
    process::output(&mut hide)?;
    Ok(object)
}

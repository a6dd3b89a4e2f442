//! Passes the linker what a kernel needs: its own script, a fixed address, no start files and no C library.
//!
//! The bare target is linked by `rust-lld` itself, the host's target through a C compiler, which passes options on.
//! Rejected: `.cargo/config.toml`, whose flags cargo ignores where `RUSTFLAGS` is set or the command runs elsewhere.

use std::env;

fn main() {
    let script = format!("{}/kernel.ld", env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
    let is_bare = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none");
    let own: &[&str] =
        if is_bare { &["--no-pie", "-static"] } else { &["-nostdlib", "-nostartfiles", "-static", "-no-pie"] };
    let pass = if is_bare { "" } else { "-Wl," };
    for argument in own {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    // x86-64: above firmware's holes. AArch64: above the device tree, for which QEMU needs 1 MiB.
    let is_arm = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "aarch64");
    let base = if is_arm { "0x40200000" } else { "0x100000" };
    // The build id would be a second note, in front of the one that QEMU looks for.
    let base = format!("--defsym=kernel_base={base}");
    for argument in [base, format!("-T{script}"), "--build-id=none".into(), "--gc-sections".into()] {
        println!("cargo::rustc-link-arg-bins={pass}{argument}");
    }
}

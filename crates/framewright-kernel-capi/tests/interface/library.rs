//! The static library, built as a kernel's author builds it, for the host.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// Held by the test that builds: cargo gives the libraries of all features one name.
static BUILDING: Mutex<()> = Mutex::new(());

/// Builds the library with `features`, by the command of the README; returns its path.
pub(crate) fn build(features: &str) -> PathBuf {
    let _alone = BUILDING.lock();
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernel-capi");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(workspace).args(["rustc", "--quiet", "--offline", "--locked"]);
    cargo.args(["--package", "framewright-kernel-capi", "--profile", "kernel", "--crate-type", "staticlib"]);
    cargo.args(["--features", &format!("panic-handler,{features}"), "--target-dir"]).arg(&directory);
    // Those of the test are none of the library's.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let named = directory.join(format!("lib-{}.a", features.replace(',', "-")));
    std::fs::copy(directory.join("kernel/libframewright_kernel_capi.a"), &named).expect("the library can be copied");
    named
}

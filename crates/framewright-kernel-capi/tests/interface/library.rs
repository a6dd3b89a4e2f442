//! The static library, built as a kernel's author builds it, for the host.

use std::path::PathBuf;
use std::process::Command;

/// Builds the library with `features`, by the command of the README; returns its path.
///
/// Each choice of features has a folder of its own, so that tests may build at once.
pub(crate) fn build(features: &str) -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = format!("kernel-capi-{}", features.replace(',', "-"));
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(named);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(workspace).args(["rustc", "--quiet", "--offline", "--locked"]);
    cargo.args(["--package", "framewright-kernel-capi", "--profile", "kernel", "--crate-type", "staticlib"]);
    cargo.args(["--features", &format!("panic-handler,{features}"), "--target-dir"]).arg(&directory);
    // Those of the test are none of the library's.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    directory.join("kernel/libframewright_kernel_capi.a")
}

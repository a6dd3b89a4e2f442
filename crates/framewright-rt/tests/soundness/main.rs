//! Programs that must not compile: two owners of a page, or a page without its arena, cannot be written in safe code.
//!
//! Each file of `cases/` is one such program, and the `.stderr` beside it says why the compiler refuses it. The compiler's
//! words change between versions, so the comparison is made with the one that wrote them; with another the test says that
//! it was skipped. `TRYBUILD=overwrite` writes them anew.

use std::process::Command;

/// The compiler whose words are in `cases/*.stderr`.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn misuse_does_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(RUSTC) {
        println!(
            "SKIPPED: programs that must not compile are compared with the words of {RUSTC}x, not of {}",
            version.trim()
        );
        return;
    }
    let cases = trybuild::TestCases::new();
    // Each case is the wrong line of this program.
    cases.pass("tests/soundness/right.rs");
    cases.compile_fail("tests/soundness/cases/*.rs");
}

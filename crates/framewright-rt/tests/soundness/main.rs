//! Programs that must not compile: two owners of a page, or a page without its arena, cannot be written in safe code.
//!
//! Types that may not be copied, sent, or shared are asserted below, whatever the compiler says of them.
//!
//! Each file of `cases/` is one wrong program, and the `.stderr` beside it says why the compiler refuses it. The compiler's
//! words change between versions, so the comparison is made with the one that wrote them; with another the test says that
//! it was skipped. `TRYBUILD=overwrite` writes them anew. No message may quote the standard library: the compiler quotes
//! it only where its source is installed.

use std::process::Command;

use framewright_rt::{Arena, Block, LocalArena, NativePin, OwnedPages, Solo};
use static_assertions::assert_not_impl_any;

// A block has one owner.
assert_not_impl_any!(Block<&'static Arena>: Clone);
assert_not_impl_any!(OwnedPages: Clone);
// A pin is its thread's, and so is the CPU of a local arena.
assert_not_impl_any!(NativePin<'static>: Send, Sync);
assert_not_impl_any!(LocalArena<'static>: Send, Sync);
// The machine of one thread has plain cells.
assert_not_impl_any!(Solo<'static>: Sync);

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
    let cited = std::fs::read_dir("tests/soundness/cases").expect("the directory is there").filter_map(Result::ok);
    for path in cited.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "stderr")) {
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        assert!(!text.contains("$RUST/"), "{}: quotes the standard library", path.display());
    }
    let cases = trybuild::TestCases::new();
    // Each case is the wrong line of this program.
    cases.pass("tests/soundness/right.rs");
    cases.compile_fail("tests/soundness/cases/*.rs");
}

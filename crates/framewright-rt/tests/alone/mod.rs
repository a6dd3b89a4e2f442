//! Tests that need a process of their own: the test program runs itself again, for one test.

use std::process::Command;

/// Set in such a process.
const ALONE: &str = "FRAMEWRIGHT_TEST_ALONE";

/// The name of a test of a module, as the test program's command line takes it.
pub(crate) fn name(module: &str, test: &str) -> String {
    let (_, inside) = module.split_once("::").unwrap();
    format!("{inside}::{test}")
}

/// Returns whether this process runs no other test. If it does, runs the test in a new process that runs no other.
#[must_use]
pub(crate) fn is_alone(module: &str, test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&name(module, test), "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(ALONE, "yes").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    println!("{text}");
    false
}

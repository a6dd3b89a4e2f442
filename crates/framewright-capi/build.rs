//! Gives the shared library its name.
//!
//! Programs ask the loader for `libframewright.so.0`: the number changes with the binary interface alone. A library
//! that was loaded stays: threads that exit and processes that fork call it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libframewright.so.0,-z,nodelete");
    }
}

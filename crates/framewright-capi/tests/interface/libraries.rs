//! The libraries that C programs are linked with.
//!
//! Cargo builds the static and the shared library together with the crate, before its tests: both lie beside the test's
//! program, or one folder above.

use std::path::{Path, PathBuf};

/// How a program gets the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Linking {
    /// Its code is part of the program.
    Static,
    /// The loader finds it, by its versioned name.
    Shared,
}

impl Linking {
    /// Returns the compiler's arguments; `folder` gets the name by which the loader finds the shared library.
    pub(crate) fn arguments(self, folder: &Path) -> Vec<String> {
        let named = |extension| library(extension).display().to_string();
        let libraries = match self {
            // What Rust's standard library needs: `rustc --print native-static-libs`.
            Linking::Static => vec![named("a"), "-lpthread".into(), "-ldl".into(), "-lm".into()],
            Linking::Shared => {
                let link = folder.join("libframewright.so.0");
                if !link.exists() {
                    std::os::unix::fs::symlink(library("so"), &link).expect("a link can be made");
                }
                vec![named("so"), format!("-Wl,-rpath,{}", folder.display())]
            }
        };
        ["-pthread".to_owned()].into_iter().chain(libraries).collect()
    }
}

/// Finds the library with this extension that cargo has built last.
fn library(extension: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libframewright_capi").with_extension(extension));
    let dated = found.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)));
    dated.max().map(|(_, path)| path).unwrap_or_else(|| panic!("cargo has built no libframewright_capi.{extension}"))
}

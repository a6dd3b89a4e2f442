//! The libraries that C programs are linked with.
//!
//! Cargo builds the static and the shared library together with the crate, before its tests: both lie beside the test's
//! program, or one folder above.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::compiler::{Compiler, skipped};

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
    pub(crate) fn arguments(self, folder: &Path, others: &[&str]) -> Vec<String> {
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
        let adapters = format!("-I{}/adapters", env!("CARGO_MANIFEST_DIR"));
        let others = others.iter().map(|other| format!("-l{other}"));
        ["-pthread".to_owned(), adapters].into_iter().chain(libraries).chain(others).collect()
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

/// Returns whether a library is installed that C programs include and link; says loudly if it is not.
pub(crate) fn has(compiler: &Compiler, what: &str, header: &str, library: &str, package: &str) -> bool {
    let mut cc = Command::new("cc");
    cc.args(["-x", "c", "-o"]).arg(compiler.folder.path().join("found")).args(["-", &format!("-l{library}")]);
    let mut child = cc.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("cc starts");
    let text = format!("#include <stdbool.h>\n#include <{header}>\nint main(void) {{ return 0; }}\n");
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("cc reads");
    let is_there = child.wait().expect("cc ends").success();
    if !is_there {
        skipped(what, &format!("the library {library} is not installed (Debian: package {package})"));
    }
    is_there
}

/// Compiles a C program of the crate, linked with `others` too.
pub(crate) fn compiled(compiler: &Compiler, source: &str, linking: Linking, others: &[&str]) -> PathBuf {
    compiler.program(source, &format!("{linking:?}"), &linking.arguments(compiler.folder.path(), others))
}

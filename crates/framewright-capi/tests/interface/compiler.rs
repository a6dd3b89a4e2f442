//! The system's C compiler, and the libraries that C programs are linked with.
//!
//! Cargo builds the static and the shared library together with the crate, before its tests: both lie beside the test's
//! program, or one folder above.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Warnings that are errors in every C program here.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// How a program gets the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Linking {
    /// Its code is part of the program.
    Static,
    /// The loader finds it, by its versioned name.
    Shared,
}

/// The command `cc`, and a folder for what it makes.
pub(crate) struct Compiler {
    folder: TempDir,
}

impl Compiler {
    /// Returns the compiler; `None`, and a loud line, where there is none.
    pub(crate) fn find(what: &str) -> Option<Compiler> {
        let version = Command::new("cc").arg("--version").output();
        if !version.is_ok_and(|version| version.status.success()) {
            skipped(what, "there is no C compiler (cc)");
            return None;
        }
        Some(Compiler { folder: tempfile::tempdir().expect("a temporary folder can be made") })
    }

    /// Checks a text of a language and standard, with all warnings as errors. C++ may be missing.
    pub(crate) fn check(&self, text: &str, language: &str, standard: &str) {
        let mut cc = Command::new("cc");
        cc.args(STRICT).args(["-fsyntax-only", &format!("-std={standard}"), "-x", language]).arg(include()).arg("-");
        let mut child = cc.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cc starts");
        child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("cc reads");
        let output = child.wait_with_output().expect("cc ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        if language == "c++" && (errors.contains("cc1plus") || errors.contains("not recognized")) {
            skipped(standard, "cc compiles no C++ here");
            return;
        }
        assert!(output.status.success(), "{standard}: {errors}");
    }

    /// Returns whether a library is installed that C programs include and link; says loudly if it is not.
    pub(crate) fn has(&self, what: &str, header: &str, library: &str, package: &str) -> bool {
        let mut cc = Command::new("cc");
        cc.args(["-x", "c", "-o"]).arg(self.folder.path().join("found")).args(["-", &format!("-l{library}")]);
        let mut child = cc.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("cc starts");
        let text = format!("#include <stdbool.h>\n#include <{header}>\nint main(void) {{ return 0; }}\n");
        child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("cc reads");
        let is_there = child.wait().expect("cc ends").success();
        if !is_there {
            skipped(what, &format!("the library {library} is not installed (Debian: package {package})"));
        }
        is_there
    }

    /// Compiles a C program of the crate, linked with `libraries` too; `source` is its path there.
    pub(crate) fn program(&self, source: &str, linking: Linking, libraries: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let name = source.file_stem().expect("a source has a name").to_owned();
        let program = self.folder.path().join(name).with_extension(format!("{linking:?}"));
        let mut cc = Command::new("cc");
        cc.args(STRICT).args(["-std=c11", "-O1", "-g", "-pthread", "-D_GNU_SOURCE"]).arg(include());
        cc.arg(format!("-I{}/adapters", env!("CARGO_MANIFEST_DIR"))).arg(&source).arg("-o").arg(&program);
        match linking {
            // What Rust's standard library needs: `rustc --print native-static-libs`.
            Linking::Static => cc.arg(library("a")).args(["-lpthread", "-ldl", "-lm"]),
            Linking::Shared => {
                let library = library("so");
                let link = self.folder.path().join("libframewright.so.0");
                if !link.exists() {
                    std::os::unix::fs::symlink(&library, &link).expect("a link can be made");
                }
                cc.arg(library).arg(format!("-Wl,-rpath,{}", self.folder.path().display()))
            }
        };
        cc.args(libraries.iter().map(|library| format!("-l{library}")));
        let output = cc.output().expect("cc starts");
        assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Runs a program in the compiler's folder, with a variable in its environment.
    pub(crate) fn run(&self, program: &Path, variable: Option<&str>) -> Output {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).envs(variable.map(|name| (name, "1")));
        command.output().expect("the program starts")
    }
}

/// Says what is not checked here. Not by `println!`: what a passing test prints is not shown.
fn skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}: {why}");
}

fn include() -> String {
    format!("-I{}/include", env!("CARGO_MANIFEST_DIR"))
}

/// Finds the library with this extension that cargo has built last.
fn library(extension: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libframewright_capi").with_extension(extension));
    let dated = found.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)));
    dated.max().map(|(_, path)| path).unwrap_or_else(|| panic!("cargo has built no libframewright_capi.{extension}"))
}

//! The system's C compiler, for the tests of both C interfaces.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Warnings that are errors in every C program here.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// The command `cc`, and a folder for what it makes.
pub(crate) struct Compiler {
    pub(crate) folder: TempDir,
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
        cc.args(STRICT).args(["-fsyntax-only", &format!("-std={standard}"), "-x", language]).args(include()).arg("-");
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

    /// Compiles a C program of the crate with further arguments; `source` is its path there.
    pub(crate) fn program(&self, source: &str, kind: &str, arguments: &[String]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let name = source.file_stem().expect("a source has a name").to_owned();
        let program = self.folder.path().join(name).with_extension(kind);
        let mut cc = Command::new("cc");
        cc.args(STRICT).args(["-std=c11", "-O1", "-g", "-D_GNU_SOURCE"]).args(include());
        let output = cc.arg(&source).arg("-o").arg(&program).args(arguments).output().expect("cc starts");
        assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Runs a program in the compiler's folder, with a variable in its environment.
    pub(crate) fn run(&self, program: &Path, arguments: &[&str], variable: Option<&str>) -> Output {
        let mut command = Command::new(program);
        command.args(arguments);
        command.current_dir(self.folder.path()).envs(variable.map(|name| (name, "1")));
        command.output().expect("the program starts")
    }
}

/// Says what is not checked here. Not by `println!`: what a passing test prints is not shown.
pub(crate) fn skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}: {why}");
}

/// The folders of both headers.
fn include() -> [String; 2] {
    ["framewright-capi", "framewright-kernel-capi"]
        .map(|name| format!("-I{}/../{name}/include", env!("CARGO_MANIFEST_DIR")))
}

//! C programs that are a kernel in a process, linked with the library as it is built for kernels.

use std::path::PathBuf;

use crate::compiler::Compiler;
use crate::library;

/// Misuses that the suite must have: as many as hardened_malloc's suite has tests.
const MISUSES: usize = 51;

/// A choice of features, and what the C programs are told of it.
struct Build {
    features: &'static str,
    defines: &'static [&'static str],
}

/// The default, that with the most hooks, and the least.
const DEFAULT: Build = Build { features: "", defines: &[] };
const APART: Build = Build { features: "softirqs,fence-interrupts", defines: &["-DAPART", "-DFENCE_INTERRUPTS"] };
const MINIMAL: Build = Build { features: "tasks,one-cpu,minimal", defines: &["-DMINIMAL"] };

fn compiled(compiler: &Compiler, source: &str, build: &Build) -> PathBuf {
    let library = library::build(build.features).display().to_string();
    let arguments: Vec<String> = build.defines.iter().map(|&define| define.to_owned()).chain([library]).collect();
    compiler.program(source, &build.features.replace(',', "-"), &arguments)
}

/// Compiles a program for a build and runs it once with each argument; returns what it printed.
fn run(source: &str, build: &Build, arguments: &[Option<&str>]) -> Vec<String> {
    let Some(compiler) = Compiler::find(source) else { return Vec::new() };
    let program = compiled(&compiler, source, build);
    let run = |argument: &Option<&str>| {
        let output = compiler.run(&program, argument.as_slice(), None);
        let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{source} ({}): {}\n{printed}{errors}", build.features, output.status);
        printed
    };
    arguments.iter().map(run).collect()
}

/// Runs the misuses; returns their number.
fn misuses(build: &Build) -> Option<usize> {
    let outputs = run("tests/c/misuse.c", build, &[None, Some("without-hooks")]);
    let lines = outputs.iter().flat_map(|output| output.lines());
    let misuses = lines.filter(|line| line.starts_with("misuse ")).count();
    (!outputs.is_empty()).then_some(misuses)
}

#[test]
fn misuses_are_refused_each_with_its_error() {
    let Some(misuses) = misuses(&DEFAULT) else { return };
    assert!(misuses >= MISUSES, "{misuses} misuses");
    let told = format!("`tests/c/misuse.c` has {misuses} such calls");
    assert!(include_str!("../../README.md").contains(&told), "README.md does not say: {told}");
}

#[test]
fn a_misuse_that_gets_another_error_is_noticed() {
    let Some(compiler) = Compiler::find("a planted failure") else { return };
    let program = compiled(&compiler, "tests/c/misuse.c", &DEFAULT);
    assert!(!compiler.run(&program, &[], Some("PLANT_A_FAILURE")).status.success());
}

#[test]
fn functions_do_what_the_header_says() {
    for output in run("tests/c/functional.c", &DEFAULT, &[None, Some("hardened")]) {
        assert!(output.ends_with("functional: all right\n"), "{output}");
    }
}

#[test]
fn so_they_do_where_contexts_have_lists_of_their_own() {
    for output in run("tests/c/functional.c", &APART, &[None, Some("hardened")]) {
        assert!(output.ends_with("functional: all right\n"), "{output}");
    }
    misuses(&APART);
}

#[test]
fn so_they_do_where_little_is_compiled() {
    misuses(&MINIMAL);
}

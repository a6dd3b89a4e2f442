//! C programs, compiled by the system's compiler and run with the static library and with the shared one.

use crate::compiler::Compiler;
use crate::libraries::{Linking, compiled};

/// Misuses that the suite must have: as many as hardened_malloc's suite has tests.
const MISUSES: usize = 51;

/// Compiles and runs a program with both libraries; returns what it printed with each.
fn run(source: &str) -> Vec<String> {
    let Some(compiler) = Compiler::find(source) else { return Vec::new() };
    let run = |linking| {
        let output = compiler.run(&compiled(&compiler, source, linking, &[]), &[], None);
        let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{source} ({linking:?}): {}\n{printed}{errors}", output.status);
        printed
    };
    [Linking::Static, Linking::Shared].map(run).to_vec()
}

const MISUSES_OF: [&str; 3] = ["tests/c/misuse_blocks.c", "tests/c/misuse_rest.c", "tests/c/misuse_options.c"];

#[test]
fn misuses_are_refused_each_with_its_error() {
    let outputs: Vec<String> = MISUSES_OF.into_iter().flat_map(run).collect();
    let lines = outputs.iter().flat_map(|output| output.lines());
    let misuses = lines.filter(|line| line.starts_with("misuse ")).count() / 2;
    if !outputs.is_empty() {
        assert!(misuses >= MISUSES, "{misuses} misuses");
        let told = format!("`tests/c/misuse_*.c` has {misuses} such calls");
        assert!(include_str!("../../README.md").contains(&told), "README.md does not say: {told}");
    }
}

#[test]
fn a_misuse_that_gets_another_error_is_noticed() {
    let Some(compiler) = Compiler::find("a planted failure") else { return };
    let program = compiled(&compiler, MISUSES_OF[0], Linking::Static, &[]);
    assert!(!compiler.run(&program, &[], Some("PLANT_A_FAILURE")).status.success());
}

#[test]
fn functions_do_what_the_header_says() {
    for output in run("tests/c/functional.c") {
        assert!(output.ends_with("functional: all right\n"), "{output}");
    }
}

#[test]
fn the_example_runs() {
    for output in run("examples/buffer_pool.c") {
        assert!(
            output.contains("pages allocated 30576, freed 30576, failed requests 0, refused frees 0\n"),
            "{output}"
        );
        assert!(output.ends_with("given back to the system: 128 MiB\n"), "{output}");
    }
}

#[test]
fn the_programs_of_the_readme_run() {
    let readme = include_str!("../../README.md");
    let programs: Vec<&str> = readme.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let printed = ["freed twice: the block is free already\n", ""];
    assert_eq!(programs.len(), printed.len());
    for (program, printed) in programs.into_iter().zip(printed) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let source = folder.path().join("program.c");
        std::fs::write(&source, program).expect("the program can be written");
        for output in run(source.to_str().expect("a temporary folder has a plain name")) {
            assert_eq!(output, printed);
        }
    }
}

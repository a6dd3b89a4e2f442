//! The adapters for other allocators: their examples, compiled and run where the other library is installed.
//!
//! Each example checks every object that it frees, and ends by checking the arena. A planted failure must be found.

use crate::compiler::Compiler;
use crate::libraries::{Linking, compiled, has};

/// An adapter's example: its source, the other library's header, name and Debian package, and how its output ends.
struct Example {
    source: &'static str,
    header: &'static str,
    linked: &'static str,
    package: &'static str,
    end: &'static str,
}

const JEMALLOC: Example = Example {
    source: "examples/jemalloc.c",
    header: "jemalloc/jemalloc.h",
    linked: "jemalloc",
    package: "libjemalloc-dev",
    end: "jemalloc: all pages came back\n",
};

const MIMALLOC: Example = Example {
    source: "examples/mimalloc.c",
    header: "mimalloc.h",
    linked: "mimalloc",
    package: "libmimalloc-dev",
    end: "mimalloc: all objects were as they were left\n",
};

/// Runs an example with both of our libraries, and once with a planted failure; returns what it printed.
fn outputs(example: &Example) -> Vec<String> {
    let Some(compiler) = Compiler::find(example.source) else { return Vec::new() };
    if !has(&compiler, example.source, example.header, example.linked, example.package) {
        return Vec::new();
    }
    let run = |linking, plant| {
        let program = compiled(&compiler, example.source, linking, &[example.linked]);
        let output = compiler.run(&program, &[], plant);
        let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), printed, errors)
    };
    let (succeeded, _, errors) = run(Linking::Shared, Some("PLANT_A_FAILURE"));
    assert!(!succeeded && errors.contains("an object was overwritten"), "the planted failure was not found: {errors}");
    let sound = |linking| {
        let (succeeded, printed, errors) = run(linking, None);
        assert!(succeeded && printed.ends_with(example.end), "{} ({linking:?}): {printed}{errors}", example.source);
        printed
    };
    [Linking::Static, Linking::Shared].map(sound).to_vec()
}

#[test]
fn jemalloc_takes_its_extents_from_an_arena() {
    for output in outputs(&JEMALLOC) {
        // A jemalloc that keeps its extents fits into the arena. One that gives them back may be refused some.
        let (kept, _) = output.split_once("jemalloc gives back").expect("it runs twice");
        assert!(kept.contains("refused requests: 0 of 80000\n"), "{output}");
        assert_eq!(output.matches("after the jemalloc arena's end: 0 pages allocated\nNode 0, zone").count(), 2);
    }
}

#[test]
fn mimalloc_cuts_its_segments_from_a_range() {
    for output in outputs(&MIMALLOC) {
        assert!(output.starts_with("at first: 0 MiB of the range resident\nNode 0, zone"), "{output}");
    }
}

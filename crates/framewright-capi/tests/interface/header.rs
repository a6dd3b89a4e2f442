//! The header: it is what cbindgen makes of the sources, and compilers accept it.
//!
//! With `UPDATE_HEADER=1` in the environment the first test writes the header instead of comparing it.

use crate::compiler::Compiler;
use crate::made_header::Header;

fn header() -> Header {
    Header::of(env!("CARGO_MANIFEST_DIR"), "framewright.h")
}

#[test]
fn the_header_is_made_from_the_sources() {
    header().compare();
}

#[test]
fn every_function_says_what_it_returns_and_who_may_call_it() {
    let header = header().made();
    let functions: Vec<&str> = header.split("/**").filter(|part| part.contains("*/\nint fw_")).collect();
    assert!(functions.len() > 20, "{} functions", functions.len());
    for function in functions {
        assert!(function.contains("@return") && function.contains("Threads:"), "{function}");
    }
}

#[test]
fn compilers_accept_the_header() {
    let Some(compiler) = Compiler::find("the header") else { return };
    for (language, standard) in [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++17")] {
        compiler.check(
            "#include <framewright.h>\n#include <framewright.h>\nint main(void) { return 0; }\n",
            language,
            standard,
        );
    }
}

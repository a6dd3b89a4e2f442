//! The header: it is what cbindgen makes of the sources, and compilers accept it.
//!
//! With `UPDATE_HEADER=1` in the environment the first test writes the header instead of comparing it.

use std::fs;
use std::path::Path;

use crate::compiler::Compiler;

/// Makes the header from the sources.
fn made() -> String {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_directory.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let shared = crate_directory.join("../framewright-ffi/src/lib.rs");
    let sources =
        cbindgen::Builder::new().with_src(crate_directory.join("src/lib.rs")).with_src(shared).with_config(config);
    let mut header = Vec::new();
    sources.generate().expect("the sources are a C interface").write(&mut header);
    // Rust's heading of what a caller promises.
    let header = String::from_utf8(header)
        .expect("the header is a text")
        .replace("* # Safety\n * ", "* Promised by the caller: ");
    header.lines().map(|line| format!("{}\n", in_hex(line).unwrap_or_else(|| line.to_owned()))).collect()
}

/// Returns the definition of a number as the sources have it, which cbindgen writes in decimal.
fn in_hex(line: &str) -> Option<String> {
    let name = line.strip_prefix("#define ")?.split_once(' ')?.0;
    let sources = [
        include_str!("../../src/options.rs"),
        include_str!("../../../framewright-ffi/src/numbers.rs"),
        include_str!("../../src/reports.rs"),
    ];
    let constant = format!("pub const {name}: u32 = 0x");
    let (digits, _) = sources.iter().find_map(|source| source.split_once(&constant))?.1.split_once(';')?;
    Some(format!("#define {name} 0x{}", digits.replace('_', "")))
}

#[test]
fn the_header_is_made_from_the_sources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/framewright.h");
    let made = made();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        fs::write(&path, made).expect("the header can be written");
        return;
    }
    let checked_in = fs::read_to_string(&path).expect("the header is checked in");
    let differing = checked_in.lines().zip(made.lines()).position(|(old, new)| old != new);
    assert!(checked_in == made, "line {differing:?} of the header differs: run the test with UPDATE_HEADER=1");
}

#[test]
fn every_function_says_what_it_returns_and_who_may_call_it() {
    let header = made();
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

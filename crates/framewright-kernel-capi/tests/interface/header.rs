//! The header: it is what cbindgen makes of the sources, and compilers accept it without a C library.

use crate::compiler::Compiler;
use crate::made_header::Header;

fn header() -> Header {
    Header::of(env!("CARGO_MANIFEST_DIR"), "framewright_kernel.h")
}

#[test]
fn the_header_is_made_from_the_sources() {
    header().compare();
}

#[test]
fn every_function_says_what_it_returns_and_where_it_may_be_called() {
    let header = header().made();
    let is_call = |part: &&str| part.contains("*/\nint fw_kernel") || part.contains("*/\nint64_t fw_");
    let functions: Vec<&str> = header.split("/**").filter(is_call).collect();
    assert!(functions.len() >= 30, "{} functions", functions.len());
    for function in functions {
        assert!(function.contains("@return") && function.contains("Context:"), "{function}");
    }
}

#[test]
fn the_header_includes_what_a_freestanding_compiler_has() {
    let header = header().made();
    let includes: Vec<&str> = header.lines().filter(|line| line.starts_with("#include")).collect();
    assert_eq!(includes, ["#include <stddef.h>", "#include <stdint.h>"]);
}

#[test]
fn compilers_accept_the_header_also_beside_that_of_programs() {
    let Some(compiler) = Compiler::find("the header") else { return };
    let twice = "#include <framewright_kernel.h>\n#include <framewright_kernel.h>\nint main(void) { return 0; }\n";
    let both = twice.replacen("framewright_kernel.h", "framewright.h", 1);
    for text in [twice, &both] {
        for (language, standard) in [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++17")] {
            compiler.check(text, language, standard);
        }
    }
}

/// What the kernel of the README has besides its own code.
const KERNEL: &str = "#include <stddef.h>
#include <stdint.h>
size_t this_cpu(void);
void *phys_to_virt(uint64_t address);
void *memset(void *to, int byte, size_t length);
void panic(const char *format, ...);
extern uint64_t image_start, image_end, mapped_frames;
";

#[test]
fn compilers_accept_the_code_of_the_readme() {
    let Some(compiler) = Compiler::find("the code of README.md") else { return };
    let readme = include_str!("../../README.md");
    let codes: Vec<&str> = readme.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [hooks, boot, calls] = codes[..] else { panic!("{} pieces of code", codes.len()) };
    let text = format!("{KERNEL}{hooks}{boot}int calls(void)\n{{\n{calls}return error;\n}}\n");
    compiler.check(&text, "c", "c11");
}

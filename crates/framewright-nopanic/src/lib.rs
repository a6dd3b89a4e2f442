//! Proof by linking that no operation of the core can panic.
//!
//! Every public operation of `framewright` is called once from a function that the linker keeps ([`calls`]), on a
//! machine whose every answer comes from memory that the compiler cannot see ([`board`]). `ci/no_panic.sh` builds this
//! crate as a freestanding static library (`no_std`, `panic = "abort"`, release, LTO), links it with sections collected
//! from those functions as the only roots, and reads the symbol table of the result. A panic that the optimiser could not
//! rule out leaves two traces there: a function of `core::panicking`, and the undefined symbol that the panic
//! handler below calls. Neither may exist. With the feature `control` one indexing operation is planted, and the check
//! fails unless both traces appear.
//!
//! What the proof covers: the operations with the arguments' full range, under the profile of `freestanding.toml` and
//! the compiler in use. What it does not cover: callbacks of another machine, other optimisation levels, endless loops,
//! and operations that nobody added to [`calls`] (the script compares the core's `pub fn`s by name with what is
//! called there).
//!
//! Formatting counts as an operation. `Display` and derived `Debug` of integers, flags and enums link without a panic,
//! padding and hexadecimal included. Four things of the standard `core` do not, and the core must not use them itself:
//! `{:?}` of a struct whose derived `Debug` has six fields or more (`Formatter::debug_struct_fields_finish` asserts that it
//! got as many names as values),
//! `{:?}` of a `str` and of a `char` (escaping slices the string and unwraps a `char`: `core::str::slice_error_fail`,
//! `core::slice::index::slice_index_fail`, `core::option::unwrap_failed`), and floating-point numbers
//! (`core::num::flt2dec` and `bignum` index and divide).
#![no_std]

pub mod board;
pub mod calls;

/// Where every panic of a freestanding build ends: in a symbol that nothing defines, so that it shows up as undefined.
#[cfg(feature = "freestanding")]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn framewright_panic_is_reachable() -> !;
    }
    // SAFETY: the symbol is never defined, so an object in which this call survives cannot be linked into a program.
    unsafe { framewright_panic_is_reachable() }
}

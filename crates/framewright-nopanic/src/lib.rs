//! Proof by linking that no operation of the core can panic.
//!
//! Every public operation of `framewright` and `framewright-kernel` is called once from a function that the linker
//! keeps ([`calls`], [`kit_calls`]). The machine below takes all of its answers from memory that the compiler cannot
//! see ([`board`]).
//!
//! `ci/no_panic.sh` works in three steps:
//!
//! 1. It builds this crate as a freestanding static library (`no_std`, `panic = "abort"`, release, LTO).
//! 2. It links that with those functions as the only roots, so that unreachable code is gone.
//! 3. It reads the symbol table of the result.
//!
//! A panic that the optimiser could not rule out leaves two symbols: a function of `core::panicking`, and the
//! undefined symbol of the panic handler below. Neither may exist. With the feature `control` one indexing operation
//! is planted, and the check fails unless both symbols appear.
//!
//! The proof covers the operations with the arguments' full range, under the profile `kernel` of Cargo.toml and the
//! compiler in use. It does not cover callbacks of another machine, other optimisation levels, endless loops, and
//! operations that are missing in [`calls`]. For the last, the script compares the core's `pub fn`s by name with the
//! calls there.
//!
//! Formatting counts as an operation. `Display` and derived `Debug` of integers, flags and enums link without a panic,
//! padding and hexadecimal included. Four things of the standard `core` do not, and the core must not use them itself:
//!
//! - `{:?}` of a struct whose derived `Debug` has six fields or more: `Formatter::debug_struct_fields_finish` asserts
//!   that it got as many names as values;
//! - `{:?}` of a `str`: escaping slices the string (`core::str::slice_error_fail`,
//!   `core::slice::index::slice_index_fail`);
//! - `{:?}` of a `char`: escaping unwraps a `char` (`core::option::unwrap_failed`);
//! - floating-point numbers: `core::num::flt2dec` and `bignum` index and divide.
//!
//! # Size
//!
//! `ci/text.sh` builds the crate with one of the features `text-...` instead: boot, alloc and free alone
//! (`three.rs`), on the machine of a small kernel (`kernel.rs`), or through the kit (`kit.rs`). It measures their code.
#![no_std]

pub mod board;
#[cfg(not(feature = "text"))]
pub mod call;
#[cfg(not(feature = "text"))]
pub mod calls;
#[cfg(not(feature = "text"))]
pub mod kit_calls;
#[cfg(not(feature = "text"))]
pub mod layer_calls;
#[cfg(all(feature = "text", not(feature = "text-kit")))]
pub mod kernel;
pub mod kit;
#[cfg(feature = "text")]
pub mod three;

/// Sends every panic of a freestanding build to a symbol that nothing defines.
#[cfg(feature = "freestanding")]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn framewright_panic_is_reachable() -> !;
    }
    // SAFETY: the symbol is never defined, so an object in which this call survives cannot be linked into a program.
    unsafe { framewright_panic_is_reachable() }
}

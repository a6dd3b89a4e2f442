//! The C interface of the arena (`framewright-rt`): `libframewright` with the header `framewright.h`.
//!
//! A C program creates an arena from options, and allocates and frees blocks of it by their addresses. README.md is the
//! page that a C programmer reads first, and `include/framewright.h` describes every function. The header is made from
//! these files by cbindgen; `tests/header.rs` compares them.
//!
//! # The rules of the interface
//!
//! | rule | file |
//! |---|---|
//! | a call returns 0 or a negative number, and its results through pointers | `error.rs` of `framewright-ffi` |
//! | after `FW_E_OS`, `errno` has the system's reason | `errno.rs` |
//! | a handle is recognised before it is followed | `handles.rs` |
//! | NULL and misaligned pointers are refused | `boundary.rs` of `framewright-ffi` |
//! | a structure begins with its size, so that it can grow | `options.rs` |
//! | no panic leaves a call | `boundary.rs`; first stages are the core's, which has none |
//! | a single page takes the fast path, all else goes out of line | `blocks.rs`, `locals.rs` |
//!
//! Cost: a call through C takes at most 1.2 times the instructions of the same call in Rust (`examples/calls.rs`).
//!
//! Rejected: a table of functions, which would be an indirect call each; and the error of the last call by thread,
//! which takes a thread-local write and is read too late.
//!
//! The files are in call order.
#![deny(unsafe_code)]

mod blocks;
mod locals;
mod bulk;
mod reports;
mod arenas;
mod signals;
mod boundary;
mod handles;
mod place;
mod options;
mod error;
mod errno;

pub use arenas::*;
pub use blocks::*;
pub use framewright_ffi::numbers::*;
pub use handles::{fw_arena, fw_local};
pub use locals::*;
pub use options::*;
pub use reports::*;
pub use signals::*;

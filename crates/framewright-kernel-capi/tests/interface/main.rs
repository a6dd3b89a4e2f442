//! The C interface of kernels from outside: its header, and C programs that are linked with the library.

mod header;
mod programs;
#[path = "../../../framewright-capi/tests/interface/made_header.rs"]
mod made_header;
mod library;
#[path = "../../../framewright-capi/tests/interface/compiler.rs"]
mod compiler;

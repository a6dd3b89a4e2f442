//! The C interface from outside: its header, and C programs that use it.

mod header;
mod programs;
mod adapters;
mod made_header;
mod libraries;
mod compiler;

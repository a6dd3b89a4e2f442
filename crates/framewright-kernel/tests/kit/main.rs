//! The kit, on threads that are CPUs of a kernel.

mod board;
mod boots;
mod contexts;
mod maps;
mod tags;

//! Edits, builds, boots and measures a Linux kernel whose page allocator is Framewright.
//!
//! The command is `linux/run`; linux/README.md explains it. The library holds what the command does, so that tests and
//! other tools can call it.
//!
//! | module | does |
//! |---|---|
//! | [`commands`] | reads the command line and calls the rest |
//! | [`edit`] | edits a source tree |
//! | [`object`] | makes an object of Rust one that Linux links |
//! | [`places`] | knows where the project's files are |
//!
//! Cost: the command itself takes milliseconds; what it runs, make and a virtual machine, takes minutes.
//!
//! Rejected: shell scripts. The edits, the verdict on a console and the table of results need tests.

pub mod commands;
pub mod edit;
pub mod object;
pub mod places;

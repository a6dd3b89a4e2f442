//! Edits, builds, boots and measures a Linux kernel whose page allocator is Framewright.
//!
//! The command is `linux/run`; linux/README.md explains it. The library holds what the command does, so that tests and
//! other tools can call it.
//!
//! | module | does |
//! |---|---|
//! | [`commands`] | reads the command line and calls the rest |
//! | [`faults`] | puts the page faults of a large machine beside published ones |
//! | [`report`] | makes tables of results |
//! | [`workload`] | says what a guest runs |
//! | [`console`] | runs a guest and judges its console |
//! | [`machine`] | makes the command line of a virtual machine |
//! | [`guest`] | makes the guest's root file system |
//! | [`build`] | builds a kernel |
//! | [`glue`] | makes the object of Rust |
//! | [`source`] | gets a source tree |
//! | [`edit`] | edits a source tree |
//! | [`object`] | makes an object of Rust one that Linux links |
//! | [`tools`] | finds missing programs |
//! | [`process`] | runs programs |
//! | [`places`] | knows where the project's files are |
//!
//! Cost: the command itself takes milliseconds; what it runs, make and a virtual machine, takes minutes.
//!
//! Rejected: shell scripts. The edits, the verdict on a console and the table of results need tests.

pub mod commands;
pub mod faults;
pub mod report;
pub mod workload;
pub mod console;
pub mod machine;
pub mod guest;
pub mod build;
pub mod glue;
pub mod source;
pub mod edit;
pub mod object;
pub mod tools;
pub mod process;
pub mod places;

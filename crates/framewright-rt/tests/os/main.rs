//! The operating system's effects on a process with allocators: forks, refused calls and limits.

#[path = "../alone/mod.rs"]
mod alone;
mod arena_fork;
mod faults;
mod fork;
#[path = "../forked/mod.rs"]
mod forked;
mod limits;
mod stress_fork;
#[path = "../../examples/stress/watchdog.rs"]
mod watchdog;

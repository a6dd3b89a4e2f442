//! What the operating system does to a process with allocators: it forks, refuses calls and sets limits.

#[path = "../alone/mod.rs"]
mod alone;
mod arena_fork;
mod faults;
mod fork;
#[path = "../forked/mod.rs"]
mod forked;
mod limits;
mod stress_fork;

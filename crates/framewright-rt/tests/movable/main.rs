//! Pages that move and are evicted, and the allocator's callbacks: reclaim, migration, and those that panic.

mod background_reclaim;
mod every_panic;
#[path = "../forked/mod.rs"]
mod forked;
mod moves;
mod pages;
mod panics;

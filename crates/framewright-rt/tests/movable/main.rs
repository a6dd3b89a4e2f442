//! Pages that move and leave, and what the allocator asks of its embedder: reclaim, migration, and callbacks that panic.

mod background_reclaim;
#[path = "../forked/mod.rs"]
mod forked;
mod moves;
mod pages;
mod panics;

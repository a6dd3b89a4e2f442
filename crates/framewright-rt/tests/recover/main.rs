//! Arenas that are recovered from their file, after a kill or an ordinary end.

#[path = "../forked/mod.rs"]
mod forked;
mod blocks;

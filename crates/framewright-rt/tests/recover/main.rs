//! Arenas that are recovered from their file, after a kill or an ordinary end.

mod blocks;
mod child;
mod damage;
#[path = "../forked/mod.rs"]
mod forked;
mod kills;
mod log;
mod steps;

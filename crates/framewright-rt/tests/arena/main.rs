//! Arenas as a program uses them: how they are built, the blocks they hand out, and their reports.

#[path = "../alone/mod.rs"]
mod alone;
mod building;
mod cgroup;
mod contents;
mod examples;
mod export;
#[path = "../forked/mod.rs"]
mod forked;
mod growth;
mod hardened;
mod large;
mod large_numbers;
#[cfg(any(debug_assertions, feature = "owners"))]
mod owners;
mod pages;
mod ranges;
mod safe_views;
mod shapes;
mod shortage;

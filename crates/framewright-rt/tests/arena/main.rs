//! Arenas as a program uses them: what they are built of, what they hand out, and what they tell of themselves.

#[path = "../alone/mod.rs"]
mod alone;
mod building;
mod contents;
mod examples;
mod export;
#[path = "../forked/mod.rs"]
mod forked;
mod hardened;
mod large;
mod large_numbers;
mod pages;
mod safe_views;
mod shapes;

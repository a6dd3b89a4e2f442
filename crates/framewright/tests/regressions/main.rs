//! Bugs that a review or stress found, each by a test that failed then.

mod callbacks;
mod calls;
mod damage;
mod drain;
mod lists;
#[path = "../threads/mod.rs"]
mod machine;
mod panics;
mod threads;

//! The allocator as its embedder calls it, on threads and on one thread that plays all CPUs.

mod atlas;
mod bulk;
mod compiled;
mod copied;
mod copies;
mod embed;
mod holes;
mod layout;
mod range_threads;
mod remerge;
mod seam;
mod sections;
mod smp_list;
#[path = "../threads/mod.rs"]
mod threads;
mod zone_locks;

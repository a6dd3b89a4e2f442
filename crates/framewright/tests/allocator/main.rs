//! The allocator as its embedder calls it, on threads and on one thread that plays all CPUs.

mod alloc_in;
mod allocated;
mod atlas;
mod bulk;
mod bulk_alike;
mod compact_in;
mod compiled;
mod copied;
mod copies;
mod cpu_handle;
mod cut;
mod damaged;
mod edges;
mod embed;
mod free_part;
mod holes;
mod layout;
mod maps;
mod range_threads;
mod remerge;
mod reporting;
mod reserved;
mod roles;
mod saved;
mod seam;
mod sections;
mod smp_list;
mod stopped;
mod tags;
#[path = "../threads/mod.rs"]
mod threads;
mod told;
mod wrong_words;
mod zone_locks;
mod zones;

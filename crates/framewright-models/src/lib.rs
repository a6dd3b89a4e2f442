//! Model checking of the allocator: the production core under every schedule of a few threads.
//!
//! [`loom_machine::LoomMachine`] is a machine whose words are loom's atomics, so the core runs here unchanged. A
//! [`explore::Model`] says what two or three CPUs do at once; exploration plays it under every interleaving and every value that
//! the memory model allows a load to return, up to a number of preemptions where the search would not end otherwise.
//!
//! # What a model checks
//!
//! Each page has a payload of plain memory, written by whoever owns the page: if handing a page from its old owner to the new
//! one is not ordered, loom reports a data race on the payload. At the end every model runs `validate`, and counts that no page was
//! lost or has two owners.
//!
//! # What it covers
//!
//! Locks and per-CPU lists with two threads are searched without a bound where that ends within seconds, else with three
//! preemptions; zones likewise; ranges (the largest sections) with one. Owners at the front and depots are searched with one to
//! three, one or two where fences strike.
//!
//! Lists that many CPUs change at once have a stage of their own ([`lists`]), so small that two threads are searched without a bound
//! but for the longest models, and three with two preemptions.
//!
//! `MODELS_BOUND=3` asks for another number of preemptions, `MODELS_BOUND=any` for any. `MODELS=front_a` in the environment runs
//! those models alone whose names begin so. `cargo test -p framewright-models -- --nocapture` prints for each model its bound, the number of words the threads share, and the number of executions.
//!
//! The negative controls in `tests/controls.rs` weaken one call of the core at a time, from below, and demand that a model
//! finds it.
//!
//! # What it cannot show
//!
//! loom has no load buffering, knows no fence that acts on another thread ([`interrupt`] says how the pair is modelled), and
//! more than three threads or longer sections do not end.

pub mod device;
pub mod explore;
pub mod interrupt;
pub mod lists;
pub mod loom_machine;
pub mod models;
pub mod published;
mod running;
pub mod session;
pub mod stage;
pub mod word;

/// The core's seam and units, by the paths under which its locks name them.
#[allow(dead_code, unreachable_pub, reason = "the core uses the rest")]
#[path = "."]
mod seam {
    pub(crate) use framewright::machine;

    #[path = "../../framewright/src/seam/field.rs"]
    pub(crate) mod field;
}
mod types {
    pub(crate) mod units {
        pub(crate) use framewright::NodeId;
    }
}

/// The core's locks, compiled here once more so that a model can take them without an allocator.
#[allow(dead_code, unreachable_pub, reason = "the core uses the rest")]
#[path = "."]
mod sync {
    #[path = "../../framewright/src/sync/queued_lock.rs"]
    pub mod queued_lock;
    #[path = "../../framewright/src/sync/ticket_lock.rs"]
    pub mod ticket_lock;
}

//! Model checking of the allocator: the production core under every schedule of a few threads.
//!
//! [`loom_machine::LoomMachine`] is a machine whose words are loom's atomics, so the core runs here unchanged. A
//! [`explore::Model`] says what two or three CPUs do at once. Exploration runs it under every interleaving and every
//! value that the memory model allows a load to return. Where that search would not end, the number of preemptions is
//! bounded.
//!
//! # What a model checks
//!
//! Each page has a payload of plain memory, which the page's owner writes. If the handover of a page is not ordered,
//! loom reports a data race on the payload. At the end every model runs `validate`, and checks that no page was lost or
//! has two owners.
//!
//! # What it covers
//!
//! | models | preemptions |
//! |---|---|
//! | locks, zones and per-CPU lists | any number where the search ends within seconds, else one to four |
//! | ranges, which have the largest sections | one or two |
//! | the fast path and depots | one to three, and at most two where heavy fences interrupt |
//! | lists that many CPUs change at once | any; four to six in the longest models, two with three threads |
//!
//! `MODELS_BOUND=3` asks for another number of preemptions, `MODELS_BOUND=any` for any number. `MODELS=front_a` runs
//! only the models whose names begin so. `cargo test -p framewright-models -- --nocapture` prints for each model its
//! bound, the number of words that the threads share, and the number of executions.
//!
//! `tests/orderings` weakens every call of the core that orders memory, one at a time and without a change in the core,
//! and demands that a model fails. The negative controls in `tests/controls.rs` plant other bugs.
//!
//! # What it cannot show
//!
//! loom lets no load pass a later store. Where that matters, accesses read a payload ([`lists`], [`models::ring`]).
//! It has no fence that acts on another thread; [`interrupt`] says how the pair of fences is modelled. The search does
//! not end with more than three threads, or with longer sections.

pub mod device;
pub mod explore;
mod held;
pub mod interrupt;
pub mod kept;
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
        pub(crate) use framewright::{NodeId, Order};

        /// Like the core's, which it keeps to itself.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct Frame(pub(crate) u32);
    }
}

/// The core's rings, compiled a second time here, so that a model can use one without an allocator.
#[allow(dead_code, unreachable_pub, reason = "the core uses the rest")]
#[path = "."]
mod pcp {
    #[path = "../../framewright/src/pcp/ring.rs"]
    pub(crate) mod ring;
    #[path = "../../framewright/src/pcp/stride.rs"]
    pub(crate) mod stride;
}
#[allow(dead_code, unreachable_pub, reason = "the core uses the rest")]
#[path = "."]
mod frame {
    #[path = "../../framewright/src/frame/head.rs"]
    pub(crate) mod head;
}

/// The core's locks, compiled a second time here, so that a model can take them without an allocator.
#[allow(dead_code, unreachable_pub, reason = "the core uses the rest")]
#[path = "."]
mod sync {
    #[path = "../../framewright/src/sync/queued_lock.rs"]
    pub mod queued_lock;
    #[path = "../../framewright/src/sync/ticket_lock.rs"]
    pub mod ticket_lock;
}

/// The runtime's shared pointer, by the path under which its protocols name it.
#[path = "../../framewright-rt/src/pointer.rs"]
mod pointer;

/// The runtime's protocols, compiled a second time here, so that they run on loom's words.
#[allow(dead_code, unreachable_pub, rustdoc::broken_intra_doc_links, reason = "the runtime uses the rest")]
#[path = "."]
mod rt {
    #[path = "../../framewright-rt/src/interrupts/handler_word.rs"]
    pub mod handler_word;
    #[path = "../../framewright-rt/src/holder.rs"]
    pub mod holder;
    #[path = "../../framewright-rt/src/movable/note.rs"]
    pub mod note;
    #[path = "../../framewright-rt/src/set_once.rs"]
    pub mod set_once;
    #[path = "../../framewright-rt/src/waiters.rs"]
    pub mod waiters;
    #[path = "../../framewright-rt/src/arena/workers.rs"]
    pub mod workers;
}

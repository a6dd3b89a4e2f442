//! Model checking of the allocator: the production core under every schedule of a few threads.

// `lock.rs` below says `crate::machine`, as it does at home.
use framewright::machine;

pub mod models;
pub mod explore;
pub mod stage;
#[path = "../../framewright/src/lock.rs"]
#[allow(dead_code, reason = "the core uses the rest")]
mod lock;
pub mod loom_machine;
pub mod word;
pub mod session;

//! `framewright top`: the allocator of a simulated machine, of a live process, or of this machine's kernel, on a
//! terminal.
//!
//! ```text
//! kernel, socket, simulation ──feed──▶ Sample ──▶ Screen ──draw──▶ terminal, or a frame of text
//!                                                  ▲ keys
//! ```
//!
//! A source works on a thread of its own and sends samples; the state takes samples and keys, and is drawn. Neither
//! knows the other, or a clock: a test plays recorded samples and keys, and compares frames. What every panel means,
//! with its units and where its numbers are from, is in `docs/top.md`.

pub mod terminal;
pub mod kernel;
pub mod socket;
pub mod simulation;
pub mod sweep;
pub mod feed;
pub mod draw;
pub mod state;
pub mod sample;
pub mod map;

pub use draw::{Theme, frame};
pub use feed::{Feed, Told};
pub use kernel::Kernel;
pub use sample::Sample;
pub use simulation::Simulation;
pub use socket::Socket;
pub use state::{About, Asked, Clock, Key, Screen};

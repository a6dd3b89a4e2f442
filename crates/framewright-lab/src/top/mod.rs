//! `framewright top`: the allocator of a simulated machine, of a live process, or of this machine's kernel, on a
//! terminal.
//!
//! ```text
//! kernel, socket, simulation ──feed──▶ Sample ──▶ Screen ──draw──▶ terminal, or a frame of text
//!                                                   ▲ keys
//! ```
//!
//! A source works on a thread of its own and sends samples; the state takes samples and keys, and is drawn. Source and
//! state do not know each other, nor a clock, so a test plays recorded samples and keys and compares frames.
//! `docs/top.md` says what every panel means, with its units and the origin of its numbers.

pub mod terminal;
pub mod kernel;
pub mod socket;
mod simulation;
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
pub use state::{About, Asked, Key, Screen, TimeBase};

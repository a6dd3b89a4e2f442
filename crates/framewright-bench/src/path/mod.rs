//! The paths that are measured: the very same code on this machine and on the simulated one.
//!
//! Each is one loop over calls of the allocator, generic over the machine and over who tells the time. A call is a
//! function that the compiler may specialise for its constant request but not melt into the loop, as in
//! `framewright bench`; on the simulated machine what the loop itself takes is charged as so many instructions
//! ([`Watch::called`]).

mod native;
mod rounds;
mod catalogue;

pub use catalogue::{FITTED, FRAMES, PREDICTED, Path, PathWork, START, Through};
pub use native::measure;
pub use rounds::{Watch, mean};

//! The paths that `framewright calibrate` measures: one code for this machine and for the simulated one.
//!
//! Each is one loop over calls of the allocator, generic over the machine and over the clock. A call is a function that
//! the compiler may specialise for its constant request but not melt into the loop, as in `framewright bench`; on the
//! simulated machine the loop itself is charged as a number of instructions ([`Watch::called`]).

mod native;
mod rounds;
mod catalogue;

pub use catalogue::{FITTED, FRAMES, PREDICTED, Path, PathWork, START, Through};
pub use native::measure;
pub use rounds::{Watch, mean};

//! Machines as files: every number with its unit and with where it comes from.
//!
//! A machine's file (`data/machines/*.toml`) is a list of numbers that a reader can check one by one. Each names its
//! unit by its key and its origin by one of three words:
//!
//! ```toml
//! hit = { ns = 53.7, source = "FD.io CSIT, MLC" }            # measured, and read there
//! read = { ns = 8.5, fitted = "numa-stats/32" }              # chosen so that these rows of published tables come out
//! pin = { cycles = 11, assumed = "as on a 4 GHz desktop" }   # neither, and why one may think so
//! ```
//!
//! A number that is fitted to a row of a table cannot predict that row. So the origin stays with the number: [`Spec`]
//! keeps all of them by path, reports list them, and an analysis of sensitivity scales one at a time. [`Spec::model`]
//! turns them into the simulator's own numbers.
//!
//! A file also holds the rows that a latency checker printed on such a machine (`[mlc]`). They are no parameters: a
//! simulated latency checker must print them in turn.

mod assemble;
mod lookup;
mod read;
mod write;
mod convert;
mod spec;
mod error;
mod built_in;
mod schema;
mod origin;

pub use assemble::assemble;
pub use built_in::{MOST_CPUS, names};
pub use error::MachineError;
pub use lookup::{load, named, parse};
pub use origin::{Basis, Unit};
pub use spec::{Parameter, Spec};
pub use write::Written;

//! Machines as files: every number with its unit and with where it comes from.
//!
//! A machine's file (`data/machines/*.toml`) is a list of numbers that a reader can check one by one. Each names its
//! unit by its key and its origin by one of three words:
//!
//! ```toml
//! hit = { ns = 53.7, source = "FD.io CSIT, MLC" }            # somebody measured it, and it was read there
//! read = { ns = 8.5, fitted = "numa-stats/32" }              # chosen so that these rows of published tables come out
//! pin = { cycles = 11, assumed = "as on a 4 GHz desktop" }   # neither, and why one may think so
//! ```
//!
//! What is fitted to a row of a table cannot predict that row. Therefore the origin stays with the number: [`Spec`]
//! keeps all of them by path, reports list them, and an analysis of sensitivity scales one at a time.
//! [`Spec::model`] turns them into what the simulator computes with.
//!
//! Besides, a file holds what a latency checker printed on such a machine (`[mlc]`). Those rows are no parameters: they
//! are what a simulated latency checker has to print in turn.

mod lookup;
mod read;
mod write;
mod convert;
mod spec;
mod error;
mod built_in;
mod schema;
mod origin;

pub use built_in::{MOST_CPUS, names};
pub use error::MachineError;
pub use lookup::{load, named, parse};
pub use origin::{Basis, Unit};
pub use spec::{Parameter, Spec};
pub use write::Written;

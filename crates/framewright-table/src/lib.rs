//! Text for terminals: tables whose columns never touch, figures, broken lines, and ranges as users type them.
//!
//! The crate stands below all others and depends on none, so that every command writes and reads these in one way.
#![forbid(unsafe_code)]

mod table;
pub mod figures;
mod wrap;
mod ranges;

pub use ranges::{range, ranges};
pub use table::{GAP, Table};
pub use wrap::wrapped;

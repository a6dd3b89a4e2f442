//! Results beside each other: what changed from one file to the next, by how much, and whether that may be chance.
//!
//! Files are the JSON of `sim`, `bench`, `reproduce` and `replay`. In call order:
//!
//! - [`text`] for people, [`tables`] as mmtests and the 0-day robot print them, [`lines`] for benchstat,
//!   will-it-scale's readers and page_bench's;
//! - [`names`]: those that are too long for a column;
//! - [`comparison`]: which files belong together, what is shown, what got worse;
//! - [`place`]: points into rows and columns, and what differs besides;
//! - [`table`]: rows, cells, and how a cell stands to the base's;
//! - [`statistics`]: medians with intervals, and the U test;
//! - [`points`]: the figures in a document, each with all that it depends on;
//! - [`read`]: a file's documents.

pub mod text;
pub mod tables;
pub mod lines;
pub mod names;
pub mod comparison;
pub mod place;
pub mod table;
pub mod statistics;
pub mod points;
pub mod read;

pub use comparison::{Choice, Comparison};
pub use place::Side;
pub use table::By;

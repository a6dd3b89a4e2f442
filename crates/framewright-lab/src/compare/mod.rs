//! Results beside each other: changes from one file to the next, their size, and whether chance may explain them.
//!
//! Files are the JSON of `sim`, `bench`, `reproduce` and `replay`. In call order:
//!
//! - [`text`] for people, [`tables`] as mmtests and the 0-day robot print them, [`lines`] for benchstat,
//!   will-it-scale's readers and page_bench's;
//! - [`names`]: names that are too long for a column;
//! - [`comparison`]: files that belong together, the choice of rows, rows that got worse;
//! - [`place`]: points into rows and columns, and the differences beside the compared one;
//! - [`table`]: rows, cells, and a cell's difference to the base's;
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

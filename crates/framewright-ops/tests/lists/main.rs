//! Lists of operations: the language, what runs find, and what must come of each operation.

mod callbacks;
mod cases;
mod faults;
mod language;
mod misuse;
mod moved;
mod regressions;
mod reports;
mod sequences;
mod statistics;
mod tables;
mod zones;

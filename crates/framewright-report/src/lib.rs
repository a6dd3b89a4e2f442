#![forbid(unsafe_code)]
//! x
mod answer_text;
pub mod answer;
pub mod trial;
pub mod rebuild;
pub mod remedies;
pub mod decision;
pub mod from_proc;
pub mod read;
pub mod report;
pub mod memory;

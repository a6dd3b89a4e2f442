//! Vocabulary of the core: units, requests and errors. Every folder may use these.

pub mod request;
pub mod error;
pub(crate) mod why;
pub(crate) mod migratetype;
pub(crate) mod counts;
pub(crate) mod units;

//! The subcommands: arguments in, a call of the library, output out.

pub(crate) mod replay;
pub(crate) mod explain;
pub(crate) mod convert;
pub(crate) mod record;
pub(crate) mod doctor;
pub(crate) mod bench;
pub(crate) mod sim;
pub(crate) mod sweep;
pub(crate) mod reproduce;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod stress;
pub(crate) mod ops;
pub(crate) mod list_mechanisms;
pub(crate) mod proc;
pub(crate) mod top;
pub(crate) mod completions;
pub(crate) mod man;
mod recording;
mod advice;
mod runs;
mod folder;
mod file;
mod reading;
pub(crate) mod ended;
pub(crate) mod output;

//! Two ways for a command to end without a message, and the one that is no failure at all.

use std::io;

/// A check failed, and has printed its message.
#[derive(Debug, thiserror::Error)]
#[error("something is wrong")]
pub(crate) struct Violated;

/// A program that was run for the user ended with this code; the command ends with it too.
#[derive(Debug, thiserror::Error)]
#[error("the command ended with code {0}")]
pub(crate) struct Ended(pub(crate) u8);

/// Whether the reader of the output closed it.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

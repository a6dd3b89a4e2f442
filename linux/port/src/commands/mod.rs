//! The subcommands of `linux/run`, a file each.
//!
//! The idea: a file holds a subcommand's options and prints its results; modules of the library do the work.
//! Cost: none. Rejected: one file of all options, which would be read whole to change one.

mod edit;

use clap::{Parser, Subcommand};

/// Edits, builds, boots and measures Linux with Framewright as its page allocator.
#[derive(Debug, Parser)]
#[command(name = "linux/run", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Edit(edit::EditTree),
}

impl Cli {
    /// Runs the chosen subcommand.
    ///
    /// # Errors
    ///
    /// Whatever stopped it, for the user to read.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Edit(edit) => edit.run(),
        }
    }
}

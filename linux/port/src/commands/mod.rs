//! The subcommands of `linux/run`, a file each.
//!
//! The idea: a file holds a subcommand's options and prints its results; modules of the library do the work.
//! Cost: none. Rejected: one file of all options, which would be read whole to change one.

mod run;
mod table;
mod boot;
mod build;
mod source;
mod edit;
mod object;
mod options;

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
    Source(source::GetSource),
    Edit(edit::EditTree),
    Object(object::MakeObject),
    Build(build::BuildKernel),
    Boot(boot::BootKernel),
    Run(run::RunWorkload),
    Table(table::ShowTable),
}

impl Cli {
    /// Runs the chosen subcommand.
    ///
    /// # Errors
    ///
    /// Whatever stopped it, for the user to read.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Source(source) => source.run(),
            Command::Edit(edit) => edit.run(),
            Command::Object(object) => object.run(),
            Command::Build(build) => build.run(),
            Command::Boot(boot) => boot.run(),
            Command::Run(run) => run.run(),
            Command::Table(table) => table.run(),
        }
    }
}

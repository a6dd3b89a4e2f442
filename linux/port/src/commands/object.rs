//! `linux/run object`: makes the object of Rust alone.
//!
//! Idea, cost and alternatives: see the module `glue` of the library, which this file calls.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::glue;

/// Make the object of Rust that both kinds of kernel link; print where it is.
#[derive(Args, Debug)]
pub(super) struct MakeObject {
    /// Directory for the object and what it is made of
    #[arg(default_value = "target/linux/glue")]
    directory: PathBuf,
}

impl MakeObject {
    /// Makes the object.
    ///
    /// # Errors
    ///
    /// A program is missing, or a step fails.
    pub(super) fn run(self) -> Result<()> {
        let directory = std::path::absolute(self.directory)?;
        println!("{}", glue::object(&directory)?.display());
        Ok(())
    }
}

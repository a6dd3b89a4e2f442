//! `linux/run source`: gets the source tree of Debian's package.
//!
//! Idea, cost and alternatives: see the module `source` of the library, which this file calls.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::options::Work;
use crate::source::Source;

/// Get the source tree of a kernel from Debian, and print where it is.
#[derive(Args, Debug)]
pub(super) struct GetSource {
    /// Version of Debian's source package
    #[arg(long, default_value = "6.1", value_name = "X.Y")]
    version: String,
    /// Where to unpack it [default: source/ of the work directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Package that is downloaded already
    #[arg(long, value_name = "FILE")]
    deb: Option<PathBuf>,
    #[command(flatten)]
    work: Work,
}

impl GetSource {
    /// Gets the tree, unless it is there.
    ///
    /// # Errors
    ///
    /// The package cannot be downloaded or unpacked.
    pub(super) fn run(self) -> Result<()> {
        let directory = match self.dir {
            Some(directory) => {
                std::fs::create_dir_all(&directory)?;
                directory.canonicalize()?
            }
            None => self.work.directory()?.join("source"),
        };
        let package = self.deb.map(|package| package.canonicalize()).transpose()?;
        let source = Source::of_debian(&self.version, &directory, package.as_deref())?;
        println!("{}", source.root.display());
        Ok(())
    }
}

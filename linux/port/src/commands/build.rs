//! `linux/run build`: builds a kernel.
//!
//! Idea, cost and alternatives: see the module `build` of the library, which this file calls.

use std::time::Instant;

use anyhow::Result;
use clap::Args;

use super::options::KernelOptions;

/// Copy, edit, configure and compile a kernel; print where it is.
#[derive(Args, Debug)]
pub(super) struct BuildKernel {
    #[command(flatten)]
    kernel: KernelOptions,
    /// Leave Framewright out
    #[arg(long)]
    stock: bool,
}

impl BuildKernel {
    /// Builds the kernel, unless it is built.
    ///
    /// # Errors
    ///
    /// A program is missing, an edit finds no place, or a step fails.
    pub(super) fn run(self) -> Result<()> {
        let began = Instant::now();
        let kernel = self.kernel.build(self.stock)?;
        let how = if kernel.is_new { "built" } else { "up to date" };
        println!("{} ({how}, {:.0} s)", kernel.image.display(), began.elapsed().as_secs_f64());
        Ok(())
    }
}

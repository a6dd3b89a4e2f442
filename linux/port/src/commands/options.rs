//! Options that several subcommands share: which kernel, and where work is kept.
//!
//! The idea: a subcommand that needs a kernel takes these and calls [`KernelOptions::build`], which does nothing if the
//! kernel is built. Cost: none. Rejected: a file of settings.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::build::{Arch, Kernel, Request};
use crate::places;
use crate::source::Source;

/// Where source trees, kernels and logs are kept.
#[derive(Args, Clone, Debug)]
pub(super) struct Work {
    /// Directory of source trees, kernels and logs [default: target/linux]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// Which kernel to build.
#[derive(Args, Clone, Debug)]
pub(super) struct KernelOptions {
    /// What the kernel runs on: a process of the host, or a PC in QEMU
    #[arg(long, value_enum, default_value_t = Arch::Um)]
    pub(super) arch: Arch,
    /// Version of Debian's source package
    #[arg(long, default_value = "6.1", value_name = "X.Y", conflicts_with = "source")]
    version: String,
    /// Source tree to copy, instead of Debian's
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Let the kernel check itself: lockdep, KASAN, lists, poisoned pages
    #[arg(long)]
    debug: bool,
    /// List of edits [default: linux/edits.toml]
    #[arg(long, value_name = "FILE")]
    edits: Option<PathBuf>,
    /// Object made of Rust [default: made of linux/glue]
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    #[command(flatten)]
    pub(super) work: Work,
}

impl Work {
    /// The work directory, as an absolute path; it exists.
    pub(super) fn directory(&self) -> Result<PathBuf> {
        let directory = self.work.clone().unwrap_or_else(|| places::root().join("target/linux"));
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        Ok(directory.canonicalize()?)
    }
}

impl KernelOptions {
    /// Builds the kernel unless it is built, and prints what there is to say about it.
    pub(super) fn build(&self, stock: bool) -> Result<Kernel> {
        let work = self.work.directory()?;
        let source = match &self.source {
            Some(directory) => Source::of_user(directory)?,
            None => Source::of_debian(&self.version, &work.join("source"), None)?,
        };
        let edits = self.edits.clone().unwrap_or_else(|| places::port().join("edits.toml"));
        let (arch, debug, object) = (self.arch, self.debug, self.object.clone());
        let kernel = Request { source, arch, debug, stock, edits, object, work }.build()?;
        for note in kernel.notes.iter().filter(|_| kernel.is_new) {
            eprintln!("{note}");
        }
        Ok(kernel)
    }
}

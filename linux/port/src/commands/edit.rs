//! `linux/run edit`: edits a source tree, or checks whether all edits find their places.
//!
//! Idea, cost and alternatives: see the module `edit` of the library, which this file calls.

use std::path::PathBuf;

use clap::Args;

use crate::edit::{EditList, Ours, Plan, Summary, is_edited};
use crate::places;

/// Edit a source tree of Linux: all edits of the list, or none.
#[derive(Args, Debug)]
pub(super) struct EditTree {
    /// Root of the source tree
    tree: PathBuf,
    /// Only look for the places of all edits; write nothing
    #[arg(long)]
    check: bool,
    /// List of edits [default: linux/edits.toml]
    #[arg(long, value_name = "FILE")]
    edits: Option<PathBuf>,
    /// Object made of Rust, to be linked into the kernel
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
}

impl EditTree {
    /// Edits the tree and prints a summary.
    ///
    /// # Errors
    ///
    /// The list cannot be read, edits find no place, or the tree cannot be written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let edits = self.edits.unwrap_or_else(|| places::port().join("edits.toml"));
        let list = EditList::read(&edits)?;
        if let Some(trace) = is_edited(&self.tree).filter(|_| self.check) {
            anyhow::bail!("{} is edited already ({trace} exists); check an untouched copy", self.tree.display());
        }
        let plan = Plan::new(&list, &self.tree)?;
        if !self.check {
            plan.apply(&self.tree, &Ours::of(&places::port().join("kernel"), self.object)?)?;
        }
        println!("{}", Summary(&plan));
        if self.check {
            println!("checked; nothing was written");
        }
        Ok(())
    }
}

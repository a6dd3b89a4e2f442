//! `linux/run edit`: edits a source tree, or checks whether all edits find their places.
//!
//! An edited tree has all that it needs: the object of Rust is made first and copied with our C files. Idea, cost and
//! alternatives: see the module `edit` of the library, which this file calls.

use std::path::PathBuf;

use clap::Args;

use super::options::Work;
use crate::edit::{EditError, EditList, Ours, Plan, Summary, is_edited};
use crate::glue;
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
    /// Object made of Rust [default: made of linux/glue]
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    #[command(flatten)]
    work: Work,
}

impl EditTree {
    /// Edits the tree and prints a summary.
    ///
    /// # Errors
    ///
    /// The list cannot be read, edits find no place, the object cannot be made, or the tree cannot be written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let edits = self.edits.unwrap_or_else(|| places::port().join("edits.toml"));
        let list = EditList::read(&edits)?;
        if let Some(trace) = is_edited(&self.tree) {
            return Err(EditError::EditedAlready { tree: self.tree, trace }.into());
        }
        let plan = Plan::new(&list, &self.tree)?;
        if !self.check {
            let object = match self.object {
                Some(object) => object,
                None => glue::object(&self.work.directory()?.join("glue"))?,
            };
            plan.apply(&self.tree, &Ours::of(&places::port().join("kernel"), Some(object))?)?;
        }
        println!("{}", Summary(&plan));
        if self.check {
            println!("checked; nothing was written");
        }
        Ok(())
    }
}

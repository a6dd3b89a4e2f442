//! `linux/run table`: puts the results of `linux/measure` together.
//!
//! Idea, cost and alternatives: see the module `faults` of the library, which this file calls.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::faults::{Measurements, Published};
use crate::places;

/// Put what linux/measure wrote for several kernels beside the published table.
#[derive(Args, Debug)]
pub(super) struct ShowTable {
    /// Files of linux/measure, or directories of such files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Kernel that the others are compared with [default: patch1, or the first one without it]
    #[arg(long, value_name = "PRESET")]
    base: Option<String>,
}

impl ShowTable {
    /// Prints the tables.
    ///
    /// # Errors
    ///
    /// A file cannot be read, is not of linux/measure, or is of another machine than the one before.
    pub(super) fn run(self) -> Result<()> {
        let mut measured = Measurements::default();
        for path in files(&self.paths)? {
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            measured.add(&text).with_context(|| path.display().to_string())?;
        }
        let published = places::root().join("data/published/zone-lock.toml");
        let text = fs::read_to_string(&published).with_context(|| format!("cannot read {}", published.display()))?;
        print!("{}", measured.tables(&Published::parse(&text)?, self.base.as_deref())?);
        Ok(())
    }
}

/// The files, with each directory replaced by its files of results, by name.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut within = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        within.retain(|file| Path::extension(file).is_some_and(|extension| extension == "csv"));
        within.sort();
        files.append(&mut within);
    }
    Ok(files)
}

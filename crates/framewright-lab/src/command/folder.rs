//! The folder of a report: pages for a browser, and the same as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// The name of the page that is opened first.
pub(crate) const PAGE: &str = "index.html";
/// What a page of ours says of who made it.
const GENERATOR: &str = "<meta name=\"generator\" content=\"framewright ";

/// Makes the folder, if it is not somebody else's: found out before the runs, not behind them.
pub(crate) fn prepare(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}; name another", folder.display()))?;
    match fs::read_to_string(folder.join(PAGE)) {
        Ok(page) if !page.contains(GENERATOR) => {
            bail!("{} is no page of ours; name another folder", folder.join(PAGE).display())
        }
        _ => Ok(()),
    }
}

/// Writes files by their names.
pub(crate) fn write(folder: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Where the page is, in words.
pub(crate) fn told(folder: &Path) -> String {
    format!("\nThe page is {}\n", folder.join(PAGE).display())
}

//! The folder of a report: pages for a browser, and their data as JSON.

use std::path::Path;

use anyhow::Context;
use framewright_trace::output::{Access, Folder};

use super::file;

/// The name of the page that is opened first.
pub(crate) const PAGE: &str = "index.html";
/// The mark of a page of ours.
const GENERATOR: &str = "<meta name=\"generator\" content=\"framewright ";
/// The mark of a document of ours.
const SCHEMA: &str = "\"schema\": \"framewright-";

/// Makes the folder, if no file that is to be written is foreign. Called before the runs, so that no run is in vain.
pub(crate) fn prepare(folder: &Path, names: &[&str]) -> anyhow::Result<()> {
    Folder::make(folder, Access::Shared)
        .with_context(|| format!("cannot make the folder {}; name another", folder.display()))?;
    names.iter().try_for_each(|name| file::check(&folder.join(name), file::Over::Ours(mark(name))))
}

/// Writes files by their names.
pub(crate) fn write(folder: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    files.iter().try_for_each(|(name, content)| file::replace(&folder.join(name), content))
}

/// The mark by which a file with this name is known as ours.
fn mark(name: &str) -> &'static str {
    if name.ends_with(".json") { SCHEMA } else { GENERATOR }
}

/// Where the page is, in words.
pub(crate) fn told(folder: &Path) -> String {
    format!("\nThe page is {}\n", folder.join(PAGE).display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_file_of_a_report_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let names = [PAGE, "zone-lock.html", "all.json"];
        prepare(folder.path(), &names).unwrap();
        let page = format!("{GENERATOR}sim\">");
        write(
            folder.path(),
            &[(PAGE, &page), ("zone-lock.html", &page), ("all.json", "{\n  \"schema\": \"framewright-sim/1\"\n}")],
        )
        .unwrap();
        prepare(folder.path(), &names).unwrap();
        for name in names {
            let ours = fs::read(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name), b"\xffsomebody else's").unwrap();
            let error = prepare(folder.path(), &names).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            fs::write(folder.path().join(name), ours).unwrap();
        }
        prepare(folder.path(), &names).unwrap();
    }
}

//! The table of `docs/memory-ordering.md`: for each site, the model that needs it, or the reason why none does.

use std::fs;
use std::path::Path;

/// Rows of one weaker ordering of one site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// As [`crate::sites::Site::function`].
    pub(crate) function: String,
    /// As [`crate::sites::Site::call`].
    pub(crate) call: String,
    /// As [`crate::sites::Orders::weaker`].
    pub(crate) weaker: String,
    /// The models that fail.
    pub(crate) models: Vec<String>,
}

/// Returns the rows of the table below a heading.
///
/// The last column says for each weaker ordering, separated by `;`: its name, a colon, and the models that fail, in
/// backticks. Where no model fails, a link to the reason stands instead.
pub(crate) fn read(heading: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/memory-ordering.md");
    rows(&fs::read_to_string(path).expect("the table"), heading)
}

/// Like [`read`], from the text of the document.
///
/// # Panics
/// A row has another shape.
pub(crate) fn rows(text: &str, heading: &str) -> Vec<Row> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let lines = section.filter(|line| line.starts_with("| `"));
    lines.flat_map(cells).collect()
}

fn cells(line: &str) -> Vec<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let (Some(function), Some(call), Some(found)) = (cells.first(), cells.get(1), cells.last()) else {
        panic!("no row: {line}");
    };
    let row = |found: &str| {
        let (weaker, by) = found.split_once(':').unwrap_or_else(|| panic!("no weaker ordering in `{found}`: {line}"));
        let models: Vec<String> = by.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(!models.is_empty() || by.contains("]("), "neither a model nor a reason: {line}");
        let code = |text: &str| text.trim_matches('`').to_owned();
        Row { function: code(function), call: code(call), weaker: weaker.trim().to_owned(), models }
    };
    found.split(';').map(row).collect()
}

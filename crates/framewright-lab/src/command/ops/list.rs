//! A list of operations as a file, or from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use framewright_ops::{Checks, Scenario};

use crate::command::output::printable;

/// How large a list may be, in bytes.
const LIST_LIMIT: u64 = 1 << 28;

/// How often a run checks.
pub(super) fn checks(list: &Scenario, every: Option<usize>) -> Checks {
    let affordable = Checks::affordable(list);
    Checks { every: every.unwrap_or(affordable.every), ..affordable }
}

pub(super) fn is_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// A file's name as it is shown.
pub(super) fn name(file: &Path) -> String {
    if is_input(file) { "standard input".to_owned() } else { printable(&file.display().to_string()) }
}

/// Reads a list.
pub(super) fn read(file: &Path) -> anyhow::Result<Scenario> {
    let name = name(file);
    let cannot = || format!("cannot read {name}");
    let mut bytes = Vec::new();
    let source: Box<dyn Read> =
        if is_input(file) { Box::new(io::stdin().lock()) } else { Box::new(File::open(file).with_context(cannot)?) };
    source.take(LIST_LIMIT + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > LIST_LIMIT {
        bail!("{name} is larger than {LIST_LIMIT} bytes; name a list of operations");
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        anyhow!("{name}: line {line}: is no text; name a list of operations")
    })?;
    text.parse().map_err(|error: framewright_ops::ParseError| anyhow!("{name}: {error}"))
}

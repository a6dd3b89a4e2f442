//! What is asked of every file of published numbers (`data/published`).

use anyhow::{Context, bail, ensure};
use serde::de::DeserializeOwned;

/// The tables of an experiment, as a file that comes with the program has them.
pub trait Published: DeserializeOwned {
    /// The file's name in `data/published`.
    const FILE: &'static str;
    /// The file's text.
    const TEXT: &'static str;

    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// The first fault.
    fn check(&self) -> anyhow::Result<()>;

    /// Reads the file that comes with the program.
    ///
    /// # Errors
    /// The file's first fault, which is a mistake in this project.
    fn built_in() -> anyhow::Result<Self> {
        read()
    }
}

/// Reads the file of tables that comes with the program.
pub(super) fn read<T: Published>() -> anyhow::Result<T> {
    parse(T::TEXT).with_context(|| format!("data/published/{}", T::FILE))
}

/// Reads a file's text and checks it.
fn parse<T: Published>(text: &str) -> anyhow::Result<T> {
    let tables: T = toml::from_str(text)?;
    tables.check()?;
    Ok(tables)
}

/// Every row has a name of its own, and there is one; the error names the first that is there twice.
pub(super) fn names_differ(names: impl IntoIterator<Item = impl AsRef<str>>) -> anyhow::Result<()> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        let name = name.as_ref();
        ensure!(seen.iter().all(|known| known != name), "row {name} is there twice");
        seen.push(name.to_owned());
    }
    ensure!(!seen.is_empty(), "there is no row");
    Ok(())
}

/// A number that measures something is finite and above zero. `what` names it.
pub(super) fn is_amount(what: &str, value: f64) -> anyhow::Result<()> {
    if value > 0.0 && value.is_finite() { Ok(()) } else { bail!("{what} is {value}") }
}

/// A change in percent, printed with one decimal, is what the whole numbers say from which it was computed before they
/// were rounded. `row` names it.
pub(super) fn is_change(row: &str, printed: f64, (from, to): (f64, f64)) -> anyhow::Result<()> {
    let ratio = to / from;
    let rounded = 0.06 + (0.5 / from + 0.5 / to) * ratio * 100.0;
    let change = (ratio - 1.0) * 100.0;
    if (change - printed).abs() > rounded {
        bail!("row {row}: change_percent is {printed}, its numbers say {change:.1}");
    }
    Ok(())
}

/// Returns the fault of a file whose text has `to` in place of `from`.
#[cfg(test)]
pub(crate) fn mistake<T: Published>(from: &str, to: &str) -> String {
    assert!(T::TEXT.contains(from), "{from}");
    parse::<T>(&T::TEXT.replacen(from, to, 1)).map_or_else(|error| format!("{error:#}"), |_| String::new())
}

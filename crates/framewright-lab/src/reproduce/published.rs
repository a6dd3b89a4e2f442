//! What is asked of every file of published numbers (`data/published`).

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;

/// Reads a table that comes with the program: `file` is its name, and what is wrong with it a mistake in this project.
///
/// # Errors
/// What is wrong with it, after the file's name.
pub fn built_in<T>(file: &str, text: &str, check: impl Fn(&T) -> anyhow::Result<()>) -> anyhow::Result<T>
where
    T: DeserializeOwned,
{
    parse(text, check).with_context(|| format!("data/published/{file}"))
}

/// Reads a table and checks it.
///
/// # Errors
/// What is wrong with it.
fn parse<T: DeserializeOwned>(text: &str, check: impl Fn(&T) -> anyhow::Result<()>) -> anyhow::Result<T> {
    let table = toml::from_str(text)?;
    check(&table)?;
    Ok(table)
}

/// Every row has a name of its own, and there is one.
///
/// # Errors
/// The first name that is there twice.
pub fn names_differ<'n>(names: impl IntoIterator<Item = &'n str>) -> anyhow::Result<()> {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        bail!("there is no row");
    }
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        Some((_, name)) => bail!("row {name} is there twice"),
        None => Ok(()),
    }
}

/// A number that measures something is finite and above zero. `what` names it.
///
/// # Errors
/// It is not.
pub fn is_amount(what: &str, value: f64) -> anyhow::Result<()> {
    if value > 0.0 && value.is_finite() { Ok(()) } else { bail!("{what} is {value}") }
}

/// A change in percent, printed with one decimal, is what the whole numbers say from which it was computed before they
/// were rounded. `row` names it.
///
/// # Errors
/// It is not.
pub fn is_change(row: &str, printed: f64, (from, to): (f64, f64)) -> anyhow::Result<()> {
    let ratio = to / from;
    let rounded = 0.06 + (0.5 / from + 0.5 / to) * ratio * 100.0;
    let change = (ratio - 1.0) * 100.0;
    if (change - printed).abs() > rounded {
        bail!("row {row}: change_percent is {printed}, its numbers say {change:.1}");
    }
    Ok(())
}

/// What is wrong with a table in whose text there is `to` instead of `from`.
#[cfg(test)]
pub(crate) fn mistake<T>(text: &str, check: impl Fn(&T) -> anyhow::Result<()>, (from, to): (&str, &str)) -> String
where
    T: DeserializeOwned,
{
    assert!(text.contains(from), "{from}");
    parse(&text.replacen(from, to, 1), check).map_or_else(|error| format!("{error:#}"), |_| String::new())
}

//! What reproductions say in the same words, for a terminal of 100 columns.

use std::fmt;

use super::check::Check;
use super::fitted::{self, Fitted};
use super::variation::{Band, Varied};

/// Columns that there are.
pub const WIDTH: usize = 100;
/// Heading above reasons that only the simulated machine has.
pub const WHY: &str = "Why, from the simulated machine's own account";

/// Writes `text` broken between words, what follows indented by so many columns.
///
/// # Errors
/// That of the formatter.
pub fn wrapped(f: &mut fmt::Formatter<'_>, text: &str, indent: usize) -> fmt::Result {
    let lead = text.len() - text.trim_start().len();
    let mut line = " ".repeat(lead);
    for word in text.trim_start().split(' ') {
        let is_empty = line.trim().is_empty();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(f, "{}", line.trim_end())?;
            line = " ".repeat(indent);
        } else if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(f, "{}", line.trim_end())
}

/// Prints a text broken between words, as [`wrapped`] writes it.
pub struct Wrapped<'t>(pub &'t str, pub usize);

impl fmt::Display for Wrapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        wrapped(f, self.0, self.1)
    }
}

/// A row's name, marked if it is no evidence.
pub fn row_name(name: &str, is_fitted: bool) -> String {
    format!("{name}{}", if is_fitted { " *" } else { "" })
}

/// A band in words; none is nothing.
pub fn band(band: Option<Band>) -> String {
    band.map_or(String::new(), |Band([least, most])| format!("{least:.0}..{most:.0}"))
}

/// Writes what was published, and what of ours is not as it was.
///
/// # Errors
/// That of the formatter.
pub fn sides(f: &mut fmt::Formatter<'_>, theirs: &str, ours: &str) -> fmt::Result {
    wrapped(f, &format!("theirs: {theirs}"), 2)?;
    wrapped(f, &format!("ours: {ours}"), 2)
}

/// Writes why each row is what it is: its name, and the reason.
///
/// # Errors
/// That of the formatter.
pub fn reasons<N: fmt::Display, R: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    heading: &str,
    mut all: impl Iterator<Item = (N, R)>,
) -> fmt::Result {
    writeln!(f, "\n{heading}")?;
    all.try_for_each(|(name, why)| wrapped(f, &format!("  {name}: {why}"), 4))
}

/// Writes what had to hold.
///
/// # Errors
/// That of the formatter.
pub fn checks(f: &mut fmt::Formatter<'_>, checks: &[Check]) -> fmt::Result {
    writeln!(f, "\nChecks")?;
    checks.iter().try_for_each(|check| wrapped(f, &format!("  {check}"), 10))
}

/// Writes what they come to.
///
/// # Errors
/// That of the formatter.
pub fn verdict(f: &mut fmt::Formatter<'_>, checks: &[Check]) -> fmt::Result {
    let count = |passed: Option<bool>| checks.iter().filter(|check| check.passed == passed).count();
    let [held, failed, unseen] = [Some(true), Some(false), None].map(count);
    writeln!(f, "\n{held} of {} checks hold, {failed} fail, {unseen} could not be seen", checks.len())
}

/// Says which rows are no evidence, if there are such.
///
/// # Errors
/// That of the formatter.
pub fn fitted_note(f: &mut fmt::Formatter<'_>, fitted: &[Fitted]) -> fmt::Result {
    if fitted.is_empty() {
        return Ok(());
    }
    wrapped(f, &format!("* fitted ({}): says nothing about the model", fitted::list(fitted)), 2)
}

/// Says where bands come from: what was varied, and how long the runs of both rounds were.
///
/// # Errors
/// That of the formatter.
pub fn varied_note(f: &mut fmt::Formatter<'_>, varied: Option<(&Varied, [String; 2])>) -> fmt::Result {
    let Some((varied, [screen, band])) = varied else { return writeln!(f, "no bands in a quick run") };
    let names: Vec<&str> = varied.chosen.iter().map(|reach| reach.parameter.as_str()).collect();
    let words = format!(
        "band: each of {} made a tenth smaller and larger ({band}); chosen from {} numbers, each made a tenth larger ({screen}), of \
         which no other moved anything by more than {:.1} points",
        names.join(", "),
        varied.screened,
        varied.rest
    );
    wrapped(f, &words, 2)
}

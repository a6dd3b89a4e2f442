//! Text for a terminal of 100 columns.

use std::fmt;

/// Columns that there are.
pub const WIDTH: usize = 100;
/// Heading above reasons that only the simulated machine has.
pub const WHY: &str = "Why, from the simulated machine's own account";

/// Writes `text` broken between words, with the following lines indented by `indent` columns.
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

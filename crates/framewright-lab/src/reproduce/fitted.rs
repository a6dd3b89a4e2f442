//! Which numbers of a machine were fitted to a table, and so which of its rows say nothing about the model.

use std::fmt;

use framewright_sim::machine::{Parameter, Spec};
use serde::Serialize;

use super::check::Check;

/// A number of the machine that was fitted.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Fitted {
    /// Its path in the machine's file.
    pub parameter: String,
    /// To which rows of this table.
    pub rows: Vec<String>,
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.parameter, self.rows.join(" and "))
    }
}

/// Numbers of the machine that were fitted to `table`: a row of it is written `table/row` in the machine's file.
pub fn to(table: &str, machine: &Spec) -> Vec<Fitted> {
    let of = |parameter: &Parameter| Fitted {
        parameter: parameter.path.clone(),
        rows: rows(parameter, table).map(str::to_owned).collect(),
    };
    machine.parameters().map(of).filter(|fitted| !fitted.rows.is_empty()).collect()
}

/// Numbers that are no machine's and restate rows: what each is for, and the rows that it was set to, a comma between
/// them.
pub fn restated(numbers: &[(&str, &str)]) -> impl Iterator<Item = Fitted> {
    numbers.iter().map(|(parameter, rows)| Fitted {
        parameter: (*parameter).to_owned(),
        rows: rows.split(", ").map(str::to_owned).collect(),
    })
}

/// Rows of `table` that a number was fitted to.
fn rows<'p>(parameter: &'p Parameter, table: &str) -> impl Iterator<Item = &'p str> {
    let rows = parameter.basis.rows().filter_map(|row| row.split_once('/'));
    rows.filter(move |(of, _)| *of == table).map(|(_, row)| row)
}

/// Whether one of them was fitted to this row.
pub(crate) fn is_row(fitted: &[Fitted], row: &str) -> bool {
    fitted.iter().any(|fitted| fitted.rows.iter().any(|fitted| fitted == row))
}

/// A check by this name that at most `most` numbers were fitted, each to one row.
pub(crate) fn at_most(most: usize, name: &str, fitted: &[Fitted]) -> Check {
    let detail = if fitted.is_empty() { "none".to_owned() } else { list(fitted) };
    let holds = fitted.len() <= most && fitted.iter().all(|fitted| fitted.rows.len() == 1);
    Check::seen(name, holds, detail)
}

/// Writes the fitted numbers in words.
pub fn list(fitted: &[Fitted]) -> String {
    fitted.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

//! Puts a machine together from numbers that a program has found.

use super::error::MachineError;
use super::lookup::parse;
use super::schema::{PUBLISHED, place};
use super::spec::{Parameter, Spec};
use super::write::Written;

/// Makes a machine of numbers in any order, points of a curve in theirs; returns it as its file would be read.
///
/// Rows of a latency checker have paths that begin with `mlc.`. The machine is named after the file.
///
/// # Errors
/// What a file with these numbers would be refused for.
pub fn assemble(file: &str, title: &str, numbers: Vec<Parameter>) -> Result<Spec, MachineError> {
    let unknown = |key: &str| MachineError::Entry {
        file: file.to_owned(),
        key: key.to_owned(),
        what: "is no number of a machine".to_owned(),
    };
    if let Some(number) = numbers.iter().find(|number| place(&number.path).is_none()) {
        return Err(unknown(&number.path));
    }
    let mut numbers = numbers;
    numbers.sort_by_key(|number| place(&number.path));
    let (published, parameters) = numbers.into_iter().partition(|number| number.path.starts_with(PUBLISHED));
    let spec = Spec { name: String::new(), title: title.to_owned(), parameters, published };
    parse(file, &Written(&spec).to_string())
}

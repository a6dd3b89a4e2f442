//! Finds a machine by its name, or reads one from a file of the user's.

use std::fs::File;
use std::io::Read;

use super::built_in::{BUILT_IN, GENERIC, MOST_CPUS};
use super::error::MachineError;
use super::read;
use super::spec::Spec;

/// Most bytes of a machine's file.
const FILE_LIMIT: u64 = 1 << 18;

/// Returns a machine by its name, `generic:SOCKETSxCORESxTHREADS`, or from a file that ends in `.toml`.
///
/// # Errors
/// There is no machine of that name, or its file cannot be read or is wrong.
pub fn load(name: &str) -> Result<Spec, MachineError> {
    if !name.ends_with(".toml") {
        return named(name);
    }
    let unreadable = |what: String| MachineError::Unreadable { file: name.to_owned(), what };
    let mut text = String::new();
    let file = File::open(name).map_err(|error| unreadable(error.to_string()))?;
    file.take(FILE_LIMIT + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > FILE_LIMIT {
        return Err(unreadable(format!("it is larger than {FILE_LIMIT} bytes")));
    }
    parse(name, &text)
}

/// Returns a built-in machine by its name, or `generic:SOCKETSxCORESxTHREADS`.
///
/// # Errors
/// There is no machine of that name.
pub fn named(name: &str) -> Result<Spec, MachineError> {
    let (base, shape) = match name.split_once(':') {
        Some((base, shape)) if base == GENERIC => (base, Some(parse_shape(name, shape)?)),
        _ => (name, None),
    };
    let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == base) else {
        return Err(MachineError::Unknown { name: name.to_owned() });
    };
    let spec = parse(&format!("{base}.toml"), text)?;
    Ok(match shape {
        Some(shape) => spec.shaped(name, shape),
        None => spec,
    })
}

/// Reads a machine from a file's text.
///
/// Errors call the file `file`. The machine is named after it, without folder and ending.
///
/// # Errors
/// The first thing in the text that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Spec, MachineError> {
    read::spec(file, text)
}

fn parse_shape(name: &str, shape: &str) -> Result<[u16; 3], MachineError> {
    let fail = |what: String| MachineError::Shape { name: name.to_owned(), what };
    let mut counts = [0; 3];
    let parts: Vec<&str> = shape.split('x').collect();
    if parts.len() != counts.len() {
        return Err(fail(format!("{shape:?} is not three numbers with an x between them")));
    }
    for (count, part) in counts.iter_mut().zip(parts) {
        *count = part.parse().map_err(|_| fail(format!("{part:?} is no number of parts")))?;
    }
    let cpus: u64 = counts.iter().map(|count| u64::from(*count)).product();
    match cpus {
        0 => Err(fail("it has no CPU".to_owned())),
        _ if cpus > MOST_CPUS as u64 => Err(fail(format!("{cpus} CPUs are too many"))),
        _ => Ok(counts),
    }
}

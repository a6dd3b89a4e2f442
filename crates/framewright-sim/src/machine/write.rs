//! Writes a machine as the text of a file that reads back as an equal machine.

use std::fmt;

use super::origin::{Basis, Unit};
use super::spec::{Parameter, Spec};

/// The text of a machine's file, for [`crate::machine::parse`] to read back.
pub struct Written<'s>(pub &'s Spec);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.0;
        writeln!(f, "title = {}", quoted(&spec.title))?;
        let mut section = "";
        let mut open = None;
        for parameter in spec.parameters().chain(spec.published()) {
            let (table, key) = split(parameter);
            if open.is_some_and(|curve| curve != (table, key)) {
                writeln!(f, "]")?;
                open = None;
            }
            if table != section {
                write!(f, "\n[{table}]\n")?;
                section = table;
            }
            if parameter.at.is_none() {
                writeln!(f, "{key} = {}", Number(parameter))?;
                continue;
            }
            if open.is_none() {
                writeln!(f, "{key} = [")?;
                open = Some((table, key));
            }
            writeln!(f, "    {},", Number(parameter))?;
        }
        if open.is_some() { writeln!(f, "]") } else { Ok(()) }
    }
}

/// The table and the key of a number. All points of a curve are under one key.
fn split(parameter: &Parameter) -> (&str, &str) {
    let path = match parameter.at {
        Some(_) => parameter.path.rsplit_once('.').map_or("", |(curve, _)| curve),
        None => &parameter.path,
    };
    path.rsplit_once('.').unwrap_or(("", path))
}

/// A number with its unit and its basis.
struct Number<'p>(&'p Parameter);

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameter { value, unit, at, basis, .. } = self.0;
        let [source, assumed, fitted] = Basis::KEYS;
        let (key, text) = match basis {
            Basis::Source(text) => (source, text),
            Basis::Assumed(text) => (assumed, text),
            Basis::Fitted(text) => (fitted, text),
        };
        write!(f, "{{ ")?;
        if let Some((at, unit)) = at {
            write!(f, "{} = {at}, ", unit.key())?;
        }
        write!(f, "{} = {}, {key} = {} }}", Unit::key(*unit), value, quoted(text))
    }
}

/// A text as TOML's basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

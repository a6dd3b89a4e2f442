//! The kernel's description of an event's fields: its `format` file.
//!
//! ```text
//! name: mm_page_free
//! ID: 655
//! format:
//!         field:unsigned short common_type;       offset:0;       size:2; signed:0;
//!
//!         field:unsigned long pfn;        offset:8;       size:8; signed:0;
//!
//! print fmt: "page=%p pfn=0x%lx order=%d", ...
//! ```

use crate::error::{Excerpt, RawFault, RawResult};

/// The most fields that are read; the kernel's events have some dozens.
const FIELDS: usize = 256;

/// One field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its first byte.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
    /// Whether it is a signed number.
    pub signed: bool,
}

/// An event's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// The event's name.
    pub name: String,
    /// Its number, which its events carry.
    pub id: u64,
    /// Its fields; first those that all events have.
    pub fields: Vec<Field>,
    /// Its `print fmt`; empty if the file has none.
    pub print: String,
}

impl Field {
    /// Returns the field if it is a number.
    pub(super) fn into_number(self) -> RawResult<Field> {
        if matches!(self.size, 1 | 2 | 4 | 8) { Ok(self) } else { Err(RawFault::Size(self.name, self.size)) }
    }

    /// The field's bytes; none if `bytes` are too few.
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        bytes.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// The field as a number, negative ones as their two's complement; none if `bytes` are too few.
    #[inline]
    pub fn number(&self, bytes: &[u8]) -> Option<u64> {
        let field = self.bytes(bytes)?;
        let value = field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        let unused = 64_u32.saturating_sub(8 * self.size as u32);
        Some(if self.signed { ((value << unused) as i64 >> unused) as u64 } else { value })
    }
}

impl Format {
    /// Reads an event's `format` file.
    ///
    /// # Errors
    /// A line is missing or malformed.
    pub fn parse(text: &str) -> RawResult<Format> {
        let line = |start: &'static str| text.lines().find_map(|line| line.trim_start().strip_prefix(start));
        let missing = |field| RawFault::Missing { what: "an event".into(), field };
        let name = line("name:").map(str::trim).filter(|name| !name.is_empty()).ok_or(missing("name"))?;
        let id = line("ID:").ok_or(missing("ID"))?.trim();
        let print = text.find("print fmt:").map_or("", |at| &text[at + "print fmt:".len()..]);
        Ok(Format {
            name: name.to_owned(),
            id: id.parse().map_err(|_| expected("a number", id))?,
            fields: fields(text)?,
            print: print.trim().to_owned(),
        })
    }

    /// The field called `name`.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn field(&self, name: &'static str) -> RawResult<Field> {
        let missing = || RawFault::Missing { what: self.name.clone(), field: name };
        self.fields.iter().find(|field| field.name == name).cloned().ok_or_else(missing)
    }

    /// The field called `name`, a number.
    ///
    /// # Errors
    /// There is none, or it is no number.
    pub(super) fn number(&self, name: &'static str) -> RawResult<Field> {
        self.field(name)?.into_number()
    }
}

fn expected(expected: &'static str, found: &str) -> RawFault {
    RawFault::Expected { expected, found: Excerpt::new(found.as_bytes()) }
}

/// The fields that a text describes, one a line.
pub(super) fn fields(text: &str) -> RawResult<Vec<Field>> {
    let lines = text.lines().map(str::trim).filter_map(|line| line.strip_prefix("field:"));
    lines.take(FIELDS).map(field).collect()
}

fn field(line: &str) -> RawResult<Field> {
    let mut parts = line.split(';').map(str::trim);
    // An array's size follows its name.
    let declaration = parts.next().unwrap_or_default().split('[').next().unwrap_or_default().trim_end();
    let name = declaration.rsplit([' ', '*', '\t']).next().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| expected("`field:TYPE NAME;`", line))?;
    let mut value = |key: &'static str| {
        let text = parts.next().and_then(|part| part.strip_prefix(key)).ok_or_else(|| expected(key, line))?;
        text.trim().parse::<usize>().map_err(|_| expected("a number", text))
    };
    Ok(Field {
        name: name.to_owned(),
        offset: value("offset:")?,
        size: value("size:")?,
        // Kernels before 2.6.32 do not say.
        signed: value("signed:").is_ok_and(|signed| signed == 1),
    })
}

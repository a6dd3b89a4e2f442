//! The fields of an event: `name=value` words in any order, among other words that are skipped.

use framewright::units::{Order, Pfn};

use super::line_format::{decimal, token};
use crate::error::{Excerpt, LineFault};
use crate::struct_page::PFN_LIMIT;

/// The values of some fields of one event.
pub(super) struct Fields<'a, const N: usize> {
    event: &'static str,
    names: [&'static str; N],
    values: [Option<&'a [u8]>; N],
}

impl<'a, const N: usize> Fields<'a, N> {
    /// Finds the fields called `names` in the text after the event's name.
    ///
    /// # Errors
    /// A field occurs twice, as where two lines were run together.
    pub(super) fn find(event: &'static str, names: [&'static str; N], text: &'a [u8]) -> Result<Self, LineFault> {
        let mut fields = Fields { event, names, values: [None; N] };
        let mut rest = text;
        loop {
            let word;
            (word, rest) = token(rest);
            if word.is_empty() {
                return Ok(fields);
            }
            let Some(equals) = word.iter().position(|&b| b == b'=') else { continue };
            let Some(i) = names.iter().position(|name| name.as_bytes() == &word[..equals]) else { continue };
            let value = &word[equals + 1..];
            if fields.values[i].replace(value.strip_suffix(b",").unwrap_or(value)).is_some() {
                return Err(LineFault::Repeated { event, field: names[i] });
            }
        }
    }

    /// The text of field `i`.
    pub(super) fn text(&self, i: usize) -> Result<&'a [u8], LineFault> {
        self.values[i].ok_or(LineFault::Missing { event: self.event, field: self.names[i] })
    }

    /// The value of field `i`, decimal or with `0x` hexadecimal.
    pub(super) fn number(&self, i: usize) -> Result<u64, LineFault> {
        let text = self.text(i)?;
        number(text).ok_or_else(|| self.bad_number(i, text))
    }

    fn bad_number(&self, i: usize, text: &[u8]) -> LineFault {
        LineFault::Number { event: self.event, field: self.names[i], text: Excerpt::new(text) }
    }

    fn bounded(&self, i: usize, limit: u64) -> Result<u64, LineFault> {
        match self.number(i)? {
            value if value <= limit => Ok(value),
            value => Err(LineFault::Range { event: self.event, field: self.names[i], value, limit }),
        }
    }

    /// Field `i` as an order.
    pub(super) fn order(&self, i: usize) -> Result<Order, LineFault> {
        // At most 18, so the cast loses nothing.
        self.bounded(i, u64::from(Order::LIMIT.0)).map(|order| Order(order as u8))
    }

    /// Field `i` as an order, none if it is missing.
    pub(super) fn order_if_there(&self, i: usize) -> Result<Option<Order>, LineFault> {
        if self.values[i].is_none() { Ok(None) } else { self.order(i).map(Some) }
    }

    /// Field `i` as 0 or 1.
    pub(super) fn flag(&self, i: usize) -> Result<bool, LineFault> {
        self.bounded(i, 1).map(|flag| flag == 1)
    }

    /// Field `i` as 0 or 1, none if it is missing.
    pub(super) fn flag_if_there(&self, i: usize) -> Result<Option<bool>, LineFault> {
        if self.values[i].is_none() { Ok(None) } else { self.flag(i).map(Some) }
    }

    /// Field `i` as a page frame number.
    pub(super) fn pfn(&self, i: usize) -> Result<Pfn, LineFault> {
        self.bounded(i, PFN_LIMIT - 1).map(Pfn)
    }

    /// Field `i` as a page frame number; none if it stands for no page.
    ///
    /// That is 0 or all ones while field `page`, the descriptor's address, is nil or missing.
    pub(super) fn pfn_or_none(&self, i: usize, page: usize) -> Result<Option<Pfn>, LineFault> {
        let text = self.text(i)?;
        let nil = self.values[page].is_none_or(is_nil);
        match number(text) {
            Some(0 | u64::MAX) if nil => Ok(None),
            _ => self.pfn(i).map(Some),
        }
    }
}

/// A decimal or, with `0x`, hexadecimal number.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let Some(digits) = text.strip_prefix(b"0x") else { return decimal(text) };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &b| {
        let digit = u64::from(char::from(b).to_digit(16)?);
        if value >> 60 != 0 { None } else { Some(value << 4 | digit) }
    })
}

/// Whether a pointer is nil as one of the tools prints it.
fn is_nil(pointer: &[u8]) -> bool {
    match pointer {
        b"(nil)" | b"(null)" => true,
        _ => {
            let digits = pointer.strip_prefix(b"0x").unwrap_or(pointer);
            !digits.is_empty() && digits.iter().all(|&b| b == b'0')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        let table: [(&str, Option<u64>); 12] = [
            ("970744", Some(970_744)),
            ("0x1d1ac1", Some(0x1d_1ac1)),
            ("0x1D1AC1", Some(0x1d_1ac1)),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("0x0000000000000000001", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0x10000000000000000", None),
            ("1d1ac1", None),
            ("0x", None),
            ("-1", None),
            ("", None),
        ];
        for (text, value) in table {
            assert_eq!(number(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn nil_has_many_forms() {
        for nil in ["(nil)", "(null)", "0", "0x0", "0000000000000000"] {
            assert!(is_nil(nil.as_bytes()), "{nil}");
        }
        for page in ["", "0x", "(____ptrval____)", "00000000a1b2c3d4", "0xffffea0000000000"] {
            assert!(!is_nil(page.as_bytes()), "{page}");
        }
    }
}

//! The names of flags, from the C text with which the kernel prints them.
//!
//! `print fmt` of an event holds `__print_flags(REC->gfp_flags, "|", { VALUE, "NAME" }, ...)`. A value is an
//! expression of constants: `( unsigned long)((( gfp_t)((((1UL))) << (10)))|...)`. The bit of a flag depends on the
//! version and the configuration of the kernel, so it is read and not assumed.
//!
//! The kernel prints a value by removing, in this order, each name whose bits are all set. This reader does likewise
//! and reads the names. So a request has the same flags here as in the text of the same trace.

use framewright::request::Gfp;

use crate::flags::{KernelVersion, Kernels, Reading, named};

/// The deepest parentheses that are read; the kernel's have about twenty levels.
const DEPTH: usize = 128;
/// The most names that are read.
const NAMES: usize = 256;

/// Names of flags in the order in which they are tried.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlagNames(Vec<(u64, String)>);

impl FlagNames {
    /// Reads the names of flags from an event's `print fmt`; skips values that are not constant.
    pub fn parse(print: &str) -> FlagNames {
        let list = print.find("__print_flags").map_or("", |at| &print[at..]);
        let pairs = list.split('{').skip(1).take(NAMES).filter_map(|rest| {
            let (value, rest) = rest.split_once(", \"")?;
            let (name, _) = rest.split_once('"')?;
            Some((constant(value)?, name.to_owned()))
        });
        FlagNames(pairs.filter(|&(bits, _)| bits != 0).collect())
    }

    /// Whether no name was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the flags with these bits.
    ///
    /// Unknown names are left out. Bits without a name are left out too, except on kernels that have no name for some
    /// that matter (`flags/gfp_names.rs`).
    pub fn gfp(&self, bits: u64) -> Gfp {
        if self.is_empty() {
            let bits = Reading::new(Kernels::ALL.since(KernelVersion::new(5, 1))).read(bits as u32, None);
            return bits.unwrap_or_else(|(_, gfp)| gfp);
        }
        let mut rest = bits;
        let mut text = String::new();
        for (mask, name) in &self.0 {
            if rest & mask == *mask {
                rest &= !mask;
                text = text + name + "|";
            }
        }
        if self.is_old() {
            text += &format!("{:#x}|", rest as u32);
        }
        named(text.strip_suffix('|').unwrap_or("none")).gfp
    }

    /// Whether single flags have names without underscores.
    fn is_old(&self) -> bool {
        self.0.iter().any(|(_, name)| named(name).is_old)
    }
}

/// The value of a C expression of constants; none for other texts.
pub(super) fn constant(text: &str) -> Option<u64> {
    let mut input = Expression { rest: text.trim(), depth: 0 };
    let value = input.or()?;
    input.rest.is_empty().then_some(value)
}

/// The unread rest of an expression. Each rule reads operators that bind at least as strongly as its own.
struct Expression<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Expression<'a> {
    /// Skips `token`, if it is next.
    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest.strip_prefix(token);
        self.rest = found.map_or(self.rest, str::trim_start);
        found.is_some()
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.and()?;
        while self.eat("|") {
            value |= self.and()?;
        }
        Some(value)
    }

    fn and(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.eat("&") {
            value &= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        loop {
            if self.eat("<<") {
                value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
            } else if self.eat(">>") {
                value = value.checked_shr(u32::try_from(self.sum()?).ok()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.unary()?;
        loop {
            if self.eat("+") {
                value = value.wrapping_add(self.unary()?);
            } else if self.eat("-") {
                value = value.wrapping_sub(self.unary()?);
            } else {
                return Some(value);
            }
        }
    }

    fn unary(&mut self) -> Option<u64> {
        self.depth += 1;
        let value = if self.depth > DEPTH { None } else { self.operand() };
        self.depth -= 1;
        value
    }

    fn operand(&mut self) -> Option<u64> {
        if self.eat("~") {
            return Some(!self.unary()?);
        }
        if self.eat("(") {
            if self.cast() {
                return self.unary();
            }
            let value = self.or()?;
            return self.eat(")").then_some(value);
        }
        self.number()
    }

    /// Skips the rest of `(type)`, if it is one.
    fn cast(&mut self) -> bool {
        let Some((inside, rest)) = self.rest.split_once(')') else { return false };
        let inside = inside.trim();
        let is_type = inside.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && inside.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ' ');
        if is_type {
            self.rest = rest.trim_start();
        }
        is_type
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => digits.parse().ok()?,
        };
        self.rest = rest.trim_start();
        Some(value)
    }
}

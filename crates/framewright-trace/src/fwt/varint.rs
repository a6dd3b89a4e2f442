//! Numbers of one to ten bytes, seven bits in each, the lowest first.
//!
//! Signed numbers are folded so that small ones stay small (zigzag). The bytes are those of the crate
//! `integer-encoding`; this file adds names for messages, and a short way for numbers of one byte, which are most.

use integer_encoding::VarInt;

use crate::error::{CompactFault, FwtResult};

/// Appends `value`.
pub(super) fn put(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; 10];
    let length = value.encode_var(&mut bytes);
    out.extend_from_slice(&bytes[..length]);
}

/// Appends the difference of `value` to `last`, both modulo 2^64.
pub(super) fn put_delta(out: &mut Vec<u8>, value: u64, last: u64) {
    let delta = value.wrapping_sub(last);
    put(out, (delta << 1) ^ (delta >> 63).wrapping_neg());
}

/// Reads numbers that [`put`] has appended.
pub(super) struct VarintReader<'a> {
    rest: &'a [u8],
}

impl<'a> VarintReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> VarintReader<'a> {
        VarintReader { rest: bytes }
    }

    /// The next number, a part of `what`.
    #[inline]
    pub(super) fn get(&mut self, what: &'static str) -> FwtResult<u64> {
        match *self.rest {
            [first, ref rest @ ..] if first < 0x80 => {
                self.rest = rest;
                Ok(u64::from(first))
            }
            _ => self.get_long(what),
        }
    }

    fn get_long(&mut self, what: &'static str) -> FwtResult<u64> {
        let is_cut = self.rest.len() < 10;
        let fault = if is_cut { CompactFault::Mismatch(what) } else { CompactFault::Value(what) };
        let (value, length) = u64::decode_var(self.rest).ok_or(fault)?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    /// The number whose difference to `last` [`put_delta`] has appended.
    #[inline]
    pub(super) fn get_delta(&mut self, what: &'static str, last: u64) -> FwtResult<u64> {
        let folded = self.get(what)?;
        Ok(last.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg()))
    }

    /// The next number as an index below `count`.
    #[inline]
    pub(super) fn index(&mut self, what: &'static str, count: usize) -> FwtResult<usize> {
        match usize::try_from(self.get(what)?) {
            Ok(index) if index < count => Ok(index),
            _ => Err(CompactFault::Value(what)),
        }
    }

    /// The next `length` bytes.
    pub(super) fn bytes(&mut self, what: &'static str, length: u64) -> FwtResult<&'a [u8]> {
        let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (bytes, rest) = split.ok_or(CompactFault::Mismatch(what))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing, if nothing is left.
    pub(super) fn end(&self, what: &'static str) -> FwtResult<()> {
        if self.is_empty() { Ok(()) } else { Err(CompactFault::Mismatch(what)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_come_back() {
        for value in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, !(1 << bit)]).chain([u64::MAX]) {
            let mut out = Vec::new();
            put(&mut out, value);
            put_delta(&mut out, value, 77);
            put_delta(&mut out, 3, value);
            let mut reader = VarintReader::new(&out);
            assert_eq!(reader.get("t"), Ok(value));
            assert_eq!(reader.get_delta("t", 77), Ok(value));
            assert_eq!(reader.get_delta("t", value), Ok(3));
            assert_eq!(reader.end("t"), Ok(()));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let mismatch = CompactFault::Mismatch("t");
        let value = CompactFault::Value("t");
        let table: [(&[u8], &CompactFault); 5] = [
            (b"", &mismatch),
            (b"\x80", &mismatch),
            (&[0xff; 9], &mismatch),
            (&[0xff; 10], &value),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &value),
        ];
        for (bytes, fault) in table {
            assert_eq!(VarintReader::new(bytes).get("t").as_ref(), Err(fault), "{bytes:?}");
        }
        assert_eq!(VarintReader::new(&[5]).index("t", 5), Err(value));
        assert_eq!(VarintReader::new(&[5]).index("t", 6), Ok(5));
        assert_eq!(VarintReader::new(&[1, 2]).bytes("t", u64::MAX), Err(mismatch));
    }
}

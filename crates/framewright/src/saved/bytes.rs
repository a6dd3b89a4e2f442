//! Bytes of a saved state: numbers of any size, and runs of zeros.
//!
//! A number is written in groups of seven bits, the lowest first; the top bit of a byte says that more follow (LEB128).
//! A zero is followed by the number of zeros after it. Most words of a large memory are zero, because only the first
//! frame of a block has a descriptor. So a state has few bytes for each block, and none for each frame.

use crate::saved::crc::Crc;

/// Bytes that are passed on at once.
const CHUNK: usize = 512;
/// Bytes of the largest number.
const LONGEST: usize = 10;

/// Writes bytes in chunks; keeps their check sum, and the first failure.
pub(super) struct Writer<'s, E> {
    sink: &'s mut dyn FnMut(&[u8]) -> Result<(), E>,
    chunk: [u8; CHUNK],
    used: usize,
    passed: u64,
    crc: Crc,
    /// Zeros that are not written yet.
    zeros: u64,
    failed: Option<E>,
}

impl<'s, E> Writer<'s, E> {
    pub(super) fn new(sink: &'s mut dyn FnMut(&[u8]) -> Result<(), E>) -> Self {
        Writer { sink, chunk: [0; CHUNK], used: 0, passed: 0, crc: Crc::EMPTY, zeros: 0, failed: None }
    }

    /// Writes bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.crc.add(bytes);
        for &byte in bytes {
            if self.used == CHUNK {
                self.pass();
            }
            if let Some(place) = self.chunk.get_mut(self.used) {
                *place = byte;
                self.used = self.used.saturating_add(1);
            }
        }
    }

    /// Writes the value of a word.
    pub(super) fn word(&mut self, value: u64) {
        if value == 0 {
            self.zeros = self.zeros.saturating_add(1);
        } else {
            self.end_zeros();
            self.number(value);
        }
    }

    fn end_zeros(&mut self) {
        if let Some(more) = self.zeros.checked_sub(1) {
            self.zeros = 0;
            self.raw(&[0]);
            self.number(more);
        }
    }

    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.raw(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.raw(&[number as u8]);
    }

    fn pass(&mut self) {
        let bytes = self.chunk.get(..self.used).unwrap_or_default();
        if self.failed.is_none() {
            self.failed = (self.sink)(bytes).err();
        }
        self.passed = self.passed.saturating_add(self.used as u64);
        self.used = 0;
    }

    /// Writes the check sum; returns the number of bytes.
    ///
    /// # Errors
    /// The first failure of the sink.
    pub(super) fn finish(mut self) -> Result<u64, E> {
        self.end_zeros();
        self.raw(&self.crc.sum().to_le_bytes());
        self.pass();
        self.failed.map_or(Ok(self.passed), Err)
    }
}

/// Reads bytes that a [`Writer`] wrote.
#[derive(Clone, Copy)]
pub(super) struct Reader<'b> {
    rest: &'b [u8],
    /// Zeros that were read and not returned yet.
    zeros: u64,
}

impl<'b> Reader<'b> {
    /// Reads what lies before the check sum; `None` if that is wrong.
    pub(super) fn checked(bytes: &'b [u8]) -> Option<Self> {
        let (rest, sum) = bytes.split_last_chunk()?;
        let mut crc = Crc::EMPTY;
        crc.add(rest);
        (crc.sum() == u64::from_le_bytes(*sum)).then_some(Reader { rest, zeros: 0 })
    }

    /// Reads bytes as they are; `None` if there are fewer.
    pub(super) fn raw<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// Reads the value of a word; `None` if there is none.
    pub(super) fn word(&mut self) -> Option<u64> {
        if let Some(less) = self.zeros.checked_sub(1) {
            self.zeros = less;
            return Some(0);
        }
        let number = self.number()?;
        if number == 0 {
            self.zeros = self.number()?;
        }
        Some(number)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for group in 0..LONGEST {
            let [byte] = self.raw()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << group.saturating_mul(7);
            // The last group has one bit.
            if shifted >> group.saturating_mul(7) != bits {
                return None;
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Returns whether all was read.
    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty() && self.zeros == 0
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn written(words: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sink = |chunk: &[u8]| {
            bytes.extend_from_slice(chunk);
            Ok::<_, ()>(())
        };
        let mut writer = Writer::new(&mut sink);
        words.iter().for_each(|&word| writer.word(word));
        let length = writer.finish().unwrap();
        assert_eq!(length, bytes.len() as u64);
        bytes
    }

    #[test]
    fn words_come_back() {
        let mut words = std::vec![0, 0, 0, 1, 0x7f, 0x80, 0, u64::MAX, 1 << 63, 0];
        words.extend(std::vec![0; 100_000]);
        words.extend((0..64).map(|bit| 1_u64 << bit));
        let bytes = written(&words);
        assert!(bytes.len() < 500, "{}", bytes.len());
        let mut reader = Reader::checked(&bytes).unwrap();
        words.iter().for_each(|&word| assert_eq!(reader.word(), Some(word)));
        assert!(reader.is_at_end());
        assert_eq!(reader.word(), None);
    }

    #[test]
    fn numbers_that_are_too_long_are_none() {
        for bytes in [&[0x80; 11][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], &[0x80], &[0]] {
            assert_eq!(Reader { rest: bytes, zeros: 0 }.word(), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_failure_of_the_sink_is_returned() {
        let mut calls = 0;
        let mut sink = |_: &[u8]| {
            calls += 1;
            if calls == 2 { Err("full") } else { Ok(()) }
        };
        let mut writer = Writer::new(&mut sink);
        (0..4000).for_each(|word| writer.word(word | 0x80));
        assert_eq!(writer.finish(), Err("full"));
        assert_eq!(calls, 2, "nothing is passed on after a failure");
    }
}

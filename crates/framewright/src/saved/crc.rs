//! Check sum of a saved state: CRC-64/XZ (ECMA-182, reflected).
//!
//! It finds every burst of up to 64 damaged bits, and others with a probability of all but 2⁻⁶⁴.
//!
//! Cost: two steps for each byte, with a table of 128 bytes. A table for whole bytes is twice as fast and 16 times as
//! large, which matters to a kernel.

use core::fmt;

const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

/// Remainders of the 16 values of half a byte.
#[expect(clippy::indexing_slicing, reason = "computed when compiled, where an index out of bounds is an error")]
const TABLE: [u64; 16] = {
    let mut table = [0; 16];
    let mut half = 0;
    while half < 16 {
        let (mut value, mut bit) = (half as u64, 0);
        while bit < 4 {
            value = value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[half] = value;
        half += 1;
    }
    table
};

/// The check sum of the bytes so far.
#[derive(Clone, Copy)]
pub(super) struct Crc(u64);

impl Crc {
    pub(super) const EMPTY: Crc = Crc(u64::MAX);

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let step = |crc: u64| crc >> 4 ^ TABLE.get(crc as usize & 15).copied().unwrap_or(0);
        self.0 = bytes.iter().fold(self.0, |crc, &byte| step(step(crc ^ u64::from(byte))));
    }

    /// Adds a number, as eight bytes.
    pub(super) fn number(&mut self, number: u64) {
        self.add(&number.to_le_bytes());
    }

    pub(super) const fn sum(self) -> u64 {
        !self.0
    }
}

/// Adds text.
impl fmt::Write for Crc {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_catalogue() {
        // The catalogue of parametrised CRC algorithms gives this sum of the digits 1 to 9 for CRC-64/XZ.
        let mut crc = Crc::EMPTY;
        crc.add(b"123456789");
        assert_eq!(crc.sum(), 0x995d_c9bb_df19_39fa);
        assert_eq!(Crc::EMPTY.sum(), 0);
    }
}

//! Sizes of huge pages.

use std::fmt;

/// Size of the pages in a pool of huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePage {
    /// 2 MiB.
    Size2MiB,
    /// 1 GiB.
    Size1GiB,
}

impl HugePage {
    /// In bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    pub(crate) const fn shift(self) -> u8 {
        match self {
            HugePage::Size2MiB => 21,
            HugePage::Size1GiB => 30,
        }
    }
}

impl fmt::Display for HugePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HugePage::Size2MiB => "2 MiB",
            HugePage::Size1GiB => "1 GiB",
        })
    }
}

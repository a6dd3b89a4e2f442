//! What boot refuses.

use core::fmt;

use framewright::BootError;
use framewright::units::PfnRange;

/// Reason why [`Framewright::boot`](crate::Framewright::boot) did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is wrong.
    Boot(BootError),
    /// The block for the descriptors is shorter than [`bytes`](crate::bytes) says.
    TooShort {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The descriptors need more than the address space.
    TooLarge,
    /// Frames in which the descriptors lie would be handed out: no reserved range of the configuration has them all.
    Unreserved(PfnRange),
    /// The frames in which the descriptors are said to lie are fewer than they need, or above all memory.
    BadPlace(PfnRange),
    /// No usable, unreserved range in the given memory is large enough for the descriptors.
    NoPlace {
        /// Bytes needed.
        needed: usize,
    },
    /// [`Framewright::boot_within`](crate::Framewright::boot_within) was given too many reserved ranges.
    ManyReserved {
        /// Ranges given.
        given: usize,
        /// Ranges that it takes.
        most: usize,
    },
    /// The kernel says [`Fences::OneCpu`](crate::Fences::OneCpu), and the configuration has this many CPUs.
    OneCpu(usize),
    /// The cell was booted before, or is being booted.
    Twice,
}

impl From<BootError> for Error {
    fn from(error: BootError) -> Error {
        Error::Boot(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Boot(error) => fmt::Display::fmt(error, f),
            Error::TooShort { needed, given } => {
                write!(f, "the descriptors need a block of {needed} bytes; it has {given}")
            }
            Error::Unreserved(own) => {
                write!(
                    f,
                    "the descriptors lie in frames {own}, which no single reserved range of the configuration holds"
                )
            }
            Error::BadPlace(own) => {
                write!(f, "the place of the descriptors, {own}, is too short or above all memory; are these frames?")
            }
            Error::NoPlace { needed } => {
                write!(
                    f,
                    "no usable range in the given memory has the {needed} bytes that the descriptors need; are these frames?"
                )
            }
            Error::ManyReserved { given, most } => {
                write!(
                    f,
                    "{given} reserved ranges are more than {most}; find a place for the descriptors, and call boot"
                )
            }
            Error::OneCpu(cpus) => write!(f, "the kernel says Fences::OneCpu, and the configuration has {cpus} CPUs"),
            Error::TooLarge => f.write_str("the descriptors need more than the address space"),
            Error::Twice => f.write_str("the allocator was booted before"),
        }
    }
}

impl core::error::Error for Error {}

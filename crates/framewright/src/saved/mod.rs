//! Saved state: the allocator as bytes, and back.

pub mod calls;
mod bytes;
mod words;
mod crc;

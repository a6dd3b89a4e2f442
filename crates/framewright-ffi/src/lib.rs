//! What the C interfaces of programs (`framewright-capi`) and of kernels (`framewright-kernel-capi`) share.
//!
//! One number means one error in both, and one flag one wish. A pointer of a C caller is checked in one place. The
//! crate exports no symbol, so that both interfaces may have functions of one name.
//!
//! The files are in call order. All unsafe code is in `bulk.rs` and `boundary.rs`.
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod bulk;
pub mod report;
pub mod boundary;
pub mod request;
pub mod error;
pub mod numbers;

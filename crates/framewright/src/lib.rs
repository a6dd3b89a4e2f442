//! A page-frame allocator with the semantics of Linux's, to embed.
#![no_std]
#![forbid(unsafe_code)]

pub mod event;
pub mod machine;
pub mod pfn;
pub mod request;

//! A contender as a row of the list: its name, its role, and how it is set up.
//!
//! The list holds no allocator: [`Entry::make`] sets one up for a [`Setup`], and from there on its type is forgotten
//! ([`Cells`]).

use crate::cell::Cells;
use crate::contender::Setup;
use crate::workload::Shape;

/// The role of a contender in a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The project's own allocator.
    Own,
    /// The project's own with something that costs more on purpose: shown, but not judged by the goals.
    Variant,
    /// The least that a call could cost; no allocator.
    Limit,
    /// Another allocator, to compare with.
    Peer,
}

/// A contender that can be set up, as a row of a list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Its description, for the list of contenders.
    pub about: &'static str,
    /// Its role.
    pub role: Role,
    /// Whether it takes part in a workload.
    pub suits: fn(Shape) -> bool,
    /// Most blocks that it can have allocated at a time.
    pub capacity: fn(&Setup) -> usize,
    /// Whether it is to be had on this machine; the error says why not.
    pub available: fn() -> Result<(), String>,
    /// Sets one up; the error says why it cannot be.
    pub make: fn(&Setup) -> Result<Box<dyn Cells>, String>,
}

impl Entry {
    /// A peer that suits every workload and has all of its frames to give.
    pub const fn peer(
        name: &'static str,
        about: &'static str,
        make: fn(&Setup) -> Result<Box<dyn Cells>, String>,
    ) -> Entry {
        Entry {
            name,
            about,
            role: Role::Peer,
            suits: |_| true,
            capacity: |setup| setup.frames >> setup.order,
            available: || Ok(()),
            make,
        }
    }
}

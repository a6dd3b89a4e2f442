//! A handle of a block keeps its arena, which foreign types need not do.
use std::ops::Deref;

use framewright_rt::{Arena, Handle};

#[derive(Clone)]
struct Any(&'static Arena, &'static Arena);

impl Deref for Any {
    type Target = Arena;

    fn deref(&self) -> &Arena {
        self.1
    }
}

impl Handle for Any {}

fn main() {}

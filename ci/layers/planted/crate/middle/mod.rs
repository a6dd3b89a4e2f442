//! A folder with a header: code of its own, which may use its children.

mod branch;
pub(crate) mod leaf;
mod unheaded;

use leaf::Leaf;

pub use branch::Branch;

pub struct Door;

pub struct Guard {
    pub ground: crate::bottom::Ground,
}

impl core::ops::Deref for Guard {
    type Target = crate::bottom::Ground;
    fn deref(&self) -> &Self::Target {
        &self.ground
    }
}

fn own(leaf: &Leaf) {
    leaf.fall();
    crate::bottom::deep::dig();
    let _ = crate::ROOT; // finds import
    crate::told!(crate::bottom);
}

use super::leaf::Leaf;
use super::Door; // finds import
use super::super::top; // finds import
use crate::bottom::Ground;

pub struct Branch;

impl Branch {
    fn hangs(&self, leaf: &Leaf, ground: Ground) {
        leaf.fall();
        ground.depth();
        ground.lifted(); // finds call
        ground.helped(|leaf| leaf.fall());
    }
    pub(super) fn grows(&self) {}
}

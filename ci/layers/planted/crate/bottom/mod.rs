pub(crate) mod deep; // finds tree

use crate::Door; // finds import
use crate::middle::Branch; // finds import
use crate::*; // finds import

pub struct Ground;

pub enum Kind {
    First,
    Second,
}

use Kind::*;

impl Ground {
    pub(crate) fn depth(&self) -> u32 {
        0
    }
    pub(crate) fn back(&self) -> &Ground {
        self
    }
    pub(crate) fn helped<R>(&self, help: impl FnOnce(&Ground) -> R) -> R {
        help(self)
    }
    pub(crate) fn told() {
        // use crate::top;
        /* crate::top::a(); */
        let _ = "crate::top::a()";
    }
}

#[serde(with = "crate::middle::leaf")] // finds import
struct Written {
    #[cfg(test)]
    test: crate::top::Own,
}

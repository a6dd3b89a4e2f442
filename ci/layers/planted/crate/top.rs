use crate::middle::{Door, Guard, leaf::Leaf};
use super::bottom::{self, Ground, Kind::*};
use crate::top::Own;
use self::inside::X;

/// Written inside this file.
mod inside {
    use super::Own;
    pub struct X;
    pub struct Deep(Own);
}

pub struct Own;

impl Ground {
    pub(crate) fn lifted(&self) -> u32 {
        self.depth()
    }
    pub(crate) fn unique_above(&self, _: u32) {}
    pub(crate) fn clone_of(&self) -> Ground {
        Ground
    }
    pub(crate) const HEIGHT: u32 = 1;
    pub(crate) fn new_above() -> Ground {
        Ground
    }
}

impl Door {
    pub(crate) fn open_above(&self) {}
    pub(crate) fn shared(&self) {}
}

fn uses_what_is_below(guard: &Guard) {
    guard.ground.depth();
    bottom::deep::dig();
    Leaf::new().fall();
    matches!(First, Second);
}

use crate::bottom::Ground;
use crate::middle::branch::Branch; // finds import

pub struct Leaf {
    branch: Branch,
}

impl Leaf {
    pub(crate) fn new() -> Leaf {
        loop {}
    }
    pub(crate) fn fall(&self) {
        self.branch.grows(); // finds call
        Self::new().fall();
    }
    fn hidden_names(&self, text: &str) {
        enum Own {} // finds name
        text.clone_of_text();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top;
    fn upward(branch: &super::Branch) {
        branch.grows();
    }
}

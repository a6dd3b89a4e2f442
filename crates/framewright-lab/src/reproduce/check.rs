//! What had to hold, and whether it did.

use std::fmt;

use serde::Serialize;

/// One thing that had to hold.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it did; none if that could not be seen.
    pub passed: Option<bool>,
    /// The numbers, or why nothing could be seen.
    pub detail: String,
}

impl Check {
    /// Something that was seen to hold, or not to.
    pub fn seen(name: &str, passed: bool, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), passed: Some(passed), detail: detail.into() }
    }

    /// Something that could not be seen, and why.
    pub fn unseen(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.to_owned(), passed: None, detail: why.into() }
    }

    /// The verdict in a word.
    pub fn word(&self) -> &'static str {
        match self.passed {
            Some(true) => "holds",
            Some(false) => "FAILS",
            None => "unseen",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}{}: {}", self.word(), self.name, self.detail)
    }
}

/// Whether everything was seen to hold.
pub fn all_hold(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.passed == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_does_not_hold() {
        let (held, open) = (Check::seen("a", true, "1"), Check::unseen("b", "no run"));
        assert!(all_hold(&[]) && all_hold(&[held.clone(), held.clone()]));
        assert!(!all_hold(&[held.clone(), open.clone()]) && !all_hold(&[Check::seen("c", false, "")]));
        assert_eq!((held.to_string(), open.word()), ("holds   a: 1".to_owned(), "unseen"));
    }
}

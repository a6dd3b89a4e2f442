//! x
use serde::Serialize;
/// The request on our allocator, in the state of the report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Trial {
    /// The mechanisms.
    pub mechanisms: String,
    /// What came of it if everything unknown is in the request's favour.
    pub best: String,
    /// What came of it if everything unknown is against it.
    pub worst: String,
}

impl Trial {
    /// Returns both ends in words; once if they agree.
    pub fn in_words(&self) -> String {
        if self.best == self.worst { self.best.clone() } else { format!("{}; at worst {}", self.best, self.worst) }
    }
}

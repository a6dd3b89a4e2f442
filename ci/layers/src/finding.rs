//! What the check reports.

use std::fmt;
use std::path::PathBuf;

/// Which rule a finding breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// A file declared twice, never, without a header, or a crate without modules.
    Tree,
    /// A path that leads to a file above.
    Import,
    /// Files that import each other.
    Circle,
    /// A call of a method that is defined in a file above.
    Call,
    /// A type name that the crate uses twice.
    Name,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Kind; 5] = [Kind::Tree, Kind::Import, Kind::Circle, Kind::Call, Kind::Name];

    /// The kind's word on the command line and in the report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Tree => "tree",
            Kind::Import => "import",
            Kind::Circle => "circle",
            Kind::Call => "call",
            Kind::Name => "name",
        }
    }
}

/// One line of the report.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.kind.word(), self.text)
    }
}

//! Pieces of the input that messages quote.

use std::fmt;

/// A piece of the input to quote: cut, and with everything but printable ASCII escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    /// The most bytes of the input that are quoted.
    pub const LIMIT: usize = 120;

    /// The start of `text`.
    pub fn new(text: &[u8]) -> Excerpt {
        let cut = text.len().min(Excerpt::LIMIT);
        let dots = if cut < text.len() { "..." } else { "" };
        Excerpt(format!("{}{dots}", text[..cut].escape_ascii()))
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_cut_and_escaped() {
        assert_eq!(Excerpt::new(b"a\x1b[31m\"b\"\xff\n").to_string(), r#"`a\x1b[31m\"b\"\xff\n`"#);
        let long = Excerpt::new(&[b'x'; 1000]).to_string();
        assert_eq!(long, format!("`{}...`", "x".repeat(Excerpt::LIMIT)));
    }
}

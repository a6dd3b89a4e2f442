//! Finds the places where an anchor occurs in a piece of text.
//!
//! The idea: an anchor is a list of words between white space. A match is these words in order, with any white space
//! between them, so that an anchor survives another indentation and another break of a line.
//!
//! Cost: one search for the first word, and a comparison at each of its places.
//!
//! Rejected: regular expressions. Anchors are C, in which most characters would need a backslash. Comparing tokens of C
//! would also match `a( b` for `a(b`; no release needs it so far.

use std::ops::Range;

/// Finds all matches of `anchor` in `text`, from left to right, without overlaps.
pub(super) fn matches(text: &str, anchor: &str) -> Vec<Range<usize>> {
    let words: Vec<&str> = anchor.split_whitespace().collect();
    let Some((first, rest)) = words.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find(first)).map(|at| from + at) {
        let after_first = start + first.len();
        match end_of_words(text, after_first, rest) {
            Some(end) => {
                found.push(start..end);
                from = end;
            }
            None => from = after_first,
        }
    }
    found
}

/// The end of `words` in `text`, each after white space, if they all follow position `from`.
fn end_of_words(text: &str, from: usize, words: &[&str]) -> Option<usize> {
    words.iter().try_fold(from, |at, word| {
        let rest = text.get(at..)?;
        let trimmed = rest.trim_start();
        let blanks = rest.len() - trimmed.len();
        (blanks > 0 && trimmed.starts_with(word)).then_some(at + blanks + word.len())
    })
}

/// Finds the longest beginning of `anchor`, in words, that `text` has, and where it lies first.
pub(super) fn longest_beginning(text: &str, anchor: &str) -> Option<(String, usize)> {
    let words: Vec<&str> = anchor.split_whitespace().collect();
    (1..words.len()).rev().find_map(|length| {
        let beginning = words.get(..length)?.join(" ");
        let start = matches(text, &beginning).first()?.start;
        Some((beginning, start))
    })
}

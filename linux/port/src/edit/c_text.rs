//! Finds the text of a function in a C file, without a C parser.
//!
//! The idea has two steps:
//!
//! 1. Strings, character constants and comments become blanks of the same length, so that no brace in them counts.
//! 2. A definition is the function's name, on a line that begins in column 0, followed by a list in parentheses and,
//!    before any `;`, by `{`. The function ends at the matching `}`.
//!
//! Both hold for Linux's coding style. The branches of `#if` may open the same brace twice:
//!
//! ```c
//! #ifdef CONFIG_A
//!     if (a) {
//! #else
//!     if (b) {
//! #endif
//! ```
//!
//! The depth at `#if` is therefore restored at `#else` and `#elif`. One name may have several definitions, one for each
//! configuration; all are found.
//!
//! Cost: one pass over the file, and one for each definition.
//!
//! Rejected: a parser of C, which would have to know the macros of Linux.

use std::ops::Range;

/// The text of one definition of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// From the start of the line with the name to the end of the line with the last brace.
    pub(super) whole: Range<usize>,
    /// Between the line of the opening brace and the line of the closing one.
    pub(super) body: Range<usize>,
}

/// The definitions of a function in a C file, and whether a definition never ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Definitions {
    pub(super) found: Vec<Function>,
    pub(super) unclosed: bool,
}

/// Finds every definition of the function `name` in a C file.
pub(super) fn definitions(text: &str, name: &str) -> Definitions {
    let code = without_comments(text);
    let mut definitions = Definitions::default();
    let mut from = 0;
    while let Some(at) = find(&code, name.as_bytes(), from) {
        from = at + name.len();
        let Some(brace) = opening_brace(&code, at, from) else { continue };
        let Some(end) = closing_brace(&code, brace) else {
            definitions.unclosed = true;
            continue;
        };
        let whole = line_start(&code, at)..line_end(&code, end);
        let body = line_end(&code, brace)..line_start(&code, end);
        // A function on one line has no lines between its braces.
        let body = if body.start <= body.end { body } else { end..end };
        definitions.found.push(Function { whole, body });
        from = end;
    }
    definitions
}

/// Returns the C text with strings, character constants and comments blanked; line ends stay.
fn without_comments(text: &str) -> Vec<u8> {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while let Some(&byte) = code.get(at) {
        let end = match (byte, code.get(at + 1)) {
            (b'/', Some(b'*')) => find(&code, b"*/", at + 2).map_or(code.len(), |end| end + 2),
            (b'/', Some(b'/')) => find(&code, b"\n", at).unwrap_or(code.len()),
            (b'"' | b'\'', _) => end_of_quote(&code, at),
            _ => {
                at += 1;
                continue;
            }
        };
        for blanked in code.iter_mut().take(end).skip(at).filter(|byte| **byte != b'\n') {
            *blanked = b' ';
        }
        at = end;
    }
    code
}

/// The position after the string or character constant that begins at `at`; it ends with its line at the latest.
fn end_of_quote(code: &[u8], at: usize) -> usize {
    let quote = code.get(at).copied();
    let mut end = at + 1;
    while let Some(&byte) = code.get(end) {
        match byte {
            b'\\' => end += 2,
            b'\n' => return end,
            _ if Some(byte) == quote => return end + 1,
            _ => end += 1,
        }
    }
    code.len()
}

/// The brace that opens the body, if the name at `at..end` is that of a definition.
fn opening_brace(code: &[u8], at: usize, end: usize) -> Option<usize> {
    let is_name = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let before = at.checked_sub(1).and_then(|before| code.get(before));
    let first = code.get(line_start(code, at)).copied()?;
    if is_name(before) || is_name(code.get(end)) || !(first.is_ascii_alphabetic() || first == b'_') {
        return None;
    }
    let mut position = skip_blanks(code, end);
    if code.get(position) != Some(&b'(') {
        return None;
    }
    position = after_parentheses(code, position)?;
    // Attributes may follow, such as __acquires(lock).
    loop {
        match code.get(position)? {
            b'{' => return Some(position),
            b'(' => position = after_parentheses(code, position)?,
            byte if byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || *byte == b'_' => position += 1,
            _ => return None,
        }
    }
}

/// The position after the parenthesis that closes the one at `at`.
fn after_parentheses(code: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (position, byte) in code.iter().enumerate().skip(at) {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(position + 1);
        }
    }
    None
}

/// The brace that closes the one at `open`.
fn closing_brace(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut outside_branches = Vec::new();
    let mut at = open;
    while let Some(&byte) = code.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            b'#' if code.get(line_start(code, at)..at)?.iter().all(u8::is_ascii_whitespace) => {
                match code.get(skip_blanks(code, at + 1)..)? {
                    [b'i', b'f', ..] => outside_branches.push(depth),
                    [b'e', b'l', ..] => depth = outside_branches.last().copied().unwrap_or(depth),
                    [b'e', b'n', b'd', ..] => drop(outside_branches.pop()),
                    _ => {}
                }
                at = line_end(code, at);
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The first position from `at` on that is no blank.
fn skip_blanks(code: &[u8], at: usize) -> usize {
    let blanks = code.iter().skip(at).take_while(|byte| byte.is_ascii_whitespace()).count();
    at + blanks
}

/// The first position of `needle` in `code`, from `from` on.
fn find(code: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let rest = code.get(from..)?;
    rest.windows(needle.len().max(1)).position(|window| window == needle).map(|at| from + at)
}

/// The start of the line that holds position `at`.
pub(super) fn line_start(code: &[u8], at: usize) -> usize {
    code.iter().take(at).rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// The start of the line after the one that holds position `at`, or the end of the text.
pub(super) fn line_end(code: &[u8], at: usize) -> usize {
    code.iter().skip(at).position(|byte| *byte == b'\n').map_or(code.len(), |end| at + end + 1)
}

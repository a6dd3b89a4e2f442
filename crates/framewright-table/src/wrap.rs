//! Long lines, broken where a terminal ends.

/// Breaks `text` after `separator` into lines of at most `width` columns, each with its line end.
///
/// Lines after the first are indented by `indent`. A part that is wider than a line has a line of its own.
pub fn wrapped(text: &str, separator: char, width: usize, indent: usize) -> String {
    let (mut lines, mut line, mut used) = (String::new(), String::new(), 0);
    for part in text.split_inclusive(separator) {
        let is_begun = !line.trim().is_empty();
        if is_begun && used + part.trim_end().chars().count() > width {
            lines += line.trim_end();
            lines.push('\n');
            (line, used) = (" ".repeat(indent), indent);
            if part.trim().is_empty() {
                continue;
            }
        }
        line += part;
        used += part.chars().count();
    }
    lines + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_and_indented() {
        let cases: [(&str, char, usize, &str); 7] = [
            ("a=1,b=2,c=3", ',', 8, "a=1,b=2,\n  c=3\n"),
            ("", ',', 8, "\n"),
            ("one two three", ' ', 7, "one two\n  three\n"),
            ("  one two three", ' ', 9, "  one two\n  three\n"),
            ("abcdefghij kl", ' ', 5, "abcdefghij\n  kl\n"),
            ("größer um", ' ', 9, "größer um\n"),
            ("one two", ' ', 6, "one\n  two\n"),
        ];
        for (text, separator, width, expected) in cases {
            assert_eq!(wrapped(text, separator, width, 2), expected, "{text:?}");
        }
    }
}

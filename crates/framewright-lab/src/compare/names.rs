//! Names that are too long for their column.
//!
//! They usually differ at their ends, in a file's name or in the last of many options, so the front is cut off. A table
//! with cut names lists them in full below.

/// Names that were cut: in full, and as they are printed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Short(Vec<(String, String)>);

impl Short {
    /// Cuts names to `width` characters. Names with equal ends get numbers.
    pub fn of<'n>(names: impl Iterator<Item = &'n str>, width: usize) -> Self {
        let mut long: Vec<&str> = Vec::new();
        for name in names.filter(|name| name.chars().count() > width) {
            if !long.contains(&name) {
                long.push(name);
            }
        }
        let cut = |name: &str, mark: &str| mark.to_owned() + end(name, width.saturating_sub(mark.chars().count()));
        let shown = |(number, name): (usize, &&str)| {
            let short = cut(name, "…");
            let alike = long.iter().filter(|other| cut(other, "…") == short).count();
            let short = if alike > 1 { cut(name, &format!("{}…", number + 1)) } else { short };
            ((*name).to_owned(), short)
        };
        Self(long.iter().enumerate().map(shown).collect())
    }

    /// The printed form of a name.
    pub fn shown<'n>(&'n self, name: &'n str) -> &'n str {
        self.0.iter().find(|(full, _)| full == name).map_or(name, |(_, short)| short)
    }

    /// A line for each name that was cut.
    pub fn legend(&self) -> String {
        self.0.iter().map(|(full, short)| format!("{short}: {full}\n")).collect()
    }
}

/// The last characters of a text.
fn end(text: &str, count: usize) -> &str {
    let skipped = text.chars().count().saturating_sub(count);
    text.char_indices().nth(skipped).map_or("", |(start, _)| &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_can_be_told_apart() {
        let shown = |names: &[&str]| -> Vec<String> {
            let short = Short::of(names.iter().copied(), 8);
            names.iter().map(|name| short.shown(name).to_owned()).collect()
        };
        assert_eq!(shown(&["old.json", "größer.j"]), ["old.json", "größer.j"]);
        assert_eq!(shown(&["runs/old.json", "runs/new.json", "a"]), ["…ld.json", "…ew.json", "a"]);
        assert_eq!(shown(&["old/runs.json", "new/runs.json", "old/runs.json"]), ["1…s.json", "2…s.json", "1…s.json"]);
        let short = Short::of(["old/runs.json", "new/runs.json", "a"].into_iter(), 8);
        assert_eq!(short.legend(), "1…s.json: old/runs.json\n2…s.json: new/runs.json\n");
        assert_eq!(Short::of([].into_iter(), 8).legend(), "");
    }
}

//! Where unsafe code is, and how much: what `docs/unsafe.md` says, compared with the sources.
//!
//! Its first table names each file with unsafe code, and its last one counts by crate: blocks, functions, and
//! implementations or traits. A file without a row fails, as does a row without a file, and a count that differs. A
//! count may only fall: a new block goes through a wrapper that exists, or its review raises the number on purpose. In
//! `framewright-rt` each file with unsafe code argues in its header why all of it is right.
//!
//! Tokens are counted, so macros count too. Tests and examples are named in the first table and not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Folders of the repository that have sources.
const FOLDERS: [&str; 5] = ["crates", "examples", "linux", "tools", "fuzz"];
/// Heading of the argument in a header.
const ARGUMENT: &str = "//! # Why the unsafe code is right";
/// The crate whose files all have it.
const ARGUED: &str = "crates/framewright-rt/src/";
/// Heading of the table of counts.
const COUNTS: &str = "## How much there is";

/// Unsafe code of a file or crate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Count {
    blocks: usize,
    functions: usize,
    /// With traits.
    impls: usize,
    /// Names for the linker.
    attributes: usize,
}

impl Count {
    fn of(tokens: TokenStream) -> Count {
        let mut count = Count::default();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => count += Count::of(group.stream()),
                TokenTree::Ident(ident) if ident == "unsafe" => match tokens.peek() {
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => count.blocks += 1,
                    Some(TokenTree::Group(_)) => count.attributes += 1,
                    Some(TokenTree::Ident(next)) if next == "impl" || next == "trait" => count.impls += 1,
                    _ => count.functions += 1,
                },
                _ => {}
            }
        }
        count
    }

    fn is_none(self) -> bool {
        self == Count::default()
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.blocks += other.blocks;
        self.functions += other.functions;
        self.impls += other.impls;
        self.attributes += other.attributes;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {} | {}", self.blocks, self.functions, self.impls)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds the unsafe code of each source below a folder, by its path from the root.
fn look_through(root: &Path, folder: &str, found: &mut BTreeMap<String, Count>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let path = format!("{folder}/{}", entry.file_name().display());
        if entry.path().is_dir() {
            if !path.ends_with("/target") {
                look_through(root, &path, found);
            }
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).expect("a source");
            let count = Count::of(text.parse().unwrap_or_else(|error| panic!("{path}: {error}")));
            if !count.is_none() {
                found.insert(path, count);
            }
        }
    }
}

fn sources() -> BTreeMap<String, Count> {
    let mut found = BTreeMap::new();
    FOLDERS.iter().for_each(|folder| look_through(&root(), folder, &mut found));
    found
}

fn document() -> String {
    fs::read_to_string(root().join("docs/unsafe.md")).expect("the document")
}

/// Returns the files and folders that the first column names.
///
/// A name without its folder stands in the folder of the name before, or in the next one above that has it.
fn named(text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let rows = text.split("\n## ").next().unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
    let mut names = Vec::new();
    for row in rows {
        let mut folder = String::new();
        for name in row.split(" | ").next().unwrap_or_default().split('`').skip(1).step_by(2) {
            let mut above = Some(folder.as_str());
            let whole = loop {
                let candidate = above.filter(|above| !above.is_empty()).map(|above| format!("{above}/{name}"));
                let candidate = candidate.unwrap_or_else(|| name.to_owned());
                if is_there(&candidate) || above.is_none_or(str::is_empty) {
                    break candidate;
                }
                above = above.map(|above| above.rsplit_once('/').map_or("", |(above, _)| above));
            };
            folder = whole.trim_end_matches('/').rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            names.push(whole);
        }
    }
    names
}

/// Returns how the files with unsafe code differ from the named ones.
fn differences(sources: &BTreeMap<String, Count>, named: &[String]) -> Vec<String> {
    let covers =
        |name: &String, file: &String| file == name || (name.ends_with('/') && file.starts_with(name.as_str()));
    let missing = sources.keys().filter(|file| !named.iter().any(|name| covers(name, file)));
    let stale = named.iter().filter(|name| !sources.keys().any(|file| covers(name, file)));
    missing.map(|file| format!("no row: {file}")).chain(stale.map(|name| format!("no unsafe code: {name}"))).collect()
}

/// Returns the sum of each crate's own sources.
fn by_crate(sources: &BTreeMap<String, Count>) -> BTreeMap<String, Count> {
    let mut sums = BTreeMap::new();
    for (file, &count) in sources {
        if let Some((name, _)) = file.strip_prefix("crates/").and_then(|file| file.split_once("/src/")) {
            *sums.entry(name.to_owned()).or_insert_with(Count::default) += count;
        }
    }
    sums
}

/// Returns the rows of the table of counts: a crate, and the rest of its row.
fn counted(text: &str) -> BTreeSet<(String, String)> {
    let section = text.split(COUNTS).nth(1).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let (name, rest) = line.trim_matches(['|', ' ']).split_once(" | ")?;
        Some((name.trim_matches('`').to_owned(), rest.to_owned()))
    };
    rows.filter_map(row).collect()
}

#[test]
fn each_file_with_unsafe_code_has_a_row() {
    let named = named(&document(), |path| root().join(path).exists());
    let differences = differences(&sources(), &named);
    assert!(differences.is_empty(), "docs/unsafe.md:\n{}", differences.join("\n"));
}

#[test]
fn the_counts_are_those_of_the_sources() {
    let wanted: BTreeSet<_> = by_crate(&sources()).into_iter().map(|(name, count)| (name, count.to_string())).collect();
    let written = counted(&document());
    let list = |rows: Vec<&(String, String)>| {
        rows.iter().map(|(name, row)| format!("| `{name}` | {row} |\n")).collect::<String>()
    };
    let (new, old) = (list(wanted.difference(&written).collect()), list(written.difference(&wanted).collect()));
    assert!(
        wanted == written,
        "docs/unsafe.md, \"{COUNTS}\": a number may only fall.\nThe sources have\n{new}and the table has\n{old}"
    );
}

#[test]
fn each_file_of_the_runtime_argues_its_unsafe_code() {
    let is_argued = |file: &String| {
        let text = fs::read_to_string(root().join(file)).expect("a source");
        text.lines().take_while(|line| line.starts_with("//!")).any(|line| line == ARGUMENT)
    };
    let files: Vec<String> =
        sources().into_keys().filter(|file| file.starts_with(ARGUED) && !is_argued(file)).collect();
    assert!(files.is_empty(), "no `{ARGUMENT}` in the header of {files:#?}");
}

#[test]
fn new_unsafe_code_and_a_stale_row_are_found() {
    let source = "
        /// unsafe { }
        #[unsafe(no_mangle)]
        unsafe extern \"C\" fn f() {
            unsafe { g() }
        }
        unsafe impl Send for A {}
        unsafe trait T { unsafe fn h(); }
        macro_rules! m { () => { unsafe { g() } } }
        #[cfg(test)] mod tests { fn t() { let _ = \"unsafe {\"; unsafe { super::g() } } }
    ";
    let count = Count::of(source.parse().expect("tokens"));
    assert_eq!(count, Count { blocks: 3, functions: 2, impls: 2, attributes: 1 });
    let sources: BTreeMap<_, _> = ["crates/a/src/new.rs", "crates/a/src/old.rs", "crates/a/tests/all/one.rs"]
        .map(|file| (file.to_owned(), count))
        .into();
    let document = "| `crates/a/src/old.rs`, `gone.rs` | x | y |\n| `crates/a/tests/all/` | x | y |\n\n\
        ## How much there is\n\n| `a` | 6 | 4 | 4 |\n| `b` | 1 | 0 | 0 |\n";
    let named = named(document, |path| path.starts_with("crates/a/src/") || path == "crates/a/tests/all/");
    assert_eq!(differences(&sources, &named), ["no row: crates/a/src/new.rs", "no unsafe code: crates/a/src/gone.rs"]);
    assert_eq!(by_crate(&sources)["a"].to_string(), "6 | 4 | 4");
    let written: Vec<_> = counted(document).into_iter().collect();
    assert_eq!(written, [("a".to_owned(), "6 | 4 | 4".to_owned()), ("b".to_owned(), "1 | 0 | 0".to_owned())]);
}

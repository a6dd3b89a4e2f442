//! Checks that every file of a crate uses only what stands below it.
//!
//! The files of a crate are a tree: lib.rs, the modules that it declares, and what those declare in turn. The order of the declarations is the order
//! from top to bottom, and the file of a module stands above its children. The rules, each with the word that its findings begin with:
//!
//! | word | a finding is |
//! |---|---|
//! | `tree` | a file that no module declares, a module declared twice, a folder's file without a header, a crate without modules |
//! | `import` | a path that leads to a file above; `use crate::*` |
//! | `circle` | files that lead to each other |
//! | `call` | a call of an inherent method that is defined in a file above |
//! | `name` | a type name that the crate uses for two types |
//!
//! Test code may use everything.
//!
//! Before each run the check looks through the planted crate beside it, which breaks every rule; if it does not find exactly the lines that are marked
//! there, it fails.

mod calls;
mod definitions;
mod imports;
mod names;
mod types;
mod tree;
mod finding;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use calls::Counts;
use definitions::Definitions;
use finding::{Finding, Kind};
use tree::Tree;

const USAGE: &str = "usage: layers [-v | -vv] [--report] [--only WORD,WORD...] DIRECTORY OF A lib.rs...";

/// What the command line says.
struct Options {
    kinds: Vec<Kind>,
    /// 1 counts calls, 2 lists those whose receiver is unknown.
    verbosity: usize,
    /// Findings do not fail.
    only_reports: bool,
    sources: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("layers: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Checks what the command line names. Whether all is well.
fn run() -> Result<bool, String> {
    let options = options(std::env::args().skip(1))?;
    self_test()?;
    let mut is_clean = true;
    for source in &options.sources {
        let (files, findings, counts) = check(source, options.verbosity > 1)?;
        let findings: Vec<Finding> = findings.into_iter().filter(|one| options.kinds.contains(&one.kind)).collect();
        for finding in &findings {
            println!("{finding}");
        }
        let kinds: Vec<&str> = options.kinds.iter().map(|kind| kind.word()).collect();
        println!("layers: {} files of {}, {}: {} findings", files, source.display(), kinds.join(" "), findings.len());
        if options.verbosity > 0 {
            let Counts { own, other, unknown } = counts;
            println!("  calls: {own} of methods of the crate, {other} of traits and other crates, {unknown} of unknown receivers");
            for &kind in &options.kinds {
                println!("  {:<7} {}", kind.word(), findings.iter().filter(|one| one.kind == kind).count());
            }
        }
        is_clean &= findings.is_empty();
    }
    Ok(is_clean || options.only_reports)
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { kinds: Kind::ALL.to_vec(), verbosity: 0, only_reports: false, sources: Vec::new() };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-v" => options.verbosity = 1,
            "-vv" => options.verbosity = 2,
            "--report" => options.only_reports = true,
            "--only" => {
                let words = args.next().ok_or(USAGE)?;
                options.kinds = words.split(',').map(kind).collect::<Result<_, _>>()?;
            }
            _ if arg.starts_with('-') => return Err(format!("unknown option {arg}\n{USAGE}")),
            _ => options.sources.push(PathBuf::from(arg)),
        }
    }
    if options.sources.is_empty() { Err(USAGE.to_owned()) } else { Ok(options) }
}

fn kind(word: &str) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    known.ok_or_else(|| format!("unknown kind {word}\n{USAGE}"))
}

/// The number of files of a crate, what breaks a rule there, and how much of its calls is understood.
fn check(source: &Path, shows_unknown: bool) -> Result<(usize, Vec<Finding>, Counts), String> {
    let tree = Tree::read(source)?;
    let mut findings = tree.findings.clone();
    let arrows = imports::upward(&tree, &mut findings);
    imports::circles(&tree, &arrows, &mut findings);
    names::twice(&tree, &mut findings);
    let definitions = Definitions::of(&tree);
    let counts = calls::upward(&tree, &definitions, &mut findings, shows_unknown);
    findings.sort();
    findings.dedup();
    Ok((tree.files().count(), findings, counts))
}

/// Looks through the planted crates. A line that breaks a rule ends in `// finds` and the rules' words; a file that does so as a whole has such a line
/// first.
fn self_test() -> Result<(), String> {
    let planted = Path::new(env!("CARGO_MANIFEST_DIR")).join("planted");
    for name in ["crate", "empty"] {
        let source = planted.join(name);
        let (_, findings, counts) = check(&source, false)?;
        let found: BTreeSet<(PathBuf, usize, &str)> =
            findings.iter().map(|one| (one.file.clone(), one.line, one.kind.word())).collect();
        let wanted = marks(&source)?;
        let wanted: BTreeSet<(PathBuf, usize, &str)> =
            wanted.iter().map(|(file, line, word)| (file.clone(), *line, word.as_str())).collect();
        let tell = |which: &str, list: Vec<&(PathBuf, usize, &str)>| {
            let lines: Vec<String> = list.iter().map(|(file, line, word)| format!("{}:{line}: {word}", file.display())).collect();
            format!("{which}: {}", if lines.is_empty() { "none".to_owned() } else { lines.join(", ") })
        };
        if found != wanted {
            let missed = tell("missed", wanted.difference(&found).collect());
            let wrong = tell("found too much", found.difference(&wanted).collect());
            return Err(format!("the self-test failed\n{missed}\n{wrong}"));
        }
        if name == "crate" && (counts.own < 10 || counts.unknown == 0) {
            return Err(format!("the self-test understood too few calls: {counts:?}"));
        }
    }
    Ok(())
}

/// The marks `// finds WORD WORD` below a folder: file, line and word.
fn marks(folder: &Path) -> Result<Vec<(PathBuf, usize, String)>, String> {
    let mut marks = Vec::new();
    for file in tree::files_below(folder)? {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        for (index, line) in text.lines().enumerate() {
            if let Some((_, words)) = line.split_once("// finds ") {
                marks.extend(words.split_whitespace().map(|word| (file.clone(), index + 1, word.to_owned())));
            }
        }
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    /// The planted crate is found out.
    #[test]
    fn finds_what_is_planted() {
        super::self_test().unwrap();
    }
}

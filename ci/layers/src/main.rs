//! Checks that every file of a crate uses only what stands below it.
//!
//! The files of a crate are a tree: lib.rs, the modules that it declares, and what those declare in turn. The order
//! of the declarations is the order from top to bottom, and the file of a module stands above its children. The
//! rules, each with the word that its findings begin with:
//!
//! | word | a finding is |
//! |---|---|
//! | `tree` | a file that no module declares or two do; a folder without a header; a crate without modules |
//! | `import` | a path that leads to a file above; `use crate::*` |
//! | `circle` | files that lead to each other |
//! | `call` | a call of an inherent method that is defined in a file above |
//! | `name` | a type name that the crate uses for two types |
//!
//! Test code may use everything.
//!
//! A document that follows a way through a crate is checked against the crate's code (document.rs).
//!
//! Before each run the check looks through the planted crate beside it, which breaks every rule; if it does not
//! find exactly the lines that are marked there, it fails. So it does with a planted document.

mod document;
mod calls;
mod expressions;
mod walk;
mod std_library;
mod collect;
mod written;
mod definitions;
mod types;
mod names;
mod imports;
mod tree;
mod macros;
mod test_code;
mod finding;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use calls::Counts;
use definitions::Definitions;
use finding::{Finding, Kind};
use tree::Tree;

const USAGE: &str = "\
usage: layers [-v | -vv] [--report] CRATE...
       layers --document DOCUMENT CRATE
  CRATE is the directory of a lib.rs, or DIRECTORY:WORD,WORD... for these rules only; WORD=N allows N findings
  --document  checks the call chains and tables of a Markdown file against a crate
  -v        counts the calls that were understood; -vv lists those that were not
  --report  prints every finding and does not fail";

/// A rule, and how many findings it may have.
type Rule = (Kind, usize);

/// What the command line says.
struct Options {
    /// 1 counts calls, 2 lists those whose receiver is unknown.
    verbosity: usize,
    only_reports: bool,
    document: Option<PathBuf>,
    sources: Vec<(PathBuf, Vec<Rule>)>,
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
    if let Some(document) = &options.document {
        for (source, _) in &options.sources {
            let (named, faults) = document::check(document, source)?;
            for (line, fault) in &faults {
                println!("{}:{line}: {fault}", document.display());
            }
            println!("layers: {named} names of {} in {}, {} wrong", document.display(), source.display(), faults.len());
            is_clean &= faults.is_empty() && named != 0;
        }
        return Ok(is_clean);
    }
    for (source, rules) in &options.sources {
        let (files, findings, counts) = check(source, options.verbosity > 1)?;
        let mut summary = Vec::new();
        for &(kind, allowed) in rules {
            let found: Vec<&Finding> = findings.iter().filter(|one| one.kind == kind).collect();
            let word = kind.word();
            if found.len() > allowed || options.only_reports {
                found.iter().for_each(|finding| println!("{finding}"));
            }
            let limit = if allowed == 0 { String::new() } else { format!(" of {allowed} allowed") };
            summary.push(format!("{word} {}{limit}", found.len()));
            is_clean &= found.len() <= allowed;
        }
        println!("layers: {files} files of {}: {}", source.display(), summary.join(", "));
        if options.verbosity > 0 {
            let Counts { own, other, unknown } = counts;
            println!(
                "  calls: {own} of methods of the crate, {other} of traits and other crates, {unknown} of unknown receivers"
            );
        }
    }
    Ok(is_clean || options.only_reports)
}

fn options(args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { verbosity: 0, only_reports: false, document: None, sources: Vec::new() };
    let mut args = args;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-v" => options.verbosity = 1,
            "-vv" => options.verbosity = 2,
            "--report" => options.only_reports = true,
            "--document" => options.document = Some(args.next().ok_or(USAGE)?.into()),
            _ if arg.starts_with('-') => return Err(format!("unknown option {arg}\n{USAGE}")),
            _ => {
                let (source, rules) = match arg.split_once(':') {
                    Some((source, words)) => (source, words.split(',').map(rule).collect::<Result<_, _>>()?),
                    None => (arg.as_str(), Kind::ALL.map(|kind| (kind, 0)).to_vec()),
                };
                options.sources.push((PathBuf::from(source), rules));
            }
        }
    }
    if options.sources.is_empty() { Err(USAGE.to_owned()) } else { Ok(options) }
}

/// The rule that `WORD` or `WORD=N` names.
fn rule(text: &str) -> Result<Rule, String> {
    let (word, allowed) = text.split_once('=').unwrap_or((text, "0"));
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    match (kind, allowed.parse()) {
        (Some(kind), Ok(allowed)) => Ok((kind, allowed)),
        _ => Err(format!("{text}: no rule\n{USAGE}")),
    }
}

/// The number of files below a crate's source folder, what breaks a rule there, and how many of the calls are
/// understood.
fn check(source: &Path, shows_unknown: bool) -> Result<(usize, Vec<Finding>, Counts), String> {
    let mut findings = Vec::new();
    let mut counts = Counts::default();
    let files = tree::files_below(source)?;
    let mut declared = BTreeSet::new();
    // A binary is a crate of its own.
    let is_root = |file: &&PathBuf| {
        **file == source.join("lib.rs")
            || **file == source.join("main.rs")
            || file.parent() == Some(&source.join("bin"))
    };
    for root in files.iter().filter(is_root) {
        let tree = Tree::read(root)?;
        findings.extend(tree.findings.iter().cloned());
        declared.extend(tree.seen.iter().cloned());
        let arrows = imports::upward(&tree, &mut findings);
        imports::circles(&tree, &arrows, &mut findings);
        names::twice(&tree, &mut findings);
        let definitions = Definitions::of(&tree);
        counts.add(calls::upward(&tree, &definitions, &mut findings, shows_unknown));
    }
    if declared.is_empty() {
        return Err(format!("{}: has no lib.rs or main.rs", source.display()));
    }
    for file in files.iter().filter(|file| !declared.contains(*file)) {
        findings.push(Finding {
            file: file.clone(),
            line: 1,
            kind: Kind::Tree,
            text: "no module declares this file".to_owned(),
        });
    }
    findings.sort();
    findings.dedup();
    Ok((files.len(), findings, counts))
}

/// Looks through the planted crates. A line that breaks a rule ends in `// finds` and the rules' words; a file that
/// does so as a whole has such a line first.
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
            let lines: Vec<String> =
                list.iter().map(|(file, line, word)| format!("{}:{line}: {word}", file.display())).collect();
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
    self_test_of_documents(&planted)
}

/// Checks the planted document, in which each wrong line contains the word "wrong".
fn self_test_of_documents(planted: &Path) -> Result<(), String> {
    let document = planted.join("document.md");
    let (_, faults) = document::check(&document, &planted.join("called"))?;
    let text = fs::read_to_string(&document).map_err(|error| format!("{}: {error}", document.display()))?;
    let wrong =
        (1..).zip(text.lines()).filter(|(_, line)| line.to_lowercase().contains("wrong")).map(|(number, _)| number);
    let wanted: Vec<usize> = wrong.collect();
    let found: Vec<usize> = faults.iter().map(|&(line, _)| line).collect();
    if found == wanted {
        Ok(())
    } else {
        Err(format!(
            "the self-test of documents wanted lines {wanted:?} of {} and found {faults:?}",
            document.display()
        ))
    }
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

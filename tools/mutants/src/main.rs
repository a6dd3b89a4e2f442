//! Plants faults in the core, all in one build, and reports those that no test notices.
//!
//! Each fault, a *mutant*, is a small change of an expression or a statement. A copy of the workspace gets all of them, each
//! where the unchanged code was, as `match mutant_switch::at(N) { 0 => MUTANT, _ => ORIGINAL }`. A variable of the
//! environment says which one is at work. So the core is compiled once for ten thousand mutants.
//!
//! `run` finds out which test reaches which mutants, then runs against each mutant the tests that reach it, until one fails.
//! It goes on where an earlier run ended. `README.md` has the use, the operators and the figures.

mod table;
mod argued;
mod hunt;
mod results;
mod reach;
mod process;
mod copy;
mod emit;
mod collect;
mod operators;
mod mutant;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Parser, Subcommand};

use argued::Argued;
use copy::{Copy, Result};
use hunt::How;
use mutant::{Key, Mutant};
use results::Verdict;

/// Folders and files in the order in which their mutants are hunted: where a fault loses memory, first.
const ORDER: &[&str] = &[
    "buddy/",
    "zone/",
    "free_path/",
    "pcp/",
    "stat/",
    "frame/",
    "shared.rs",
    "observe/",
    "policy/watermark",
    "compaction/",
    "range/",
    "zonelist/",
    "upkeep/",
    "reclaim/",
    "sync/",
    "api/",
    "boot/",
    "types/",
    "policy/",
    "seam/",
];

/// Packages whose tests are built, and run unless others are named.
const PACKAGES: &[&str] =
    &["framewright", "framewright-ops", "framewright-sim", "framewright-rt", "framewright-campaign"];

#[derive(Parser)]
#[command(about = "Plants faults in the core and reports those that no test notices")]
struct Options {
    /// Root of the workspace
    #[arg(long, default_value = ".")]
    root: PathBuf,
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Builds all mutants, records what each test reaches, and hunts those without a verdict
    Run(Run),
    /// Prints the results by folder
    Table {
        /// By file instead
        #[arg(long)]
        by_file: bool,
    },
    /// Prints each mutant that is neither killed nor argued
    Survivors {
        /// Part of the file's name
        #[arg(long)]
        file: Vec<String>,
    },
}

#[derive(clap::Args)]
struct Run {
    /// Mutants of files with this part of the name alone
    #[arg(long)]
    file: Vec<String>,
    /// Mutants on lines that changed since this revision alone
    #[arg(long)]
    since: Option<String>,
    /// Each Nth mutant alone
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Of these, begin with this one
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// Hunt those with this verdict once more
    #[arg(long)]
    again: Vec<Verdict>,
    /// None without a verdict
    #[arg(long)]
    known: bool,
    /// Hunt those that `argued.toml` names, too
    #[arg(long)]
    argued: bool,
    /// Seconds of tests that a mutant meets before it stays open
    #[arg(long, default_value_t = f64::INFINITY)]
    budget: f64,
    /// Tests of these packages
    #[arg(short, long)]
    package: Vec<String>,
    /// Build and run these test programs of the packages alone, by cargo's name of the target; `lib` are the unit tests
    #[arg(long)]
    test: Vec<String>,
    /// Run tests with this part of the name alone
    #[arg(long)]
    name: Vec<String>,
    /// Tests that run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let root = options.root.canonicalize().map_err(|error| format!("{}: {error}", options.root.display()))?;
    let file = Copy::new(&root).work.join("results.tsv");
    match options.command {
        What::Run(run) => run.start(&root, &file),
        What::Table { by_file } => table(&root, &file, by_file),
        What::Survivors { file: parts } => survivors(&root, &file, &parts),
    }
}

impl Run {
    fn start(&self, root: &Path, file: &Path) -> Result<()> {
        let copy = Copy::new(root);
        // The same packages in each run: cargo builds a library once more for other features of other packages.
        let mut packages: Vec<String> = PACKAGES.iter().map(|&package| package.to_owned()).collect();
        packages.extend(self.package.iter().filter(|one| !PACKAGES.contains(&one.as_str())).cloned());
        let mut built = copy.build(&packages, &self.test)?;
        built
            .programs
            .retain(|program| self.package.is_empty() || self.package.iter().any(|one| program.folder.ends_with(one)));
        println!("{} mutants, and {} that do not compile", built.mutants.len(), built.unviable);
        let mut tests = reach::record(&copy.work, &built.programs, self.jobs)?;
        tests.retain(|test| self.name.is_empty() || self.name.iter().any(|part| test.name.contains(part)));
        for test in tests.iter().filter(|test| !test.passes) {
            println!("left out, fails without a mutant: {} of {}", test.name, test.program.path.display());
        }
        let seconds: f64 = tests.iter().map(|test| test.seconds).sum();
        println!("{} tests of {} programs take {seconds:.0} s", tests.len(), built.programs.len());
        let known = results::read(file);
        let lines = self.since.as_ref().map(|revision| changed(root, revision)).transpose()?;
        let mut mutants: Vec<_> = built.mutants.iter().skip(self.from).step_by(self.every).collect();
        let list = Argued::read(root)?;
        let named = list.named(built.mutants.iter().map(|planted| &planted.mutant.key))?;
        mutants.retain(|planted| {
            let Mutant { key, line, .. } = &planted.mutant;
            let is_wanted = self.file.is_empty() || self.file.iter().any(|part| key.file.contains(part));
            let has_changed = lines.as_ref().is_none_or(|lines| lines.contains(&(key.file.clone(), *line)));
            let is_left = known.get(key).map_or(!self.known, |(verdict, _)| self.again.contains(verdict));
            is_wanted && has_changed && is_left && (self.argued || !named.contains_key(key))
        });
        mutants.sort_by_key(|planted| rank(&planted.mutant.key.file));
        println!("{} mutants to hunt", mutants.len());
        let is_all = self.package.is_empty() && self.test.is_empty() && self.name.is_empty();
        hunt::hunt(&mutants, &tests, file, How { jobs: self.jobs, budget: self.budget, is_all })?;
        table(root, file, false)
    }
}

fn rank(file: &str) -> usize {
    ORDER.iter().position(|start| file.starts_with(start)).unwrap_or(ORDER.len())
}

/// Returns the lines of the core that changed since a revision, by the file's name.
fn changed(root: &Path, revision: &str) -> Result<HashSet<(String, usize)>> {
    let arguments = ["diff", "--unified=0", "--no-color", revision, "--", copy::CORE];
    let output = Command::new("git").args(arguments).current_dir(root).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(lines_of_diff(&String::from_utf8(output.stdout)?))
}

/// Returns the new lines of a difference without context.
fn lines_of_diff(text: &str) -> HashSet<(String, usize)> {
    let mut lines = HashSet::new();
    let mut file = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            file = name.strip_prefix(copy::CORE).map_or(name, |name| name.trim_start_matches('/'));
        } else if let Some(place) = line.strip_prefix("@@ ").and_then(|rest| rest.split('+').nth(1)) {
            let place = place.split(' ').next().unwrap_or_default();
            let (start, count) = place.split_once(',').unwrap_or((place, "1"));
            if let (Ok(start), Ok(count)) = (start.parse::<usize>(), count.parse::<usize>()) {
                lines.extend((start..start + count).map(|line| (file.to_owned(), line)));
            }
        }
    }
    lines
}

/// Mutants of the core that compile, as far as a build has found out.
fn all(root: &Path) -> Result<Vec<Mutant>> {
    let unviable = copy::unviable(&Copy::new(root).work);
    let sources = copy::sources(root)?;
    let mutants = sources.into_iter().flat_map(|source| source.sites).flat_map(|site| site.mutants);
    Ok(mutants.filter(|mutant| !unviable.contains(&mutant.key)).collect())
}

fn table(root: &Path, file: &Path, by_file: bool) -> Result<()> {
    let mutants = all(root)?;
    let keys: Vec<&Key> = mutants.iter().map(|mutant| &mutant.key).collect();
    let argued = Argued::read(root)?;
    let named = argued.named(keys.iter().copied())?;
    let name = |key: &Key| match key.file.rsplit_once('/') {
        Some((folder, _)) if !by_file => folder.to_owned(),
        _ => key.file.clone(),
    };
    for key in table::print(&keys, &results::read(file), &named, name) {
        println!("argued, and killed: {key}");
    }
    let mut skipped = mutant::Skipped::default();
    for source in copy::sources(root)? {
        skipped.debug += source.skipped.debug;
        skipped.constants += source.skipped.constants;
        skipped.macros += source.skipped.macros;
    }
    let mutant::Skipped { debug, constants, macros } = skipped;
    println!(
        "without mutants: {debug} implementations of Debug, {constants} constants, {macros} macros outside functions"
    );
    Ok(())
}

fn survivors(root: &Path, file: &Path, parts: &[String]) -> Result<()> {
    let mutants = all(root)?;
    let argued = Argued::read(root)?;
    let named = argued.named(mutants.iter().map(|mutant| &mutant.key))?;
    let results: HashMap<Key, (Verdict, String)> = results::read(file);
    for Mutant { key, line, .. } in &mutants {
        let Some((verdict, _)) = results.get(key) else { continue };
        let is_wanted = parts.is_empty() || parts.iter().any(|part| key.file.contains(part));
        if is_wanted && !matches!(verdict, Verdict::Killed | Verdict::Timeout) && !named.contains_key(key) {
            println!("{}:{line}: {verdict}: {} [{}#{}]: {}", key.file, key.change, key.function, key.nth, key.text);
        }
    }
    Ok(())
}

//! The copy of the workspace that has every mutant of the core, and its build.
//!
//! A mutant whose text does not compile is left out: `cargo check` names the bytes that are wrong, and these lie in a
//! mutant's text or in a site. This takes a few turns, because the compiler looks at types first and at borrows last.
//! The mutants that were left out are noted in a file, so that a next build begins with them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::collect::sites_of;
use crate::emit::{Planted, planted};
use crate::mutant::{Key, Site, Skipped};

/// Whatever went wrong, in words.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Sources of the core, from the root of the workspace.
pub(crate) const CORE: &str = "crates/framewright/src";

/// File of the core with its sites.
pub(crate) struct Source {
    /// Relative to the sources of the core.
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) sites: Vec<Site>,
    pub(crate) skipped: Skipped,
}

/// Reads the core, its files by name.
pub(crate) fn sources(root: &Path) -> Result<Vec<Source>> {
    let core = root.join(CORE);
    let mut files = BTreeSet::new();
    let mut folders = vec![core.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path)?;
        let file = path.strip_prefix(&core)?.to_string_lossy().into_owned();
        let found = sites_of(&file, &text).map_err(|error| format!("{file}: {error}"))?;
        Ok(Source { file, text, sites: found.sites, skipped: found.skipped })
    };
    files.into_iter().map(read).collect()
}

/// File of the mutants that do not compile.
const UNVIABLE: &str = "unviable.tsv";

/// Returns the mutants that earlier builds left out.
pub(crate) fn unviable(work: &Path) -> HashSet<Key> {
    fs::read_to_string(work.join(UNVIABLE)).unwrap_or_default().lines().filter_map(Key::parse).collect()
}

/// The copy, in a folder of its own.
pub(crate) struct Copy {
    root: PathBuf,
    /// Folder of everything that this tool makes.
    pub(crate) work: PathBuf,
}

/// A built copy.
pub(crate) struct Built {
    pub(crate) mutants: Vec<Planted>,
    pub(crate) unviable: usize,
    pub(crate) programs: Vec<Program>,
}

/// A test program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Folder of its package, in which it runs.
    pub(crate) folder: PathBuf,
}

/// A line that cargo prints.
#[derive(Deserialize)]
struct Line {
    reason: String,
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Clone, Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    is_primary: bool,
}

impl Copy {
    /// Prepares a copy of the workspace at `root`.
    pub(crate) fn new(root: &Path) -> Copy {
        Copy { root: root.to_owned(), work: root.join("target/mutants") }
    }

    fn tree(&self) -> PathBuf {
        self.work.join("copy")
    }

    /// Writes the copy, leaves out what does not compile, and builds the tests of the packages, or these programs of theirs.
    pub(crate) fn build(&self, packages: &[String], tests: &[String]) -> Result<Built> {
        self.copy_files()?;
        let sources = sources(&self.root)?;
        let mut without = unviable(&self.work);
        loop {
            let mutants = self.plant(&sources, &without)?;
            let wrong = self.check(&mutants)?;
            let count: usize = mutants.values().map(Vec::len).sum();
            println!("{count} mutants planted, {} do not compile", wrong.len());
            if wrong.is_empty() {
                let programs = self.programs(packages, tests)?;
                let found = sources.iter().flat_map(|source| &source.sites).map(|site| site.mutants.len());
                let unviable = found.sum::<usize>() - count;
                let mut mutants: Vec<_> = mutants.into_values().flatten().collect();
                mutants.sort_by_key(|mutant| mutant.number);
                return Ok(Built { mutants, unviable, programs });
            }
            without.extend(wrong);
            let lines: BTreeSet<String> = without.iter().map(Key::to_string).collect();
            fs::write(self.work.join(UNVIABLE), lines.into_iter().map(|line| line + "\n").collect::<String>())?;
        }
    }

    /// Copies what git knows, but the sources of the core; what has not changed stays untouched.
    fn copy_files(&self) -> Result<()> {
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(&self.root)
            .output()?;
        let names = String::from_utf8(listed.stdout)?;
        for name in names.split('\0').filter(|name| !name.is_empty() && !name.starts_with(CORE)) {
            let (from, to) = (self.root.join(name), self.tree().join(name));
            if from.is_symlink() {
                let target = fs::read_link(&from)?;
                if fs::read_link(&to).ok().as_ref() != Some(&target) {
                    fs::create_dir_all(to.parent().unwrap_or(&to))?;
                    // An older copy may have something else there.
                    let _ = fs::remove_file(&to);
                    symlink(target, &to).map_err(|error| format!("{}: {error}", to.display()))?;
                }
            } else if from.is_file() {
                write_changed(&to, &fs::read(&from)?)?;
                fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
            }
        }
        Ok(())
    }

    /// Writes the core with its mutants; returns these by file.
    fn plant(&self, sources: &[Source], without: &HashSet<Key>) -> Result<HashMap<String, Vec<Planted>>> {
        let core = self.tree().join(CORE);
        let mut mutants = HashMap::new();
        let mut next = 0;
        for source in sources {
            let (mut text, planted) = planted(&source.text, &source.sites, without, next);
            next += u32::try_from(planted.len())?;
            if source.file == "lib.rs" {
                text = with_switch(&text);
            }
            write_changed(&core.join(&source.file), text.as_bytes())?;
            mutants.insert(source.file.clone(), planted);
        }
        write_changed(&core.join("mutant_switch.rs"), include_bytes!("../mutant_switch.rs"))?;
        Ok(mutants)
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(arguments)
            .current_dir(self.tree())
            .env("CARGO_TARGET_DIR", self.work.join("build"))
            .env("RUSTC_BOOTSTRAP", "framewright")
            .env("RUSTFLAGS", "--cap-lints=allow")
            .stdin(Stdio::null());
        command
    }

    /// Returns the mutants that do not compile.
    fn check(&self, mutants: &HashMap<String, Vec<Planted>>) -> Result<Vec<Key>> {
        let output = self
            .cargo(&["check", "-q", "--locked", "-p", "framewright", "--lib", "--message-format=json"])
            .stderr(Stdio::inherit())
            .output()?;
        let mut wrong = HashSet::new();
        for line in lines_of(&output.stdout) {
            let Some(message) = line.message.filter(|message| message.level == "error") else { continue };
            let before = wrong.len();
            let mut spans: Vec<_> = message.spans.iter().collect();
            spans.sort_by_key(|span| !span.is_primary);
            for span in spans.iter().filter(|span| span.is_primary).chain(&spans) {
                let file = span.file_name.strip_prefix(CORE).and_then(|file| file.strip_prefix('/'));
                let Some(planted) = file.and_then(|file| mutants.get(file)) else { continue };
                wrong.extend(at_fault(planted, span.byte_start).into_iter().cloned());
                if wrong.len() > before {
                    break;
                }
            }
            if wrong.is_empty() && !message.spans.is_empty() {
                return Err(message.rendered.unwrap_or_default().into());
            }
        }
        if wrong.is_empty() && !output.status.success() {
            return Err("the copy does not compile, and no mutant is at fault".into());
        }
        Ok(wrong.into_iter().collect())
    }

    /// Builds the test programs of the packages; those with these names if there are any.
    fn programs(&self, packages: &[String], tests: &[String]) -> Result<Vec<Program>> {
        let mut arguments = vec!["test", "-q", "--locked", "--no-run", "--message-format=json"];
        for package in packages {
            arguments.extend(["-p", package]);
        }
        for test in tests {
            match test.as_str() {
                "lib" => arguments.push("--lib"),
                _ => arguments.extend(["--test", test]),
            }
        }
        let output = self.cargo(&arguments).stderr(Stdio::inherit()).output()?;
        let mut programs = Vec::new();
        for line in lines_of(&output.stdout) {
            if let Some(message) = line.message.filter(|message| message.level == "error") {
                return Err(message.rendered.unwrap_or_default().into());
            }
            let is_test = line.reason == "compiler-artifact" && line.profile.is_some_and(|profile| profile.test);
            if let (true, Some(path), Some(manifest)) = (is_test, line.executable, line.manifest_path) {
                let folder = manifest.parent().ok_or("a manifest without a folder")?.to_owned();
                programs.push(Program { path, folder });
            }
        }
        if !output.status.success() {
            return Err("the tests do not compile".into());
        }
        Ok(programs)
    }
}

fn lines_of(output: &[u8]) -> Vec<Line> {
    String::from_utf8_lossy(output).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the mutant whose own text has the byte; otherwise those of the innermost site around it; otherwise the nearest
/// deletion, because what a deleted assignment should have changed is missed elsewhere.
fn at_fault(planted: &[Planted], byte: usize) -> Vec<&Key> {
    if let Some(one) = planted.iter().find(|one| one.own.contains(&byte) || one.own.start == byte) {
        return vec![&one.mutant.key];
    }
    let around = planted.iter().filter(|one| one.site.contains(&byte));
    let Some(inner) = around.min_by_key(|one| one.site.len()).map(|one| one.first) else {
        let deletions = planted.iter().filter(|one| one.mutant.code.is_empty());
        let nearest = deletions.min_by_key(|one| one.site.start.abs_diff(byte));
        return nearest.map(|one| &one.mutant.key).into_iter().collect();
    };
    planted.iter().filter(|one| one.first == inner).map(|one| &one.mutant.key).collect()
}

/// Returns the text of the core's lib.rs with the module of the switch.
fn with_switch(text: &str) -> String {
    format!("#![feature(core_intrinsics, const_eval_select)] {text}\nmod mutant_switch;\n")
}

/// Writes a file unless it has these bytes.
fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}

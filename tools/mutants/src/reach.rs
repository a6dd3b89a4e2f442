//! Which test reaches which mutants, and how long it takes.
//!
//! Each test runs twice, in a process of its own: without a mutant, which shows how long it takes, and while the switch
//! records, which makes it slower. The records are kept beside the build until a program is newer. A test that fails
//! without a mutant kills none: it is named, and left out. A long test is ended after a few seconds: what it reached
//! until then is what it soon reaches.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::copy::{Program, Result};
use crate::process::{self, Outcome};

/// Processor seconds for which a test runs and is recorded, and how long a test counts as that takes more.
const RECORDED: f64 = 12.0;
const LONG: f64 = 120.0;

/// Number of no mutant.
const NONE: &str = "4294967293";

/// Test of a program.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) program: Program,
    pub(crate) name: String,
    /// Processor seconds that it takes.
    pub(crate) seconds: f64,
    /// First mutants of the sites that it reaches, rising.
    pub(crate) reached: Vec<u32>,
    pub(crate) passes: bool,
}

/// Lists the tests of a program that are not ignored.
fn tests_of(program: &Program) -> Result<Vec<String>> {
    let list = |arguments: &[&str]| -> Result<Vec<String>> {
        let output = process::command(program, arguments, LONG).stdout(Stdio::piped()).output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    };
    let ignored = list(&["--list", "--format", "terse", "--ignored"])?;
    Ok(list(&["--list", "--format", "terse"])?.into_iter().filter(|name| !ignored.contains(name)).collect())
}

/// Runs every test once and returns what it reaches; `jobs` at a time.
pub(crate) fn record(work: &Path, programs: &[Program], jobs: usize) -> Result<Vec<Test>> {
    let folder = work.join("reached");
    fs::create_dir_all(&folder)?;
    let mut tests = Vec::new();
    let mut left = Vec::new();
    for program in programs {
        let kept = kept_file(&folder, program);
        let is_new = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
        if let (Some(file), Some(built)) = (is_new(&kept), is_new(&program.path))
            && file > built
        {
            tests.extend(fs::read_to_string(&kept)?.lines().filter_map(|line| parse(program, line)));
        } else {
            left.extend(tests_of(program)?.into_iter().map(|name| (program.clone(), name)));
        }
    }
    println!("{} tests are known, {} run once", tests.len(), left.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Test>> = Mutex::default();
    let worker = |number: usize| -> std::result::Result<(), String> {
        let file = folder.join(format!("worker-{number}"));
        while let Some((program, name)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            let test = record_one(program, name, &file).map_err(|error| error.to_string())?;
            if number == 0 {
                println!("{} of {}: {name} {:.2} s", next.load(Ordering::Relaxed), left.len(), test.seconds);
            }
            done.lock().map_err(|error| error.to_string())?.push(test);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|number| scope.spawn(move || worker(number))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?)
    })?;
    let done = done.into_inner()?;
    let mut by_program: HashMap<PathBuf, String> = HashMap::new();
    for test in &done {
        by_program.entry(kept_file(&folder, &test.program)).or_default().push_str(&line_of(test));
    }
    for (path, text) in by_program {
        fs::write(path, text)?;
    }
    tests.extend(done);
    Ok(tests)
}

fn kept_file(folder: &Path, program: &Program) -> PathBuf {
    folder.join(program.path.file_name().unwrap_or_default()).with_extension("tsv")
}

fn record_one(program: &Program, name: &str, file: &Path) -> Result<Test> {
    let (outcome, seconds) = process::run(program, name, ("MUTANT", NONE), RECORDED)?;
    fs::write(file, [])?;
    let path = file.to_str().ok_or("a path that is no text")?;
    process::run(program, name, ("MUTANTS_REACHED", path), RECORDED)?;
    let bytes = fs::read(file)?;
    let reached = bytes.iter().enumerate().filter(|&(_, &byte)| byte != 0);
    let reached = reached.map(|(number, _)| u32::try_from(number)).collect::<std::result::Result<_, _>>()?;
    let seconds = if outcome == Outcome::TimedOut { LONG } else { seconds };
    let passes = outcome != Outcome::Failed;
    Ok(Test { program: program.clone(), name: name.to_owned(), seconds, reached, passes })
}

fn line_of(test: &Test) -> String {
    let reached: Vec<String> = test.reached.iter().map(u32::to_string).collect();
    format!("{}\t{:.3}\t{}\t{}\n", test.name, test.seconds, test.passes, reached.join(","))
}

fn parse(program: &Program, line: &str) -> Option<Test> {
    let mut fields = line.split('\t');
    Some(Test {
        program: program.clone(),
        name: fields.next()?.to_owned(),
        seconds: fields.next()?.parse().ok()?,
        passes: fields.next()?.parse().ok()?,
        reached: fields.next()?.split(',').filter_map(|number| number.parse().ok()).collect(),
    })
}
